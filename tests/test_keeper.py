import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from channel_rig import LOOPS, NewLoop, listening, run, until
from prometheus_client.core import Metric
from records import begin, end, output, rejected, total, value

from proxy.channel import Record
from proxy.guard import Guard
from proxy.keeper import Keeper
from proxy.sender import Sender

UM = {"upstream": "up", "model": "m"}
REQUESTS = {**UM, "api": "chat", "stream": "true"}


class Rig:
    """A keeper whose clock stands at `now`, and the records that it is given."""

    def __init__(self, log: Path) -> None:
        self.now = 100.0
        self.log = log
        self.keeper = Keeper(
            upstreams=["up"],
            max_models=3,
            stall_seconds=2.0,
            buckets={},
            log_path=str(log),
            clock=lambda: self.now,
        )

    def take(self, *records: Any, connection: int = 1) -> None:
        """A batch, as it comes out of the channel."""
        self.keeper.take(connection, orjson.loads(orjson.dumps(records)))

    def collect(self) -> list[Metric]:
        return self.keeper.collect()

    def value(self, name: str, **labels: str) -> float | None:
        return value(self.collect(), f"tokometer_{name}", **labels)

    def total(self, name: str, **labels: str) -> float:
        return total(self.collect(), f"tokometer_{name}", **labels)

    def lines(self) -> list[dict[str, Any]]:
        """The request log."""
        self.keeper._journal.close()  # type: ignore[union-attr]
        return [orjson.loads(row) for row in self.log.read_bytes().splitlines()]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path / "requests.jsonl")
    yield rig
    rig.lines()


def test_an_exchange_from_begin_to_end(rig: Rig) -> None:
    rig.take(begin(1, 10.0))
    assert rig.value("streams", upstream="up", model="unknown", phase="waiting") == 1
    first = output(1, 10.5, first_at=10.5, ttft_seconds=0.5, tokens=2, gaps=[])
    rig.take(first, output(1, 11.0, tokens=3, gaps=[0.5]))
    assert rig.value("streams", **UM, phase="decoding") == 1
    assert rig.value("streams", **UM, phase="waiting") == 0
    assert rig.value("output_tokens_total", **UM, api="chat") == 5
    rig.take(
        end(
            1,
            11.0,
            time=1700000000.0,
            request_id="r-1",
            ttft_seconds=0.5,
            first_at=10.5,
            last_at=11.0,
            decode_tokens_per_second=10.0,
            output_tokens=6,
            prompt_tokens=50,
        )
    )
    families = rig.collect()
    assert value(families, "tokometer_streams", **UM, phase="decoding") == 0
    assert value(families, "tokometer_time_to_first_token_seconds_count", **UM) == 1
    assert value(families, "tokometer_output_tokens_total", **UM, api="chat") == 6
    cell = {**UM, "context": "0-1k", "concurrency": "1"}
    assert value(families, "tokometer_cell_ttft_streams_total", **cell) == 1
    assert value(families, "tokometer_cell_tpot_streams_total", **cell) == 1
    (line,) = rig.lines()
    assert (line["request_id"], line["concurrency"], line["output_tokens"]) == ("r-1", 1, 6)
    assert line["decode_concurrency"] == 1


def test_a_model_is_unknown_until_a_2xx_names_it(rig: Rig) -> None:
    rig.take(begin(1, 10.0), rejected(1, 11.0))
    assert rig.total("requests_total", model="unknown", outcome="rejected", code="429") == 1
    assert rig.total("requests_total", model="m") == 0
    rig.take(begin(2, 12.0), end(2, 13.0))
    assert rig.value("requests_total", **REQUESTS, outcome="rejected", code="429") == 0
    rig.take(begin(3, 14.0), rejected(3, 15.0))
    assert rig.value("requests_total", **REQUESTS, outcome="rejected", code="429") == 1


def test_the_first_failure_of_a_known_model_shows_in_an_increase(rig: Rig) -> None:
    rig.take(begin(1, 10.0), end(1, 11.0))
    rig.take(begin(2, 12.0, api="completions", stream=False))
    other = {**UM, "api": "completions", "stream": "false"}
    assert rig.value("requests_total", **other, outcome="unreachable", code="502") == 0
    assert rig.value("requests_total", **other, outcome="timeout", code="504") == 0


@pytest.mark.parametrize("known", [True, False])
def test_the_first_refusal_of_a_stream_which_is_none_shows_in_an_increase(
    rig: Rig, known: bool
) -> None:
    if known:
        rig.take(begin(1, 10.0), end(1, 11.0))
    rig.take(begin(2, 12.0))
    refused = {**REQUESTS, "model": "m" if known else "unknown", "stream": "false"}
    assert rig.value("requests_total", **refused, outcome="rejected", code="429") == 0


