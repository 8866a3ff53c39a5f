"""Whole workers: settings in, traffic through, records out, and their end."""

import asyncio
import os
import signal
import socket
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import trustme
from channel_rig import Ear, until
from clients import RawClient, get, post
from proxy_rig import play
from test_tls import reading
from upstreams import EVENTS, ScriptedUpstream, Silent, Visit, answering, chunk, sized

from proxy.address import Upstream
from proxy.app import Worker, rules, run_keeper
from proxy.config import Config
from proxy.settings import SettingError
from proxy.sockets import listen

STREAM = post(b"/v1/chat/completions", b'{"model":"m","stream":true}')
EVENT = b'data: {"model":"m","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'


def at(port: int, scheme: str = "http", name: str = "default", **more: str) -> Upstream:
    return Upstream(name, scheme, "127.0.0.1", port, **more)


class Running:
    """A worker that runs in this process and event loop, and what it told the keeper."""

    def __init__(self, worker: Worker, task: "asyncio.Task[None]", port: int, ear: Ear) -> None:
        self.worker = worker
        self.task = task
        self.port = port
        self.ear = ear
        self.clients: list[RawClient] = []

    async def client(self) -> RawClient:
        self.clients.append(await RawClient.connect(self.port))
        return self.clients[-1]

    def ends(self) -> list[dict[str, Any]]:
        return [record for record in self.ear.records if record["kind"] == "end"]

    def states(self) -> list[str]:
        return [record["state"] for record in self.ear.records if record["kind"] == "state"]


@asynccontextmanager
async def working(path: Path, *upstreams: Upstream, **settings: Any) -> AsyncIterator[Running]:
    """A worker before these upstreams; it is stopped at the exit, if the test did not."""
    ear = await Ear().at(path / "channel")
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    config = Config(upstreams=upstreams, **settings)
    worker = Worker(reading(**config.papers), config, 3, str(path / "channel"))
    task = asyncio.ensure_future(worker.run(listener))
    running = Running(worker, task, port, ear)
    try:
        await until(running.states)
        yield running
    finally:
        for client in running.clients:
            await client.close()
        worker.stop()
        await task
        ear.receiver.close()


def test_worker_carries_traffic_and_tells_the_keeper_of_it(tmp_path: Path) -> None:
    async def main() -> None:
        stream = EVENTS + chunk(EVENT) + chunk(b"data: [DONE]\n\n") + chunk(b"")
        answer = stream.replace(b"Content-Type", b"Server: engine/2\r\nContent-Type")
        async with answering(answer) as up, working(tmp_path, at(up.port)) as running:
            client = await running.client()
            assert (await client.ask(STREAM)).clean
            await until(running.ends)
            (end,) = running.ends()
            assert (end["outcome"], end["model"], end["api"]) == ("completed", "m", "chat")
            kinds = running.ear.kinds()
            assert kinds[0] == "state"
            assert {"connected", "begin", "identity", "output"} <= set(kinds)
            await until(lambda: [r for r in running.ear.records if r.get("lag")])
            lags = [lag for record in running.ear.records for lag in record.get("lag", [])]
            assert min(lags) >= 0

    play(main)


def test_several_upstreams_are_told_apart_by_their_prefix(tmp_path: Path) -> None:
    async def main() -> None:
        async with answering(sized(b"a")) as a, answering(sized(b"b")) as b:
            ways = [at(a.port, name="a", prefix="/a"), at(b.port, name="b", prefix="/b")]
            async with working(tmp_path, *ways) as running:
                client = await running.client()
                assert (await client.ask(get(b"/b/x"))).body == b"b"
                assert (await client.ask(get(b"/a/x"))).body == b"a"
                assert (await client.ask(get(b"/c/x"))).status == 404
                await until(lambda: len(running.ends()) == 2)
                assert [end["upstream"] for end in running.ends()] == ["b", "a"]

    play(main)


