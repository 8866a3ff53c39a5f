import json
import struct
from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np
import pytest
import safetensors.numpy

from proxy.weights import Weights, weights


def of_gguf(path: Path, tensors: Mapping[str, int], **metadata: int) -> Path:
    """A file with tensors of so many bytes (multiples of 32: nothing is padded)."""
    writer = gguf.GGUFWriter(path, "mix")
    for key, number in metadata.items():
        writer.add_uint32(f"mix.{key}", number)
    for name, size in tensors.items():
        writer.add_tensor(name, np.zeros(size, np.int8))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def of_safetensors(path: Path, tensors: Mapping[str, int]) -> Path:
    entries = {name: np.zeros(size, np.int8) for name, size in tensors.items()}
    path.write_bytes(safetensors.numpy.save(entries))
    return path


DENSE = {"token_embd.weight": 320, "blk.0.ffn_up.weight": 640, "output.weight": 64}


def test_of_a_dense_model_all_is_read(tmp_path: Path) -> None:
    assert weights(str(of_gguf(tmp_path / "a.gguf", DENSE))) == Weights(1024, 1024, "")


@pytest.mark.parametrize(
    "experts",
    [
        {"blk.0.ffn_up_exps.weight": 3200, "blk.0.ffn_gate_up_exps.weight": 3200},
        {f"blk.0.ffn_down.{number}.weight": 640 for number in range(10)},
    ],
)
def test_of_a_mixture_only_the_experts_that_are_used_are_read(
    tmp_path: Path, experts: dict[str, int]
) -> None:
    always = {"blk.0.ffn_gate_inp.weight": 32, "blk.0.ffn_up_shexp.weight": 96}
    path = of_gguf(tmp_path / "a.gguf", always | experts, expert_count=10, expert_used_count=2)
    assert weights(str(path)) == Weights(128 + 1280, 6528, "2 of 10 experts are used")


@pytest.mark.parametrize(
    "metadata", [{}, {"expert_count": 8}, {"expert_used_count": 2}, {"expert_count": 0}]
)
def test_where_the_used_share_is_not_told_the_whole_file_is_taken(
    tmp_path: Path, metadata: dict[str, int]
) -> None:
    path = of_gguf(tmp_path / "a.gguf", {"blk.0.ffn_up_exps.weight": 3200}, **metadata)
    found = weights(str(path))
    assert (found.bytes_per_token, found.total) == (3200, 3200)
    assert found.note == "how many experts are used is not told: all of it is taken"


def test_experts_that_no_tensor_is_named_after_are_noted(tmp_path: Path) -> None:
    path = of_gguf(tmp_path / "a.gguf", DENSE, expert_count=8, expert_used_count=2)
    note = "it has experts, but no tensor is named as theirs: all of it is taken"
    assert weights(str(path)) == Weights(1024, 1024, note)
    one = of_gguf(tmp_path / "b.gguf", DENSE, expert_count=1, expert_used_count=1)
    assert weights(str(one)).note == ""


def test_a_split_gguf_is_read_in_all_its_parts(tmp_path: Path) -> None:
    first = of_gguf(tmp_path / "m-00001-of-00002.gguf", {"a": 320})
    second = of_gguf(tmp_path / "m-00002-of-00002.gguf", {"b": 640})
    for named in (first, second, tmp_path):
        assert weights(str(named)).total == 960
    second.unlink()
    with pytest.raises(ValueError, match=r"cannot read .*m-00002-of-00002.gguf \(No such file"):
        weights(str(first))


MIXTURE = {
    "model.layers.0.mlp.gate.weight": 100,
    "model.layers.0.mlp.shared_experts.up_proj.weight": 200,
    "model.layers.0.mlp.experts.0.up_proj.weight": 4000,
    "model.layers.0.mlp.experts.gate_up_proj_blocks": 4000,
}


@pytest.mark.parametrize(
    "config",
    [
        {"num_local_experts": 8, "num_experts_per_tok": 2},
        {"n_routed_experts": 8, "num_experts_per_tok": 2},
        {"num_experts": 8, "num_experts_per_tok": 2},
        {"text_config": {"num_experts": 8, "num_experts_per_tok": 2}, "num_experts": None},
        {"num_experts": 8, "moe_topk": 2},
    ],
)
def test_a_configuration_beside_safetensors_tells_which_experts_are_used(
    tmp_path: Path, config: object
) -> None:
    path = of_safetensors(tmp_path / "model.safetensors", MIXTURE)
    (tmp_path / "config.json").write_text(json.dumps(config))
    for named in (path, tmp_path):
        assert weights(str(named)) == Weights(300 + 2000, 8300, "2 of 8 experts are used")


@pytest.mark.parametrize("config", ["[]", "{}", '{"num_experts": 8, "moe_topk": [2, 2]}', None])
def test_without_a_usable_one_all_is_taken(tmp_path: Path, config: str | None) -> None:
    path = of_safetensors(tmp_path / "model.safetensors", MIXTURE)
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    assert weights(str(path)).bytes_per_token == 8300


def test_an_index_or_its_directory_is_read_in_all_its_parts(tmp_path: Path) -> None:
    of_safetensors(tmp_path / "model-1.safetensors", {"a": 10})
    of_safetensors(tmp_path / "model-2.safetensors", {"b": 20})
    of_safetensors(tmp_path / "consolidated.safetensors", {"a": 10, "b": 20})
    index = tmp_path / "model.safetensors.index.json"
    names = {"a": "model-1.safetensors", "b": "model-2.safetensors"}
    index.write_text(json.dumps({"weight_map": names}))
    for named in (index, tmp_path):
        assert weights(str(named)).total == 30


def test_a_directory_with_several_models_is_refused_with_their_names(tmp_path: Path) -> None:
    of_gguf(tmp_path / "a.gguf", DENSE)
    of_gguf(tmp_path / "b.gguf", DENSE)
    with pytest.raises(ValueError, match=r"holds a.gguf and b.gguf: name the file of the model"):
        weights(str(tmp_path))


def test_what_holds_no_model_is_an_error_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no GGUF or safetensors file: name the file"):
        weights(str(tmp_path))
    with pytest.raises(ValueError, match=r"cannot read .*x \(No such file or directory\): give"):
        weights(str(tmp_path / "x"))
    with pytest.raises(ValueError, match="no tensors are in it"):
        weights(str(of_safetensors(tmp_path / "x.safetensors", {})))
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config.json is not JSON"):
        weights(str(of_safetensors(tmp_path / "x.safetensors", {"a": 1})))


def test_a_nest_in_a_file_of_weights_is_refused(tmp_path: Path) -> None:
    one = struct.pack("<IQ", 9, 1)  # an array of one array
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"k"
    (tmp_path / "a.gguf").write_bytes(head + struct.pack("<I", 9) + one * 100_000)
    with pytest.raises(ValueError, match="its GGUF header cannot be read"):
        weights(str(tmp_path / "a.gguf"))
    nest = b'{"a":' * 100_000
    (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", len(nest)) + nest)
    (tmp_path / "a.json").write_bytes(nest)
    for name in ("a.safetensors", "a.json"):
        with pytest.raises(ValueError, match=name):
            weights(str(tmp_path / name))