def test_an_alias_has_the_label_of_the_model_behind_it(rig: Rig) -> None:
    rig.take(begin(1, 10.0, "latest"), begin(2, 10.0, "latest"), begin(3, 10.0, "latest"))
    assert rig.value("streams", upstream="up", model="unknown", phase="waiting") == 3
    rig.take(output(1, 11.0, "m-1", first_at=11.0, ttft_seconds=1.0))
    labels = {"upstream": "up", "model": "m-1"}
    assert rig.value("streams", **labels, phase="waiting") == 2
    assert rig.value("streams", **labels, phase="decoding") == 1
    assert rig.value("time_to_first_token_seconds_count", **labels) == 1
    rig.take(rejected(2, 12.0, "latest"))
    assert rig.total("requests_total", model="m-1", outcome="rejected", code="429") == 1
    assert rig.total("requests_total", model="latest") == 0


def test_models_past_the_cap_are_other(rig: Rig) -> None:
    assert rig.value("label_overflow_total", label="model") == 0
    for id, model in enumerate("abcde"):
        rig.take(begin(id, 10.0, model), end(id, 11.0, model))
    assert [rig.total("requests_total", model=model) for model in ("a", "c", "d", "e")] == [
        *(1, 1, 0, 0)
    ]
    assert rig.total("requests_total", model="other", outcome="completed") == 2
    assert rig.value("label_overflow_total", label="model") == 2


def test_raw_model_names_do_not_become_labels(rig: Rig) -> None:
    rig.take(begin(1, 10.0, "a\nb" + "x" * 300), end(1, 11.0, "a\nb" + "x" * 300))
    assert rig.total("requests_total", model=("a?b" + "x" * 300)[:128]) == 1


def test_a_request_without_a_model_is_of_an_unknown_one(rig: Rig) -> None:
    record = end(1, 11.0, api="other", stream=False)
    del record["model"]
    rig.take(begin(1, 10.0, "", api="other", stream=False), record)
    assert rig.total("requests_total", model="unknown", api="other", outcome="completed") == 1
    assert rig.total("cell_ttft_streams_total") == 0
    names = {s.name for f in rig.collect() for s in f.samples if s.labels.get("model") == "unknown"}
    assert names == {"tokometer_requests_total"}


def test_tokens_counted_under_the_asked_name_move_to_the_answered_one(rig: Rig) -> None:
    first = output(1, 10.5, "latest", first_at=10.5, ttft_seconds=0.5, tokens=5)
    rig.take(begin(1, 10.0, "latest"), first, output(1, 11.0, "m-1", tokens=2))
    labels = {"upstream": "up", "model": "m-1", "api": "chat"}
    assert rig.value("output_tokens_total", **labels) == 7
    rig.take(end(1, 12.0, "m-1", output_tokens=9))
    assert rig.value("output_tokens_total", **labels) == 9


def test_streams_that_are_silent_for_too_long_are_stalled(rig: Rig) -> None:
    rig.take(begin(1, 10.0), output(1, 97.5, first_at=97.5, ttft_seconds=87.5))
    assert rig.value("streams_stalled", **UM) == 1
    rig.take(output(1, 99.0))
    assert rig.value("streams_stalled", **UM) == 0


def test_a_lost_worker_aborts_its_exchanges(rig: Rig) -> None:
    rig.take({"kind": "state", "worker": 0, "pid": 1, "state": "ready"})
    rig.take(begin(1, 90.0, request_id="r-1", time=1700000000.0), begin(2, 95.0))
    rig.take(begin(1, 90.0), connection=2)
    rig.take(output(1, 92.0, first_at=91.0, ttft_seconds=1.0, tokens=7))
    rig.keeper.lost(1)
    assert rig.value("requests_total", **REQUESTS, outcome="aborted", code="") == 2
    assert rig.value("streams", **UM, phase="waiting") == 1
    assert rig.value("streams", **UM, phase="decoding") == 0
    assert rig.value("output_tokens_total", **UM, api="chat") == 7
    assert rig.value("time_to_first_token_seconds_count", **UM) == 1
    assert rig.value("skipped_total", **UM, reason="not_completed") == 1
    assert rig.value("workers", state="ready") == 0
    first, second = rig.lines()
    assert (first["outcome"], first["request_id"], first["duration_seconds"]) == (
        *("aborted", "r-1", 10.0),
    )
    assert (first["ttft_seconds"], first["output_tokens"]) == (1.0, 7)
    assert first["time"] == "2023-11-14T22:13:20.000000Z"
    assert (second["outcome"], second["concurrency"]) == ("aborted", 3)


