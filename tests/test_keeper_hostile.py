"""Names that clients invent, and texts made to break a log, a scrape or a page."""

from typing import Any

import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families
from records import begin, end, output
from test_exposition import parse_openmetrics
from test_keeper import Rig

from proxy.exposition import OPENMETRICS, chosen
from proxy.keeper import Keeper
from proxy.labels import clean

# Printable, as what comes from headers is by the time it is told.
QUOTED = [
    'r"} # {a="b\\',
    '"',
    "\\",
    "\\n",
    '\\"',
    'a"b',
    "a\\b",
    "#",
    " # {",
    "# EOF",
    "}",
    "{}",
    '"} 1 # {trace_id="x"} 1',
    "a,b=c",
    "a b",
    "é",
    "'",
]
NASTY = [
    'a"} 1\nfake_metric{x="',
    "a\nb\r\nc",
    "\x00\x01\x1b[31m\x7f",
    "\u2028\u2029\u202e",
    "\ud7ff\ue000",
    "a" * 5000,
    "\\",
    "",
]


@pytest.fixture
def rig(tmp_path_factory: pytest.TempPathFactory) -> Rig:
    return Rig(tmp_path_factory.mktemp("log") / "requests.jsonl")


def test_ten_thousand_invented_models_are_no_series_and_no_memory(rig: Rig) -> None:
    rig.take(begin(0, 1.0, "real"), end(0, 2.0, "real"))
    before = sum(len(family.samples) for family in rig.collect())
    for id in range(1, 10_001):
        rig.take(begin(id, 1.0, f"invented-{id}", request_id=f"r-{id}", trace=f"r-{id}"))
        rig.take(end(id, 2.0, f"invented-{id}", outcome="rejected", code=404, answered=False))
    found = rig.collect()
    assert "invented" not in str(found)
    # `unknown` has a series for each way to end
    assert sum(len(family.samples) for family in found) < before + 200
    assert rig.total("requests_total", model="unknown", code="404") == 10_000
    assert len(list(rig.keeper._live)) == 0
    assert len(rig.keeper._models._known) < 100
    assert len(rig.lines()) == 10_001


def test_ten_thousand_models_that_an_upstream_invents_are_folded(rig: Rig) -> None:
    for id in range(10_000):
        rig.take(begin(id, 1.0, "asked"), end(id, 2.0, f"invented-{id}"))
    found = rig.collect()
    names = {s.labels["model"] for f in found for s in f.samples if "model" in s.labels}
    assert names == {"invented-0", "invented-1", "invented-2", "other", "unknown"}
    assert rig.total("requests_total", model="other") == 9_997
    assert rig.total("label_overflow_total") >= 9_997
    rig.lines()


@pytest.mark.parametrize("accept", ["text/plain", "application/openmetrics-text; version=1.0.0"])
def test_nasty_names_make_no_lines_of_their_own(rig: Rig, accept: str) -> None:
    for id, name in enumerate(NASTY):
        told = {"finish_reason": name, "error": name}  # ids are checked where they come in
        rig.take(begin(id, 1.0, name, **told), output(id, 1.5, name, first_at=1.5, ttft_seconds=1))
        rig.take(end(id, 2.0, name, **told, ttft_seconds=1.0, duration_seconds=1.0))
    text = chosen(accept).render(rig.collect()).decode()
    assert "\nfake_metric" not in text
    assert not [c for c in text if not c.isprintable() and c != "\n"]
    if accept == "text/plain":
        assert list(text_string_to_metric_families(text))
    rig.lines()
    raw = rig.log.read_bytes()
    assert raw.count(b"\n") == len(NASTY)
    for line, name in zip(raw.splitlines(), NASTY, strict=True):
        assert orjson.loads(line)["finish_reason"] == name
        assert not [byte for byte in line if byte < 0x20]


def test_server_headers_that_change_all_the_time_are_one_series(rig: Rig) -> None:
    for number in range(1000):
        server = f"engine-{number}/\x1b[31m{number}\n"
        rig.take({"kind": "identity", "upstream": "up", "server": server})
    families = [f for f in rig.collect() if f.name == "tokometer_upstream_info"]
    (sample,) = families[0].samples
    assert all(value.isprintable() for value in sample.labels.values())
    rig.lines()