def test_https_upstream_needs_an_authority_that_is_trusted(tmp_path: Path) -> None:
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    (tmp_path / "ca.pem").write_bytes(authority.cert_pem.bytes())

    async def main() -> None:
        async def script(visit: Visit) -> None:
            await visit.hear()
            visit.say(EVENTS, chunk(EVENT), chunk(b"data: [DONE]\n\n"), chunk(b""))
            await visit.gone()

        async with ScriptedUpstream(script, server) as upstream:
            way = at(upstream.port, "https")
            async with working(tmp_path, way) as running:
                answer = await (await running.client()).ask(STREAM)
                assert answer.status == 502
                error = orjson.loads(answer.body)["error"]
                assert error["code"] == "upstream_unreachable"
                assert "certificate" in error["message"]
            async with working(tmp_path, way, upstream_ca=str(tmp_path / "ca.pem")) as running:
                answer = await (await running.client()).ask(STREAM)
                assert (answer.status, answer.clean) == (200, True)
                assert answer.body == EVENT + b"data: [DONE]\n\n"

    play(main)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_lets_running_streams_end_and_takes_nothing_new(
    tmp_path: Path, number: signal.Signals
) -> None:
    async def main() -> None:
        async def script(visit: Visit) -> None:
            await visit.hear()
            visit.say(EVENTS, chunk(EVENT))
            await go_on.wait()
            visit.say(chunk(EVENT), chunk(b"data: [DONE]\n\n"), chunk(b""))
            await visit.gone()

        go_on = asyncio.Event()
        async with (
            ScriptedUpstream(script) as upstream,
            working(tmp_path, at(upstream.port)) as running,
        ):
            busy, idle = await running.client(), await running.client()
            assert (await idle.ask(get(b"ftp://a/"))).status == 400
            busy.send(STREAM)
            await busy.head()
            assert await busy.chunk() == EVENT
            os.kill(os.getpid(), number)
            assert await idle.ended() == b""
            with pytest.raises(ConnectionRefusedError):
                while True:
                    await running.client()
            assert not running.task.done()
            go_on.set()
            assert await busy.chunk() == EVENT + b"data: [DONE]\n\n"
            assert await busy.chunk() == b""
            assert await busy.ended() == b""
            await running.task
            assert [end["outcome"] for end in running.ends()] == ["completed"]
            assert running.states() == ["ready", "draining"]

    play(main)


def test_request_that_comes_when_the_worker_stops_is_told_so(tmp_path: Path) -> None:
    async def main() -> None:
        async with answering(sized(b"x")) as up, working(tmp_path, at(up.port)) as running:
            client = await running.client()
            assert (await client.ask(get(b"/"))).status == 200
            running.worker.stop()
            answer = await client.ask(STREAM)
            assert answer.status == 503
            assert orjson.loads(answer.body)["error"]["code"] == "draining"
            await running.task
            assert [end["outcome"] for end in running.ends()] == ["completed", "aborted"]

    play(main)


def test_stream_that_does_not_end_in_time_is_cut_and_counted(tmp_path: Path) -> None:
    async def main() -> None:
        script = Silent(EVENTS, chunk(EVENT))
        async with (
            ScriptedUpstream(script) as upstream,
            working(tmp_path, at(upstream.port), drain_seconds=0.05) as running,
        ):
            client = await running.client()
            client.send(STREAM)
            await client.head()
            assert await client.chunk() == EVENT
            running.worker.stop()
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await client.chunk()
            await running.task
            (end,) = running.ends()
            assert (end["outcome"], end["code"]) == ("aborted", 200)
            await script.closed.wait()

    play(main)


def test_idle_clients_are_kept_longer_than_they_keep_the_proxy(tmp_path: Path) -> None:
    """Common clients and load balancers keep idle connections for 5 to 60 seconds."""

    async def main() -> None:
        async with working(tmp_path, at(1)) as running:
            assert running.worker._server.config.timeout_keep_alive > 60

    play(main)


def test_settings_reach_the_relay() -> None:
    config = Config(
        upstreams=(at(1),),
        usage="observe",
        preserve_host=True,
        max_inspect_bytes=7,
        connect_timeout=1.5,
        idle_timeout=2.5,
        stall_seconds=3.5,
    )
    assert rules(config)[:6] == (False, True, 7, 1.5, 2.5, 3.5)
    assert rules(Config(upstreams=(at(1),))).inject_usage


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (
            {"buckets": {"conect_seconds": (1.0, 2.0)}},
            r"^buckets: there is no histogram tokometer_conect_seconds: did you mean "
            r"tokometer_connect_seconds\?$",
        ),
    ],
)
def test_keeper_that_cannot_start_names_the_setting(settings: Any, named: str) -> None:
    with socket.socket() as admin, socket.socket(socket.AF_UNIX) as channel:
        with pytest.raises(SettingError, match=named) as problem:
            run_keeper(dict, Config(upstreams=(at(1),), **settings), admin, channel)
        assert "\n" not in str(problem.value)


def test_a_collector_needs_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "proxy.otlp", raising=False)
    for module in ("exporter.otlp.proto.http.metric_exporter", "sdk.metrics"):
        monkeypatch.setitem(sys.modules, f"opentelemetry.{module}", None)
    config = Config(upstreams=(at(1),), otlp_endpoint="http://127.0.0.1:4318")
    with socket.socket() as admin, socket.socket(socket.AF_UNIX) as channel:
        with pytest.raises(SettingError, match=r"^otlp_endpoint: .*\(.*\): pip install") as problem:
            run_keeper(dict, config, admin, channel)
        assert str(problem.value).endswith(": pip install tokometer[otel]")
        assert "\n" not in str(problem.value)