def test_ends_that_were_dropped_leave_no_stream_in_flight(rig: Rig) -> None:
    rig.take(begin(1, 10.0), begin(2, 10.0))
    rig.take(
        {"kind": "dropped", "records": 40, "in_flight": [2, 3]}, begin(2, 10.0), begin(3, 11.0)
    )
    assert rig.total("streams") == 2
    assert rig.value("records_dropped_total") == 40
    rig.take(end(2, 12.0), end(3, 13.0))
    assert rig.total("streams") == 0
    assert rig.total("requests_total") == 2


def test_an_end_whose_begin_was_dropped_counts_all_the_same(rig: Rig) -> None:
    rig.take(output(1, 11.0, tokens=3), end(1, 12.0, output_tokens=5, ttft_seconds=0.5))
    assert rig.value("requests_total", **REQUESTS, outcome="completed", code="200") == 1
    assert rig.value("output_tokens_total", **UM, api="chat") == 5
    assert rig.value("time_to_first_token_seconds_count", **UM) == 1
    (line,) = rig.lines()
    assert "concurrency" not in line


def test_a_record_that_cannot_be_read_stops_nothing(
    rig: Rig, capsys: pytest.CaptureFixture[str]
) -> None:
    rig.take({"kind": "begin"}, {"kind": "nonsense"}, {}, {"kind": "end", "id": []}, begin(1, 10.0))
    assert rig.value("records_dropped_total") == 4
    assert rig.total("streams") == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("tokometer: a record of a worker could not be read: KeyError in ")


def test_it_is_ready_while_one_worker_is(rig: Rig) -> None:
    def state(name: str) -> dict[str, object]:
        return {"kind": "state", "worker": 0, "pid": 1, "state": name}

    assert rig.keeper.unready() == "no worker is connected"
    rig.take(state("ready"), connection=1)
    rig.take(state("ready"), connection=2)
    rig.take(state("draining"), connection=1)
    assert rig.keeper.unready() is None
    assert (rig.value("workers", state="ready"), rig.value("workers", state="draining")) == (1, 1)
    rig.keeper.lost(2)
    assert rig.keeper.unready() == "draining"
    rig.keeper.lost(1)
    assert rig.keeper.unready() == "no worker is connected"


def test_lines_that_the_log_lost_are_counted(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    assert rig.value("log_lines_lost_total") == 0
    rig.keeper._journal._refused = 3  # type: ignore[union-attr]
    assert rig.value("log_lines_lost_total") == 3
    assert rig.value("log_lines_lost_total") == 3


def test_upstreams_of_the_settings_are_there_before_the_first_request(rig: Rig) -> None:
    assert rig.value("connect_seconds_count", upstream="up") == 0
    assert rig.value("overhead_seconds_count", upstream="up") == 0
    assert rig.value("upstream_up", upstream="up") is None


def test_wrong_settings_are_errors(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"upstreams": [], "max_models": 1, "stall_seconds": 2.0}
    with pytest.raises(ValueError, match="no histogram tokometer_ttft"):
        Keeper(**settings, buckets={"ttft": (1.0,)}, log_path=None)


def on_a_free_port() -> socket.socket:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    return listener


@pytest.mark.parametrize("new_loop", LOOPS)
def test_served_until_sigterm_it_takes_what_is_on_its_way(
    tmp_path: Path, new_loop: NewLoop
) -> None:
    log = tmp_path / "requests.jsonl"

    async def script() -> None:
        keeper = Keeper(
            upstreams=["up"], max_models=9, stall_seconds=2.0, buckets={}, log_path=str(log)
        )
        listener = on_a_free_port()
        address = "http://{}:{}".format(*listener.getsockname())
        nothing: list[Record] = []
        sender = Sender(str(tmp_path / "s"), 0, lambda: nothing, lambda: None)
        async with asyncio.TaskGroup() as tasks, httpx.AsyncClient(base_url=address) as client:
            served = tasks.create_task(
                keeper.serve(listener, listening(tmp_path / "s"), Guard(dict, local=True))
            )
            sender.start()
            await until(lambda: keeper.unready() is None)
            assert (await client.get("/readyz")).status_code == 200
            sender.put(begin(1, 10.0))
            sender.put(end(1, 11.0, request_id="r-1"))
            await until(lambda: log.stat().st_size)
            log.rename(tmp_path / "rotated")
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGHUP)
            await until(log.exists)
            scrape = (await client.get("/metrics")).text
            assert 'outcome="completed",stream="true",upstream="up"} 1.0' in scrape
            sender.put(end(2, 12.0, request_id="r-2"))
            await sender.close()
            os.kill(os.getpid(), signal.SIGTERM)
            await served
        assert orjson.loads(log.read_bytes())["request_id"] == "r-2"

    run(new_loop, script())
