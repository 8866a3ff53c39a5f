"""GGUF headers against the reference implementation that writes them."""

import struct
from pathlib import Path

import gguf as reference
import numpy as np
import pytest

from proxy import gguf

Q = reference.GGMLQuantizationType


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return written(tmp_path / "model.gguf")


def written(path: Path, alignment: int | None = None) -> Path:
    """A model with every kind of metadata and four kinds of tensors."""
    writer = reference.GGUFWriter(path, "llama")
    if alignment:
        writer.add_custom_alignment(alignment)
    writer.add_uint32("llama.expert_count", 8)
    writer.add_float32("llama.rope.freq_base", 500000.0)
    writer.add_bool("tokenizer.ggml.add_bos_token", True)
    writer.add_uint64("general.count", 2**40)
    writer.add_array("tokenizer.ggml.tokens", ["<s>", "a", "ö" * 9])
    writer.add_array("tokenizer.ggml.scores", [0.5, 1.5, 2.5])
    writer.add_array("nested", [[1, 2], [3]])
    writer.add_string("general.name", "a model")
    writer.add_tensor("a.weight", np.zeros((4, 64), np.float32))
    writer.add_tensor("b.bias", np.zeros(7, np.float16))
    writer.add_tensor("c.weight", np.zeros((2, 34), np.uint8), raw_dtype=Q.Q8_0)
    writer.add_tensor("d.weight", np.zeros((3, 144), np.uint8), raw_dtype=Q.Q4_K)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_scalars_of_the_metadata_are_read_and_arrays_skipped(model: Path) -> None:
    assert gguf.read(model).metadata == {
        "general.architecture": "llama",
        "llama.expert_count": 8,
        "llama.rope.freq_base": 500000.0,
        "tokenizer.ggml.add_bos_token": True,
        "general.count": 2**40,
        "general.name": "a model",
    }


@pytest.mark.parametrize("alignment", [None, 64])
def test_sizes_of_tensors_are_those_of_the_reference_but_for_padding(
    tmp_path: Path, alignment: int | None
) -> None:
    path = written(tmp_path / "aligned.gguf", alignment)
    tensors = gguf.read(path).tensors
    known = {one.name: int(one.n_bytes) for one in reference.GGUFReader(path).tensors}
    assert known == {"a.weight": 1024, "b.bias": 14, "c.weight": 68, "d.weight": 432}
    assert tensors.keys() == known.keys()
    for name, size in known.items():
        assert size <= tensors[name] < size + (alignment or 32)


def test_another_file_is_none(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(b"no model")
    with pytest.raises(ValueError, match=r"x\.gguf is no GGUF file$"):
        gguf.read(path)


def test_a_version_that_is_not_known_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 1, 0, 0))
    with pytest.raises(ValueError, match="GGUF version 1 is none that can be read"):
        gguf.read(path)


def test_a_file_that_ends_anywhere_before_its_last_tensor_is_refused(model: Path) -> None:
    data = model.read_bytes()
    padded = 448
    for end in [*range(4, len(data) - padded, 5), len(data) - padded]:
        model.write_bytes(data[:end])
        with pytest.raises(ValueError, match=r"header cannot be read|cut short"):
            gguf.read(model)


def test_any_damaged_byte_of_the_header_is_an_error_or_another_header(model: Path) -> None:
    data = model.read_bytes()
    for at in range(4, len(data) - 1024 - 14 - 68 - 432, 3):
        model.write_bytes(data[:at] + b"\xff" + data[at + 1 :])
        try:
            gguf.read(model)
        except ValueError as problem:
            assert "\n" not in str(problem)
