"""The table of interfaces: paths, recordings for each row, and any JSON for each function."""

import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxy.formats import APIS, OTHER, TABLE, interface
from proxy.formats.event import ENGINE_KEYS, Call, Event, Usage

from .recordings import (
    FOLDER,
    engine,
    events,
    last_usage,
    objects,
    payloads,
    recording,
)

# Where each kind of recording was asked for; the longest beginning of a file's name wins.
PATHS = {
    "audio-speech": "/v1/audio/speech",
    "audio-transcription": "/v1/audio/transcriptions",
    "bedrock-converse-stream": "/model/acme.tiny-v1:0/converse-stream",
    "bedrock-converse-whole": "/model/acme.tiny-v1:0/converse",
    "bedrock-invoke": "/model/acme.tiny-v1:0/invoke-with-response-stream",
    "chat": "/v1/chat/completions",
    "cohere-v1": "/v1/chat",
    "cohere-v2": "/v2/chat",
    "completions": "/v1/completions",
    "embeddings": "/v1/embeddings",
    "error": "/v1/chat/completions",
    "gemini-embed": "/v1beta/models/tiny:embedContent",
    "gemini-stream": "/v1beta/models/tiny:streamGenerateContent",
    "gemini-whole": "/v1beta/models/tiny:generateContent",
    "llamacpp-completion": "/completion",
    "llamacpp-infill": "/infill",
    "lmstudio": "/api/v1/chat",
    "messages": "/v1/messages",
    "ollama-chat": "/api/chat",
    "ollama-embed": "/api/embed",
    "ollama-generate": "/api/generate",
    "rerank": "/v1/rerank",
    "responses": "/v1/responses",
    "sglang": "/generate",
    "tgi-generate": "/generate_stream",
    "tgi-root": "/",
    "tgi-triton": "/v2/models/ensemble/generate_stream",
}
RECORDINGS = sorted(file.name for file in FOLDER.iterdir() if file.suffix in (".txt", ".bin"))

ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["\ud800", "9" * 400]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


def path_of(name: str) -> str:
    return PATHS[max((start for start in PATHS if name.startswith(start)), key=len)]


