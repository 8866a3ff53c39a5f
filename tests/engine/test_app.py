from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from engine.rig import FAST, at_once, post, running
from proxy import __version__
from proxy.engine import EngineSettings, build_app
from proxy.engine.app import INTERFACES

PATHS = [*(each.path for each in INTERFACES), "/v1/embeddings"]


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    several = EngineSettings(**FAST, models=("one", "two"))
    with running(several) as url, httpx.Client(base_url=url) as connected:
        yield connected


def test_models_health_and_version_are_told(client: httpx.Client) -> None:
    assert [model["id"] for model in client.get("/v1/models").json()["data"]] == ["one", "two"]
    assert [model["name"] for model in client.get("/api/tags").json()["models"]] == ["one", "two"]
    assert client.get("/health").status_code == 200
    assert client.get("/version").json() == {"version": __version__}
    assert client.get("/api/version").json() == {"version": __version__}


def test_the_server_says_what_it_is(client: httpx.Client) -> None:
    assert client.get("/health").headers["server"] == f"tokometer-engine/{__version__}"


def test_it_can_say_that_it_is_another_release() -> None:
    with running(EngineSettings(**FAST, release="2.0")) as url:
        answer = httpx.get(f"{url}/version")
    assert answer.json() == {"version": "2.0"}
    assert answer.headers["server"] == "tokometer-engine/2.0"


def message(path: str, error: Any) -> str:
    """The text of an error, in the shape that belongs to the path."""
    if path.startswith("/api/"):
        return str(error["error"])
    if path.startswith("/v1/messages"):
        assert (error["type"], set(error["error"])) == ("error", {"type", "message"})
    else:
        assert set(error["error"]) == {"message", "type", "param", "code"}
    return str(error["error"]["message"])


@pytest.mark.parametrize("path", PATHS)
def test_every_interface_refuses_in_its_own_shape(client: httpx.Client, path: str) -> None:
    broken = client.post(path, content=b'{"model": ')
    assert broken.status_code == 400
    assert "JSON" in message(path, broken.json())
    wrong = client.get(path)
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
    assert path in message(path, wrong.json())
    texts = {"messages": [{"content": "x"}], "prompt": "x", "input": "x", "max_tokens": 1}
    missing = client.post(path, json={"model": "three"} | texts)
    assert missing.status_code == 404
    assert "three" in message(path, missing.json())
    assert client.post(path, json=texts | {"stream": False}).json()["model"] == "one"


@pytest.mark.parametrize("path", ["/", "/v1/nothing", "/v1/messages/batches", "/api/nothing"])
def test_an_unknown_path_is_not_found(client: httpx.Client, path: str) -> None:
    answer = client.post(path, json={})
    assert answer.status_code == 404
    assert path in message(path, answer.json())


VALUES = some.recursive(
    some.none() | some.booleans() | some.integers(-2, 300) | some.text(max_size=4),
    lambda inner: (
        some.lists(inner, max_size=3)
        | some.dictionaries(
            some.sampled_from(["type", "name", "function", "text"]), inner, max_size=3
        )
    ),
)
KEYS = """
    messages prompt input system instructions tools tool_choice stream stream_options max_tokens
    max_completion_tokens max_output_tokens n echo options encoding_format dimensions
"""
BODIES = some.dictionaries(
    some.sampled_from(KEYS.split()),
    VALUES | some.just([{"content": "x"}]),
)


@pytest.mark.parametrize("path", PATHS)
@given(body=BODIES)
@settings(max_examples=60, deadline=None)
def test_no_body_makes_an_engine_fail(path: str, body: dict[str, Any]) -> None:
    engine = build_app(EngineSettings(answer_tokens=2, reasoning=1))
    played = at_once(post(engine, path, body))
    assert played.complete
    assert played.status in (200, 400)
