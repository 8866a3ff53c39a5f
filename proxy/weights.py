"""How many bytes of a model's weights are read for each token, by the headers of its files.

That is all of them, but of a mixture of experts only those that are used: of the tensors that hold
routed experts, the used share. The embedding table counts too, though one row of it is read where
it is not the output layer as well: published figures take the size of the file.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from proxy import gguf, safetensors

# GGUF's `blk.0.ffn_up_exps.weight`, before 2024 `blk.0.ffn_up.3.weight`; `...mlp.experts.3.up_proj`
# and `...mlp.experts.gate_up_proj` of safetensors.
_ROUTED = re.compile(r"_exps\.|\.ffn_(?:gate|up|down)\.\d+\.|\bexperts\.")
_SPLIT = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf")
_INDEX = "*.safetensors.index.json"
# How configurations name the number of experts, and how many of them a token uses.
_EXPERTS = ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")
_USED = (
    *("num_experts_per_tok", "num_experts_per_token", "experts_per_token"),
    *("moe_top_k", "moe_topk", "moe_k", "top_k_experts"),
)
_WHOLE = "all of it is taken"
_UNTOLD = "how many experts are used is not told"
_UNNAMED = "it has experts, but no tensor is named as theirs"


class Weights(NamedTuple):
    """`total`: bytes of all tensors; `note`: what is to be known of the figure, can be empty."""

    bytes_per_token: float
    total: int
    note: str


class _Found(NamedTuple):
    tensors: dict[str, int]
    experts: int | None
    used: int | None


def weights(text: str) -> Weights:
    """Of a GGUF or safetensors file, an index of such files, or the directory of a model.

    Raises ValueError, one line, if there is none that can be read.
    """
    path = Path(text)
    try:
        return _active(_found(_model(path)))
    except OSError as error:
        raise ValueError(
            f"cannot read {error.filename or path} ({error.strerror}): give a GGUF or safetensors "
            "file, or a folder of them, that this machine can read"
        ) from None


def _model(path: Path) -> Path:
    """The file to begin with: of a directory, the one that names the others."""
    if not path.is_dir():
        return path
    for pattern in ("model.safetensors.index.json", _INDEX, "model.safetensors", "*.safetensors"):
        if found := sorted(path.glob(pattern)):
            break
    else:
        found = sorted(one for one in path.glob("*.gguf") if _is_first(one))
    if len(found) != 1:
        raise ValueError(f"{path} holds {_what(found)}: name the file of the model")
    return found[0]


def _is_first(path: Path) -> bool:
    split = _SPLIT.fullmatch(path.name)
    return split is None or int(split[2]) == 1


def _what(found: list[Path]) -> str:
    return " and ".join(one.name for one in found[:3]) if found else "no GGUF or safetensors file"


def _found(path: Path) -> _Found:
    if path.suffix == ".json":
        return _configured(path, safetensors.parts(path))
    if path.suffix == ".safetensors":
        return _configured(path, [path])
    return _gguf(path)


def _gguf(path: Path) -> _Found:
    split = _SPLIT.fullmatch(path.name)
    paths = [path]
    if split:
        numbers = range(1, int(split[3]) + 1)
        paths = [path.with_name(f"{split[1]}-{n:05}-of-{split[3]}.gguf") for n in numbers]
    headers = [gguf.read(one) for one in paths]
    metadata = headers[0].metadata
    kind = metadata.get("general.architecture")
    tensors = {name: size for header in headers for name, size in header.tensors.items()}
    return _Found(
        tensors,
        _positive(metadata.get(f"{kind}.expert_count")),
        _positive(metadata.get(f"{kind}.expert_used_count")),
    )


def _configured(path: Path, paths: list[Path]) -> _Found:
    """Tensors of safetensors files, with what the model's `config.json` beside them says."""
    tensors: dict[str, int] = {}
    for one in paths:
        tensors |= safetensors.tensors(one)
    config = _config(path.with_name("config.json"))
    return _Found(tensors, _named(config, _EXPERTS), _named(config, _USED))


def _config(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        config = orjson.loads(path.read_bytes())
    except ValueError:
        raise ValueError(f"{path} is not JSON") from None
    return config if isinstance(config, dict) else {}


def _named(config: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    """Models for more than text keep the text's part in a table of its own."""
    tables = [config, *(value for value in config.values() if isinstance(value, dict))]
    found = (_positive(table.get(name)) for table in tables for name in names)
    return next((number for number in found if number), None)


def _positive(value: object) -> int | None:
    return value if type(value) is int and value > 0 else None


def _active(found: _Found) -> Weights:
    total = sum(found.tensors.values())
    routed = sum(size for name, size in found.tensors.items() if _ROUTED.search(name))
    if not total:
        raise ValueError("no tensors are in it: name the file of the model's weights")
    if not routed:
        mixed = (found.experts or 1) > 1
        return Weights(total, total, f"{_UNNAMED}: {_WHOLE}" if mixed else "")
    if not found.experts or not found.used or found.used > found.experts:
        return Weights(total, total, f"{_UNTOLD}: {_WHOLE}")
    active = total - routed + routed * found.used / found.experts
    return Weights(active, total, f"{found.used} of {found.experts} experts are used")
