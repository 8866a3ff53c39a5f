import asyncio
import contextlib
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme
from paper import Server
from test_facts import LLAMACPP, PROPS, VLLM
from upstreams import Heard, ScriptedUpstream, Silent, Visit, answering, sized

from proxy.address import Upstream
from proxy.channel import Probed
from proxy.prober import Prober
from proxy.scouting import Key, Scouting
from proxy.upstream import Transport


class Rig:
    """A prober, an upstream on paper and a clock."""

    def __init__(self) -> None:
        self.server = Server()
        self.server.knows("/v1/models", VLLM)
        self.server.knows("/version", {"version": "0.32.0"})
        self.server.knows("/health", {})
        upstream = Upstream("up", "http", "127.0.0.1", 8000)
        settings = Scouting(key=Key("secret"))
        self.prober = Prober(upstream, settings, self.server, None, lambda: self.server.now)

    def probe(self, after: float = 15.0) -> Probed:
        self.server.now += after
        self.server.asked.clear()
        return asyncio.run(self.prober.probe())

    @property
    def paths(self) -> list[str]:
        return [path for _, path, _ in self.server.asked]


@pytest.fixture
def rig() -> Rig:
    return Rig()


FACTS = {"engine": "vllm", "version": "0.32.0", "models": ["tiny"]}
WELL = {"kind": "probed", "upstream": "up", "up": True}
ILL = {"kind": "probed", "upstream": "up", "up": False}


def test_the_first_probe_tells_what_the_upstream_is(rig: Rig) -> None:
    assert rig.probe() == {**WELL, **FACTS}
    assert rig.paths == ["/v1/models", "/version", "/health"]


def test_further_probes_are_one_request_and_a_minute_later_it_is_asked_again(rig: Rig) -> None:
    rig.probe()
    for _ in range(3):
        assert rig.probe() == WELL
        assert rig.paths == ["/health"]
    rig.server.knows("/version", {"version": "0.33.0"})
    assert rig.probe() == {**WELL, **FACTS, "version": "0.33.0"}


def test_a_server_that_tells_nothing_is_asked_everything_only_now_and_then(rig: Rig) -> None:
    rig.server.knows("/v1/models", {"data": [{"id": "m"}]})
    rig.server.knows("/version", {}, 404)
    rig.probe()
    assert len(rig.paths) == 8
    rig.probe(after=60)
    assert rig.paths == ["/v1/models", "/health"]
    rig.probe(after=540)
    assert len(rig.paths) == 8


def test_who_is_not_well_tells_what_it_is_when_it_is_back(rig: Rig) -> None:
    rig.probe()
    rig.server.knows("/health", {}, 503)
    assert rig.probe() == ILL
    rig.server.knows("/v1/models", LLAMACPP)
    rig.server.knows("/props", PROPS)
    rig.server.knows("/health", {}, 200)
    back = rig.probe()
    assert (back["up"], back["engine"], back["version"]) == (True, "llama.cpp", "b6000-abc")


def test_who_is_not_well_at_first_may_tell_what_it_is_all_the_same(rig: Rig) -> None:
    rig.server.knows("/health", {}, 503)
    assert rig.probe() == {**ILL, **FACTS}


def test_probes_bear_no_key(rig: Rig) -> None:
    rig.probe()
    assert rig.server.headers
    for headers in rig.server.headers:
        assert set(headers) == {"host", "user-agent", "accept-encoding"}


async def once(
    port: int, scheme: str = "http", tls: ssl.SSLContext | None = None, **settings: Any
) -> Probed:
    upstream = Upstream("up", scheme, "127.0.0.1", port)
    transport = Transport(lambda: 0.0, 0.0, tls)
    return await Prober(upstream, Scouting(**settings), transport, tls, lambda: 0.0).probe()


def test_nobody_there_is_down() -> None:
    async def main() -> None:
        async with answering(sized(b"{}")) as up:
            port = up.port
        for probe in ("ask", "connect"):
            assert await once(port, probe=probe) == ILL

    asyncio.run(main())


def test_an_upstream_that_hangs_is_down_after_a_while() -> None:
    async def main() -> None:
        async with ScriptedUpstream(Silent()) as up:
            assert await once(up.port, probe_interval=0.05) == ILL

    asyncio.run(main())


def test_a_connection_is_enough_where_nothing_shall_be_asked() -> None:
    said: list[bytes] = []

    async def listen(visit: Visit) -> None:
        said.append(await visit.gone())

    async def main() -> None:
        async with ScriptedUpstream(listen) as up:
            assert await once(up.port, probe="connect") == WELL
            while not said:
                await asyncio.sleep(0.005)

    asyncio.run(main())
    assert said == [b""]


def test_over_https_a_handshake_is_enough_unless_it_shall_ask() -> None:
    heard: list[Heard] = []
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)

    async def listen(visit: Visit) -> None:
        while True:
            heard.append(await visit.hear())
            visit.say(sized(b"{}"))

    async def main() -> None:
        async with ScriptedUpstream(listen, server) as up:
            assert await once(up.port, "https", trusting) == WELL
            assert not heard
            assert (await once(up.port, "https", trusting, probe="ask"))["up"]
            assert heard
            assert await once(up.port, "https", ssl.create_default_context()) == ILL

    asyncio.run(main())


@pytest.mark.parametrize("probe", ["ask", "connect"])
def test_an_upstream_on_a_unix_socket_is_probed_there(tmp_path: Path, probe: Any) -> None:
    heard: list[bytes] = []
    visits: dict[asyncio.StreamWriter, bool] = {}  # whether it is over

    async def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visits[writer] = False
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                heard.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(sized(b"{}"))
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        visits[writer] = True

    async def main() -> None:
        upstream = Upstream.parse("up", f"unix:{tmp_path}/engine")
        transport = Transport(lambda: 0.0, 0.0, unix=upstream.socket)
        settings = Scouting(probe=probe)
        prober = Prober(upstream, settings, transport, None, lambda: 0.0)
        assert await prober.probe() == ILL
        async with await asyncio.start_unix_server(visit, upstream.socket):
            assert (await prober.probe())["up"]
            await transport.aclose()
            while not visits or not all(visits.values()):
                await asyncio.sleep(0.005)

    asyncio.run(main())
    assert bool(heard) == (probe == "ask")
    assert all(b"\r\nHost: localhost\r\n" in head for head in heard)