def test_refusals_are_counted_by_reason_and_logged_without_an_upstream(rig: Rig) -> None:
    assert rig.value("refused_total", reason="no_upstream") == 0
    refused = {"kind": "refused", "time": 1.7e9, "outcome": "rejected", "code": 404}
    rig.take({**refused, "error": "no_upstream", "request_id": "r-1"})
    assert rig.value("refused_total", reason="no_upstream") == 1
    assert rig.total("requests_total") == 0
    (line,) = rig.lines()
    assert line == {
        "time": "2023-11-14T22:13:20.000000Z",
        "request_id": "r-1",
        "outcome": "rejected",
        "code": 404,
        "error": "no_upstream",
    }


def test_hours_of_a_websocket_are_no_duration_of_requests(rig: Rig) -> None:
    ended: dict[str, Any] = {
        "duration_seconds": 7200.0,
        "received_bytes": 10,
        "sent_bytes": 20,
        "code": 101,
    }
    rig.take(end(1, 2.0, answered=False, stream=False, api="other", **ended))
    assert rig.total("requests_total", code="101", outcome="completed") == 1
    assert rig.total("request_duration_seconds_count") == 0
    (line,) = rig.lines()
    assert {key: line[key] for key in ended} == ended


@pytest.mark.parametrize("name", QUOTED)
@pytest.mark.parametrize("kind", ["request_id", "trace", "model", "user", "server", "all"])
def test_readers_of_openmetrics_understand_the_whole_page(kind: str, name: str) -> None:
    keeper = Keeper(
        upstreams=["up"], max_models=9, stall_seconds=2.0, buckets={}, log_path=None, max_users=9
    )

    def of(what: str, otherwise: str) -> str:
        return name if kind in (what, "all") else otherwise

    model, user = of("model", "m"), of("user", "u")
    told = {"request_id": of("request_id", "r"), "user": user, "time": 1.7e9}
    first = {"first_at": 1.5, "ttft_seconds": 0.5, "ttfv_seconds": 0.5}
    rates = {"decode_tokens_per_second": 40.0, "duration_seconds": 1.0}
    server = of("server", "engine/1")
    records: list[Any] = [
        begin(1, 1.0, model, trace=of("trace", "t"), **told),
        output(1, 1.5, model, **first),
        end(1, 2.0, model, **told, **rates),
        begin(2, 1.0, model, trace="t", **told),
        end(2, 2.0, model, **told, **rates, ttft_seconds=2.0),
        {"kind": "identity", "upstream": "up", "server": server},
        {"kind": "probed", "upstream": "up", "up": True, "engine": server, "version": server}
        | {"models": [model]},
        {"kind": "sung", "upstream": "up", "model": model, "success": True},
    ]
    keeper.take(1, orjson.loads(orjson.dumps(records)))
    text = OPENMETRICS.render(keeper.collect()).decode()
    families = list(parse_openmetrics(text))
    found = [sample for family in families for sample in family.samples]
    assert "tokometer_records_dropped_total" in text
    labels = {key: {s.labels[key] for s in found if key in s.labels} for key in ("model", "user")}
    assert labels["model"] - {"unknown"} == {clean(model)}
    assert user in labels["user"]
    ids = {sample.exemplar.labels["trace_id"] for sample in found if sample.exemplar}
    shown = {id for id in ("r", "t", name) if '"' not in id and "\\" not in id}
    assert ids <= shown
    assert ids or kind in ("request_id", "all", "trace")


def test_the_log_keeps_the_status_that_the_metric_folds(rig: Rig) -> None:
    refused: dict[str, Any] = {"outcome": "rejected", "answered": False}
    for id, code in enumerate(range(100, 1000)):
        rig.take(begin(id, 1.0), end(id, 2.0, code=code, **refused))
    found = rig.collect()
    assert rig.total("requests_total", outcome="rejected", code="4xx") > 50
    assert rig.total("requests_total", outcome="rejected") == 900
    codes = {s.labels["code"] for f in found for s in f.samples if "code" in s.labels}
    assert len(codes) < 100
    assert [line["code"] for line in rig.lines()] == list(range(100, 1000))