@pytest.mark.parametrize("part", ["/model/", "/models/a", "/responses/", "/a:b", "/", "a/chat"])
@pytest.mark.parametrize("end", ["", "/converse-strea", "/chat/completions", "/model/x/converse"])
def test_a_path_of_many_parts_takes_a_pattern_about_as_long_as_one_of_few(
    part: str, end: str
) -> None:
    def cost(path: str) -> float:
        def once() -> float:
            start = time.process_time()
            for row in TABLE:
                row.path_ends.search(path)
            return time.process_time() - start

        return min(once() for _ in range(5))

    few = part * (1000 // len(part))
    assert cost(few * 16 + end) < 100 * cost(few + end) + 1e-4


def test_a_path_longer_than_any_interface_has_is_of_none() -> None:
    assert interface("/" + "a" * 4000 + "/v1/chat/completions").api == "chat"
    assert interface("/" + "a" * 5000 + "/v1/chat/completions").api == "other"


def test_every_row_has_a_recording() -> None:
    recorded = {id(interface(path_of(name))) for name in RECORDINGS}
    assert [row.path_ends.pattern for row in TABLE if id(row) not in recorded] == []


def test_every_recording_says_where_it_is_from() -> None:
    readme = (FOLDER / "README.md").read_text()
    assert [name for name in RECORDINGS if f"`{name}`" not in readme] == []


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_recording_is_the_same_wherever_it_is_cut(name: str) -> None:
    found = recording(name)
    body = found.body
    whole = payloads(found.content_type, [body])
    assert whole
    step = 1 if len(body) < 1500 else 11
    for cut in range(0, len(body), step):
        assert payloads(found.content_type, [body[:cut], body[cut:]]) == whole
    assert payloads(found.content_type, [body[i : i + 1] for i in range(len(body))]) == whole


@pytest.mark.parametrize("name", [name for name in RECORDINGS if not name.startswith("error")])
def test_every_recording_tells_something_and_no_error(name: str) -> None:
    found = events(name, path_of(name))
    failed = "exception" in name
    assert [event.error for event in found] == [False] * (len(found) - failed) + [True] * failed
    assert (
        any(event != Event() for event in found) or "embed" in name or name == "rerank-cohere.txt"
    )
    assert engine(found).keys() <= ENGINE_KEYS.keys()
    usage = last_usage(found)
    assert (usage.output or 0) <= 200 and (usage.prompt or 0) <= 300


@pytest.mark.parametrize(
    ("path", "api"),
    [
        ("/v1/chat/completions", "chat"),
        ("/openai/deployments/gpt-x/chat/completions", "chat"),
        ("/api/v1/chat/completions", "chat"),
        ("/api/v0/chat/completions/", "chat"),
        ("/serve/v1/completions", "completions"),
        ("/v1/responses", "responses"),
        ("/openai/responses/resp_1", "responses"),
        ("/v1/messages", "messages"),
        ("/messages", "messages"),
        ("/anthropic/v1/messages", "messages"),
        ("/v1/projects/p/publishers/anthropic/models/claude-x:streamRawPredict", "messages"),
        ("/api/chat", "ollama_chat"),
        ("/ollama/api/generate", "ollama_generate"),
        ("/api/embed", "embeddings"),
        ("/api/embeddings", "embeddings"),
        ("/api/v1/chat", "chat"),
        ("/completion", "llamacpp"),
        ("/infill", "llamacpp"),
        ("/generate_stream", "tgi"),
        ("/", "tgi"),
        ("", "tgi"),
        ("/v2/models/m/generate_stream", "tgi"),
        ("/generate", "sglang"),
        ("/v1beta/models/gemini-x:streamGenerateContent", "gemini"),
        ("/v1/projects/p/publishers/google/models/gemini-x:generateContent", "gemini"),
        ("/v1beta/models/embedder:batchEmbedContents", "embeddings"),
        ("/model/anthropic.claude-x-v1:0/converse-stream", "bedrock"),
        ("/model/arn:aws:bedrock:eu:1:inference-profile/x/invoke", "bedrock"),
        ("/v2/chat", "cohere"),
        ("/v1/chat", "cohere"),
        ("/embedding", "embeddings"),
        ("/v2/embed", "embeddings"),
        ("/pooling", "embeddings"),
        ("/v2/rerank", "rerank"),
        ("/score", "rerank"),
        ("/v1/audio/speech", "audio"),
        ("/v1/audio/translations", "audio"),
    ],
)
def test_an_interface_is_found_behind_any_prefix(path: str, api: str) -> None:
    assert interface(path).api == api


@pytest.mark.parametrize(
    "path",
    [
        "/v1/messages/count_tokens",
        "/v1/messages/batches",
        "/v1/threads/t_1/messages",
        "/v1/responses/input_tokens",
        "/v1/responses/r_1/cancel",
        "/v1/models",
        "/v1/moderations",
        "/v1beta/models/m:countTokens",
        "/v1/images/generations",
        "/api/pull",
        "/api/tags",
        "/api/show",
        "/tokenize",
        "/metrics",
        "/health",
        "/v1/realtime",
        "/index.html",
    ],
)
def test_what_generates_nothing_is_other(path: str) -> None:
    assert interface(path) is OTHER
    assert OTHER.call({"model": "m"}, path) == Call("other")
    assert OTHER.event({"choices": []}, "") is None


def test_the_labels_are_those_of_the_contract() -> None:
    assert set(APIS) == {
        *("chat", "completions", "responses", "messages", "ollama_chat", "ollama_generate"),
        *("llamacpp", "tgi", "gemini", "bedrock", "cohere", "sglang", "embeddings", "rerank"),
        *("audio", "other"),
    }


# --- any JSON -------------------------------------------------------------------------------------


def words(value: Any) -> set[str]:
    """Keys and short texts of a JSON value."""
    if isinstance(value, dict):
        return set(value) | {word for inner in value.values() for word in words(inner)}
    if isinstance(value, list):
        return {word for inner in value for word in words(inner)}
    return {value} if isinstance(value, str) and len(value) < 30 else set()


VALUES = [
    (body, name)
    for file in RECORDINGS
    for body, name in objects(payloads(recording(file).content_type, [recording(file).body]))
]
WORDS = sorted({word for body, name in VALUES for word in words(body) | {name}})


def damaged(value: Any, path: list[int], junk: Any) -> Any:
    """The value with junk in the place that the path leads to."""
    if not path or not isinstance(value, dict | list) or not value:
        return junk
    if isinstance(value, list):
        at = path[0] % len(value)
        return [damaged(v, path[1:], junk) if i == at else v for i, v in enumerate(value)]
    at = sorted(value)[path[0] % len(value)]
    return {k: damaged(v, path[1:], junk) if k == at else v for k, v in value.items()}


def check(event: Event | None) -> None:
    """What the meter relies on."""
    if event is None:
        return
    for number in (event.visible, event.hidden, event.index, event.finished):
        assert type(number) is int and number >= 0
    for count in (event.tokens, event.so_far):
        assert count is None or (type(count) is int and count > 0)
    assert event.model is None or (isinstance(event.model, str) and event.model)
    assert event.finish is None or isinstance(event.finish, str)
    assert all(type(flag) is bool for flag in (event.whole, event.end, event.error))
    assert event.engine is None or (event.engine and event.engine.keys() <= ENGINE_KEYS.keys())
    assert all(type(value) is float and value >= 0 for value in (event.engine or {}).values())
    if event.usage is not None:
        counts = [getattr(event.usage, field) for field in Usage.__slots__[:6]]
        assert all(count is None or (type(count) is int and count >= 0) for count in counts)
        assert any(counts)


JUNK = st.dictionaries(st.sampled_from(WORDS), ANY | st.sampled_from(WORDS), max_size=6)


# Examples cost what the machine has left for them, which is no property of the code.
SLOWLY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@settings(SLOWLY, max_examples=300)
@given(
    body=st.sampled_from(VALUES),
    path=st.lists(st.integers(0, 9), min_size=1, max_size=6),
    junk=ANY | JUNK | st.sampled_from(WORDS),
    name=st.sampled_from(["", "error", "contentBlockDelta", "metadata", "message_start"]),
)
def test_no_event_function_stumbles_over_damaged_payloads(
    body: tuple[dict[str, Any], str], path: list[int], junk: Any, name: str
) -> None:
    payload = damaged(body[0], path, junk)
    for row in TABLE:
        check(row.event(payload, body[1] or name))


@settings(SLOWLY, max_examples=200)
@given(JUNK, st.sampled_from(WORDS))
def test_no_event_function_stumbles_over_any_json(payload: dict[str, Any], name: str) -> None:
    for row in TABLE:
        check(row.event(payload, name))


KEYS = [
    *("model", "messages", "prompt", "input", "stream", "stream_options", "n", "echo", "system"),
    *("text", "input_ids", "inputs", "contents", "parts", "content", "role", "tools", "documents"),
    *("query", "sampling_params", "generationConfig", "candidateCount", "diffusing", "requests"),
]
BODIES = st.recursive(
    st.none() | st.just(True) | st.integers() | st.floats() | st.just("\ud800 text"),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(SLOWLY, max_examples=150)
@given(
    st.dictionaries(st.sampled_from(KEYS), BODIES, max_size=8),
    st.sampled_from([*PATHS.values(), "/x", "/model//invoke", "/openai/deployments/d/completions"]),
    st.sampled_from(VALUES),
)
def test_no_call_function_stumbles_over_any_json(
    body: dict[str, Any], path: str, value: tuple[dict[str, Any], str]
) -> None:
    for row in TABLE:
        call = row.call(body, path)
        assert call.api in APIS
        assert call.choices >= 1
        assert call.prompt_characters is None or call.prompt_characters > 0
        assert call.model is None or (isinstance(call.model, str) and call.model)
        assert all(type(flag) is bool for flag in (call.stream, call.asks_usage))
        if call.reader is not None:
            check(call.reader(*value))


def test_deep_nesting_is_no_trouble() -> None:
    deep: Any = "x"
    for _ in range(1000):
        deep = {"content": [deep], "text": deep, "arguments": deep}
    for row in TABLE:
        row.call({"messages": deep, "input": deep, "tools": deep, "contents": deep}, "/x")
        for payload, name in VALUES:
            check(row.event(damaged(payload, [0, 0, 0], deep), name))
