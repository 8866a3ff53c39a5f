"""What answers of an inference server tell of it: engine, version, models.

Pure and total: answers are JSON of any shape. Sources: recordings of llama.cpp and vLLM; the
documentation of Ollama (`/api/version`, `/api/tags`), TGI and text-embeddings-inference (`/info`)
and SGLang (`/server_info`, before `/get_server_info`).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import orjson

from proxy.formats.event import JSON, mapping, mappings, text

LIST = "/v1/models"
# Longer lists, in bytes of JSON, are taken for unknown: with the rest they must fit in a record.
_MOST_BYTES = 200_000
MOST_NAME_CHARACTERS = 256


class Facts(NamedTuple):
    """What is known of an upstream; empty is unknown. `models` is its own list."""

    engine: str = ""
    version: str = ""
    models: tuple[str, ...] = ()


class Reply(NamedTuple):
    """An answer to one of our questions; `body` is None where it is no JSON."""

    status: int
    server: str
    body: JSON

    @property
    def told(self) -> JSON:
        """The body of a 2xx."""
        return self.body if 200 <= self.status < 300 else None


class Question(NamedTuple):
    """A path that tells what an engine is; `read` gives None where an answer does not."""

    engine: str
    path: str
    read: Callable[[JSON], Facts | None]


def models(body: JSON) -> tuple[str, ...]:
    """The names in a list of models: OpenAI's (`data`, `id`) or Ollama's (`models`, `name`)."""
    names = [text(entry.get("id")) or text(entry.get("name")) for entry in _entries(body)]
    found = tuple(dict.fromkeys(name[:MOST_NAME_CHARACTERS] for name in names if name))
    return found if len(orjson.dumps(found)) <= _MOST_BYTES else ()


def engine_of(reply: Reply) -> str:
    """The engine that the list of models is from; empty where that is not to be seen."""
    owners = {owner for entry in _entries(reply.told) if (owner := text(entry.get("owned_by")))}
    for owner in owners:
        if owner in _OWNERS:
            return _OWNERS[owner]
    return "llama.cpp" if reply.server.startswith("llama.cpp") else ""


def questions(engine: str) -> Sequence[Question]:
    """What to ask a server that is taken for `engine`; all there is if that is empty."""
    if not engine:
        return _QUESTIONS
    known = [question for question in _QUESTIONS if question.engine == engine]
    return known or [Question(engine, "/version", _plain(engine))]


def health(engine: str) -> str:
    """The path of the cheapest sign of life."""
    return _HEALTH.get(engine, "/health")


def _entries(body: JSON) -> list[dict[str, JSON]]:
    listing = mapping(body)
    return mappings(listing.get("data") or listing.get("models"))


# What engines write into `owned_by`, where others have an organisation's name.
_OWNERS = {
    "vllm": "vllm",
    "llamacpp": "llama.cpp",
    "sglang": "sglang",
    "lmdeploy": "lmdeploy",
    "tokometer": "tokometer-engine",
}

# These answer to any name with the one model that they have, and some echo that name.
INDIFFERENT = frozenset(("llama.cpp", "sglang", "tgi"))

# The health checks of these generate a token.
_HEALTH = {"sglang": LIST, "tgi": "/info", "ollama": "/api/version"}


def _name(value: JSON) -> str:
    """A text, of which no more is kept than anybody would write; empty if it is none."""
    return (text(value) or "")[:MOST_NAME_CHARACTERS]


def _plain(engine: str) -> Callable[[JSON], Facts | None]:
    """Of an answer that is a version and nothing else."""

    def read(body: JSON) -> Facts | None:
        version = _name(mapping(body).get("version"))
        return Facts(engine, version) if version and len(body) == 1 else None

    return read


def _llamacpp(body: JSON) -> Facts | None:
    props = mapping(body)
    if "default_generation_settings" not in props:
        return None
    return Facts("llama.cpp", _name(props.get("build_info")))


def _huggingface(body: JSON) -> Facts | None:
    info = mapping(body)
    model = text(info.get("model_id"))
    if model is None:
        return None
    # Only text-embeddings-inference tells the model's type.
    engine = "tei" if "model_type" in info else "tgi"
    return Facts(engine, _name(info.get("version")), (_name(model),))


def _sglang(body: JSON) -> Facts | None:
    info = mapping(body)
    if "model_path" not in info:
        return None
    return Facts("sglang", _name(info.get("version")))


_QUESTIONS = (
    Question("vllm", "/version", _plain("vllm")),
    Question("ollama", "/api/version", _plain("ollama")),
    Question("llama.cpp", "/props", _llamacpp),
    Question("tgi", "/info", _huggingface),
    Question("sglang", "/server_info", _sglang),
    Question("sglang", "/get_server_info", _sglang),
)
