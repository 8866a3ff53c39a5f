"""Exchanges in OpenTelemetry's words: the right names, nothing that is not known, no text."""

import re
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as known
from records import end, rejected

from proxy.address import Upstream
from proxy.formats import APIS
from proxy.genai import KINDS, common, counted, error_type, span_attributes, span_name

UP = Upstream("up", "https", "engine.test", 8443)
OURS: dict[str, Any] = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "server.address": "engine.test",
    "server.port": 8443,
    "tokometer.upstream": "up",
}
TOLD: dict[str, Any] = {
    "request_id": "r-1",
    "ttft_seconds": 0.5,
    "decode_tokens_per_second": 20.0,
    "prompt_tokens": 70,
    "cached_prompt_tokens": 64,
    "output_tokens": 9,
    "reasoning_tokens": 4,
    "token_source": "usage",
    "finish_reason": "stop",
}


def test_every_interface_is_an_operation_of_somebody() -> None:
    assert KINDS.keys() == set(APIS) - {"other"}
    operations = {one.value for one in known.GenAiOperationNameValues}
    assert {kind.operation for kind in KINDS.values()} - operations == {"rerank", "audio"}


def test_a_measurement_has_the_label_of_its_model() -> None:
    model = {"gen_ai.request.model": "m", "gen_ai.response.model": "m"}
    assert common(UP, "chat", "m") == OURS | model
    assert common(UP, "chat", "unknown") == OURS


def test_an_error_is_the_status_of_a_rejection_or_the_outcome() -> None:
    assert error_type(end(1, 1.0)) is None
    assert error_type(rejected(1, 1.0)) == "429"
    assert error_type(rejected(1, 1.0, code=432)) == "4xx"
    for outcome in ("client_closed", "truncated", "unreachable", "timeout", "aborted"):
        assert error_type(end(1, 1.0, outcome=outcome)) == outcome


def test_a_span_keeps_the_status_that_a_metric_folds() -> None:
    attributes = span_attributes(UP, rejected(1, 1.0, code=432), "m")
    assert (attributes["http.response.status_code"], attributes["error.type"]) == (432, "4xx")


def test_an_estimate_is_no_count() -> None:
    tokens: dict[str, Any] = {"prompt_tokens": 7, "output_tokens": 0}
    for source in ("usage", "engine", "stream"):
        record = end(1, 1.0, token_source=source, **tokens)
        assert counted(record) == {"input": 7, "output": 0}
    assert counted(end(1, 1.0, token_source="estimate", **tokens)) == {"input": 7}
    assert counted(end(1, 1.0, token_source="none")) == {}
    assert counted(rejected(1, 1.0, token_source="usage", **tokens)) == {}


def test_a_span_tells_all_that_is_known() -> None:
    record = end(1, 1.0, "m-1", **TOLD)
    assert span_name(record, "m-asked") == "chat m-asked"
    assert span_attributes(UP, record, "m-asked") == OURS | {
        "gen_ai.request.model": "m-asked",
        "gen_ai.response.model": "m-1",
        "gen_ai.request.stream": True,
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.response.time_to_first_chunk": 0.5,
        "gen_ai.usage.input_tokens": 70,
        "gen_ai.usage.output_tokens": 9,
        "gen_ai.usage.cache_read.input_tokens": 64,
        "gen_ai.usage.reasoning.output_tokens": 4,
        "http.response.status_code": 200,
        "tokometer.outcome": "completed",
        "tokometer.request_id": "r-1",
        "tokometer.decode_tokens_per_second": 20.0,
        "tokometer.token_source": "usage",
    }


def test_what_is_not_known_is_not_in_a_span() -> None:
    record = rejected(1, 1.0, "whatever", stream=False)
    assert span_name(record, "") == "chat"
    assert span_attributes(UP, record, "") == OURS | {
        "gen_ai.request.stream": False,
        "http.response.status_code": 429,
        "error.type": "429",
        "tokometer.outcome": "rejected",
    }


@pytest.mark.parametrize("text", ["a\nb", "x" * 500])
def test_what_others_wrote_is_cleaned(text: str) -> None:
    attributes = span_attributes(UP, end(1, 1.0, text, finish_reason=text), "m")
    for name in ("gen_ai.response.model", "gen_ai.response.finish_reasons"):
        value = attributes[name]
        (one,) = value if isinstance(value, list) else [value]
        assert str(one).isprintable()
        assert len(str(one)) <= 128


def test_names_are_those_of_the_conventions() -> None:
    exist = {value for name, value in vars(known).items() if re.fullmatch("GEN_AI_[A-Z_]+", name)}
    record = end(1, 1.0, finish_reason="stop", ttft_seconds=1.0, reasoning_tokens=1)
    names = {name for name in span_attributes(UP, record, "m") if name.startswith("gen_ai.")}
    assert names - exist == set()


DOCS = Path(__file__).parents[1] / "docs" / "opentelemetry.md"


def test_the_docs_list_what_every_interface_is() -> None:
    rows = [f"| `{api}` | `{kind.operation}` | `{kind.provider}` |" for api, kind in KINDS.items()]
    text = DOCS.read_text("utf-8")
    assert text[text.index("<!-- kinds -->") :].splitlines()[3 : 3 + len(rows) + 1] == [
        *rows,
        "<!-- end -->",
    ]


def test_the_docs_list_every_attribute_and_no_other() -> None:
    everything = end(1, 1.0, outcome="truncated", **TOLD)
    names = {*span_attributes(UP, everything, "m"), "gen_ai.token.type"}
    text = DOCS.read_text("utf-8")
    listed = set(re.findall(r"`((?:gen_ai|server|tokometer|http|error)\.[a-z0-9_.]+)`", text))
    metrics = {name for name in listed if re.match(r"gen_ai\.(client|server)\.", name)}
    assert listed - metrics == names
