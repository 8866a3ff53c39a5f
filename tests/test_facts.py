from typing import Any

import orjson
import pytest

from proxy import facts
from proxy.channel import Probed
from proxy.facts import Facts, Reply
from proxy.sender import _encoded

# What recorded servers answered, shortened.
VLLM = {"object": "list", "data": [{"id": "tiny", "object": "model", "owned_by": "vllm"}]}
LLAMACPP = {
    "models": [{"name": "gemma", "model": "gemma", "capabilities": ["completion"]}],
    "object": "list",
    "data": [{"id": "gemma", "object": "model", "owned_by": "llamacpp"}],
}
PROPS = {
    "default_generation_settings": {"n_ctx": 2048},
    "build_info": "b6000-abc",
    "total_slots": 8,
}
# As documented.
OLLAMA = {"models": [{"name": "llama3:latest", "model": "llama3:latest", "size": 5}]}
TGI = {"model_id": "bigscience/bloom", "version": "2.0.4", "router": "text-generation-router"}
TEI = {"model_id": "BAAI/bge", "version": "1.5", "model_type": {"embedding": {"pooling": "cls"}}}
SGLANG = {"model_path": "qwen", "tokenizer_path": "qwen", "version": "0.5.1", "api_key": None}


def asked(engine: str, path: str, body: Any) -> Facts | None:
    (question,) = [one for one in facts.questions(engine) if one.path == path]
    return question.read(body)


def read_facts(engine: str, path: str, body: Any) -> Facts:
    told = asked(engine, path, body)
    assert told is not None
    return told


def read(engine: str, path: str, body: Any) -> tuple[str, str] | None:
    told = asked(engine, path, body)
    return told and told[:2]


@pytest.mark.parametrize(
    ("body", "names"),
    [
        (VLLM, ("tiny",)),
        (LLAMACPP, ("gemma",)),
        (OLLAMA, ("llama3:latest",)),
        ({"data": [{"id": "b"}, {"id": "a"}, {"id": "b"}]}, ("b", "a")),
        ({"data": []}, ()),
        ({"data": [{"id": 5}, {}, "x", None, {"id": ""}]}, ()),
        ({"data": {"id": "lone"}}, ("lone",)),
        ([], ()),
        ("text", ()),
        (None, ()),
    ],
)
def test_names_of_a_list_of_models(body: Any, names: tuple[str, ...]) -> None:
    assert facts.models(body) == names


def test_a_list_that_is_too_long_to_tell_is_none() -> None:
    listed = [{"id": f"{number:0197}"} for number in range(999)]
    assert len(facts.models({"data": listed})) == 999
    assert facts.models({"data": [*listed, *({"id": f"x{n:0200}"} for n in range(5))]}) == ()
    (name,) = facts.models({"data": [{"id": "x" * 10_000}]})
    assert len(name) == 256


@pytest.mark.parametrize("character", ["x", "模", "\0", '"', "\U0001f600"])
def test_whatever_is_listed_what_is_told_of_it_fits_in_a_record(character: str) -> None:
    for count in range(1, 1000, 9):
        body = {"data": [{"id": f"{n}{character * 200}"} for n in range(count)]}
        if not (found := facts.models(body)):
            break
    assert count > 100
    assert found == ()
    longest = facts.models({"data": body["data"][: count - 9]})
    version = read_facts("vllm", "/version", {"version": character * 1_000_000})
    record: Probed = {
        "kind": "probed",
        "upstream": "up",
        "up": True,
        "engine": version.engine,
        "version": version.version,
        "models": list(longest),
    }
    assert _encoded(record)


@pytest.mark.parametrize(
    ("engine", "path", "body"),
    [
        ("llama.cpp", "/props", PROPS | {"build_info": "x" * 1000}),
        ("tgi", "/info", TGI | {"version": "x" * 1000, "model_id": "x" * 1000}),
        ("sglang", "/server_info", SGLANG | {"version": "x" * 1000}),
        ("ollama", "/api/version", {"version": "x" * 1000}),
    ],
)
def test_no_more_is_kept_of_a_name_than_anybody_would_write(
    engine: str, path: str, body: Any
) -> None:
    told = read_facts(engine, path, body)
    assert max(map(len, (told.version, *told.models))) == 256


@pytest.mark.parametrize(
    ("status", "server", "body", "engine"),
    [
        (200, "uvicorn", VLLM, "vllm"),
        (200, "llama.cpp", LLAMACPP, "llama.cpp"),
        (404, "llama.cpp", {"error": {}}, "llama.cpp"),
        (200, "", {"data": [{"id": "m", "owned_by": "sglang"}]}, "sglang"),
        (200, "", {"data": [{"id": "m", "owned_by": "library"}]}, ""),
        (200, "nginx/1.2", {"data": [{"id": "m", "owned_by": ["vllm"]}]}, ""),
        (401, "uvicorn", VLLM, ""),
        (200, "", None, ""),
    ],
)
def test_the_engine_by_its_list_of_models(status: int, server: str, body: Any, engine: str) -> None:
    assert facts.engine_of(Reply(status, server, body)) == engine


@pytest.mark.parametrize(
    ("engine", "path", "body", "told"),
    [
        ("vllm", "/version", {"version": "0.32.0"}, ("vllm", "0.32.0")),
        ("ollama", "/api/version", {"version": "0.9.1"}, ("ollama", "0.9.1")),
        ("llama.cpp", "/props", PROPS, ("llama.cpp", "b6000-abc")),
        ("llama.cpp", "/props", {"default_generation_settings": {}}, ("llama.cpp", "")),
        ("tgi", "/info", TGI, ("tgi", "2.0.4")),
        ("tgi", "/info", TEI, ("tei", "1.5")),
        ("sglang", "/server_info", SGLANG, ("sglang", "0.5.1")),
        ("sglang", "/get_server_info", SGLANG, ("sglang", "0.5.1")),
        ("tokometer-engine", "/version", {"version": "0.1"}, ("tokometer-engine", "0.1")),
        # Others have these paths too, for other things.
        ("vllm", "/version", {"version": "1", "commit": "abc"}, None),
        ("vllm", "/version", {"version": 1}, None),
        ("llama.cpp", "/props", {"role": "user"}, None),
        ("tgi", "/info", {"version": "2", "name": "a gateway"}, None),
        ("sglang", "/server_info", {"vllm_config": "..."}, None),
    ],
)
def test_what_an_engine_says_of_itself(
    engine: str, path: str, body: Any, told: tuple[str, str] | None
) -> None:
    assert read(engine, path, orjson.loads(orjson.dumps(body))) == told


@pytest.mark.parametrize("body", [None, [], [1], "x", 5, {}, {"version": None}, {"version": {}}])
def test_answers_of_any_shape_are_read_as_nothing(body: Any) -> None:
    for question in facts.questions(""):
        assert question.read(body) is None


def test_a_server_of_no_known_kind_is_asked_everything() -> None:
    paths = [question.path for question in facts.questions("")]
    assert len(paths) == len(set(paths))
    expected = {"/version", "/api/version", "/props", "/info", "/server_info", "/get_server_info"}
    assert set(paths) == expected


def test_no_health_check_is_used_that_generates() -> None:
    assert facts.health("vllm") == facts.health("") == facts.health("llama.cpp") == "/health"
    assert facts.health("sglang") == "/v1/models"
    assert facts.health("tgi") == "/info"
