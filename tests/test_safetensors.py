"""Safetensors headers against the reference implementation that writes them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy as reference

from proxy import safetensors

TENSORS: dict[str, np.ndarray[Any, Any]] = {
    "a": np.zeros((4, 8), np.float32),
    "b": np.zeros(3, np.float16),
    "empty": np.zeros(0, np.int8),
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    path.write_bytes(reference.save(TENSORS, {"format": "pt"}))
    return path


def test_sizes_are_those_of_the_tensors(model: Path) -> None:
    assert safetensors.tensors(model) == {"a": 128, "b": 6, "empty": 0}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"1234567",
        bytes(8),
        b"\xff" * 64,
        (2).to_bytes(8, "little") + b"[]",
        (9).to_bytes(8, "little") + b'{"a": {}}',
        (7).to_bytes(8, "little") + b'{"a":1}',
        (25).to_bytes(8, "little") + b'{"a":{"data_offsets":[1]}}',
    ],
)
def test_another_file_is_an_error_in_one_line(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"x\.safetensors: it has no safetensors header"):
        safetensors.tensors(path)


def test_a_file_that_is_cut_anywhere_is_an_error(model: Path) -> None:
    data = model.read_bytes()
    for end in range(len(data)):
        model.write_bytes(data[:end])
        with pytest.raises(ValueError, match=r"no safetensors header|cut short"):
            safetensors.tensors(model)


def test_an_index_names_its_parts_once_each(tmp_path: Path) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "2.st", "b": "1.st", "c": "2.st"}}))
    assert safetensors.parts(index) == [tmp_path / "1.st", tmp_path / "2.st"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"weight_map": 1}', '{"weight_map": {"a": 1}}'])
def test_another_json_file_is_no_index(tmp_path: Path, text: str) -> None:
    index = tmp_path / "x.json"
    index.write_text(text)
    with pytest.raises(ValueError, match="it is no index of safetensors files"):
        safetensors.parts(index)
