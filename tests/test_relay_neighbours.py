"""With other proxies in front, old clients, and IPv6 on both sides."""

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from clients import RawClient, get, post
from proxy_rig import Proxy, play, proxying
from test_relay_failures import EVENT, STREAM, free_port
from test_tunnel import ASK, CLOSE, Realtime
from upstreams import EVENTS, ScriptedUpstream, Visit, answering, chunk, sized

from proxy.address import Upstream
from proxy.sockets import listen

DONE = b"data: [DONE]\n\n"
NGINX = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
  access_log off; client_body_temp_path {folder}/a; proxy_temp_path {folder}/b;
  fastcgi_temp_path {folder}/c; uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
  map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass http://127.0.0.1:{behind}; }}
    location /v1/realtime {{
      proxy_pass http://127.0.0.1:{behind}; proxy_http_version 1.1;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $connection_upgrade;
    }}
  }}
}}
"""
HAPROXY = """
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
  timeout tunnel 30s
frontend front
  bind 127.0.0.1:{port}
  default_backend back
backend back
  http-reuse always
  server tokometer 127.0.0.1:{behind}
"""
FRONTS = {
    "nginx": (NGINX, ["nginx", "-c", "{file}", "-e", "{folder}/error.log"]),
    "haproxy": (HAPROXY, ["haproxy", "-db", "-q", "-f", "{file}"]),
}


def installed(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")


front = pytest.mark.parametrize(
    "front",
    [
        pytest.param(name, marks=pytest.mark.skipif(not installed(name), reason=f"no {name} here"))
        for name in FRONTS
    ],
)


@asynccontextmanager
async def before(proxy: Proxy, name: str, folder: Path) -> AsyncIterator[int]:
    """The port of this front, which stands before the proxy."""
    text, command = FRONTS[name]
    port, file = free_port(), folder / "front.conf"
    file.write_text(text.format(folder=folder, port=port, behind=proxy.listening.port))
    program, *arguments = [part.format(file=file, folder=folder) for part in command]
    found = installed(program)
    assert found is not None
    process = await asyncio.create_subprocess_exec(
        found, *arguments, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        while True:
            try:
                (await RawClient.connect(port)).reset()
                break
            except OSError:
                assert process.returncode is None
                await asyncio.sleep(0.02)
        yield port
    finally:
        process.terminate()
        await process.wait()


@front
def test_events_pass_a_front_as_they_come(front: str, tmp_path: Path) -> None:
    async def main() -> None:
        go_on = asyncio.Event()

        async def script(visit: Visit) -> None:
            await visit.hear()
            visit.say(EVENTS, chunk(EVENT))
            await go_on.wait()
            visit.say(chunk(EVENT), chunk(DONE), chunk(b""))
            await visit.gone()

        async with (
            ScriptedUpstream(script) as upstream,
            proxying(upstream.port) as proxy,
            before(proxy, front, tmp_path) as port,
        ):
            client = await RawClient.connect(port)
            client.send(STREAM)
            assert (await client.head()).status == 200
            assert await client.chunk() == EVENT  # though no other has been sent
            go_on.set()
            rest = b""
            while data := await client.chunk():
                rest += data
            assert rest == EVENT + DONE
            await client.close()
            assert (await proxy.records.end())["outcome"] == "completed"

    play(main)


@front
def test_answer_that_breaks_off_breaks_off_behind_a_front(front: str, tmp_path: Path) -> None:
    """Even where the front speaks HTTP/1.0, in which the end of a body is that of a connection."""

    async def main() -> None:
        async def script(visit: Visit) -> None:
            await visit.hear()
            visit.say(EVENTS, chunk(EVENT))
            await visit.writer.drain()

        async with (
            ScriptedUpstream(script) as upstream,
            proxying(upstream.port) as proxy,
            before(proxy, front, tmp_path) as port,
        ):
            client = await RawClient.connect(port)
            answer = await client.ask(STREAM)
            assert not answer.clean
            await client.close()
            assert (await proxy.records.end())["outcome"] == "truncated"

    play(main)


@front
def test_uploads_and_kept_connections_behind_a_front(front: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            answering(sized(b"ok")) as upstream,
            proxying(upstream.port) as proxy,
            before(proxy, front, tmp_path) as port,
        ):
            client = await RawClient.connect(port)
            for _ in range(3):
                client.send(b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
                client.send(chunk(b"hello "), chunk(b"there"), chunk(b""))
                assert (await client.answer()).body == b"ok"
                assert (await client.ask(get(b"/y"))).body == b"ok"
                assert (await client.ask(b"HEAD /z HTTP/1.1\r\nHost: a\r\n\r\n")).status == 200
            await client.close()
            bodies = [heard.body for heard in upstream.heard if heard.body]
            assert bodies == [b"hello there"] * 3

    play(main)


@front
def test_websocket_behind_a_front(front: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            ScriptedUpstream(Realtime()) as upstream,
            proxying(upstream.port) as proxy,
            before(proxy, front, tmp_path) as port,
        ):
            client = await RawClient.connect(port)
            client.send(ASK)
            assert (await client.head()).status == 101
            client.send(b"hello", CLOSE)
            assert await client.reader.readexactly(9) == b"hello" + CLOSE
            assert await client.ended() == b""
            await client.close()
            assert (await proxy.records.end())["code"] == 101

    play(main)


def test_old_client_gets_a_stream_whose_end_can_be_told_from_a_break() -> None:
    async def main() -> None:
        async def script(visit: Visit) -> None:
            while True:
                heard = await visit.hear()
                visit.say(EVENTS, chunk(EVENT))
                await visit.writer.drain()
                if heard.target != b"/v1/chat/completions":
                    return
                visit.say(chunk(DONE), chunk(b""))

        old = post(b"/v1/chat/completions", b'{"stream":true}').replace(b"1.1", b"1.0", 1)
        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            whole = await (await proxy.client()).ask(old)
            assert (whole.body, whole.clean) == (EVENT + DONE, True)
            assert not whole.values(b"transfer-encoding")
            broken = await (await proxy.client()).ask(old.replace(b"chat/", b""))
            assert broken.reset
            ends = await proxy.records.ends(2)
            assert [end["outcome"] for end in ends] == ["completed", "truncated"]

    play(main)


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="no IPv6 here")
def test_both_sides_speak_ipv6() -> None:
    async def script(visit: Visit) -> None:
        heard.append((await visit.hear()).values(b"host")[0])
        visit.say(sized(b"ok"))
        await visit.gone()

    async def main() -> None:
        async with ScriptedUpstream(script, host="::1") as upstream:
            some = Upstream.parse("default", f"http://[::1]:{upstream.port}")
            async with proxying(some) as proxy:
                client = await proxy.client()  # for a protocol like those of production
                while not proxy.listening.connections():
                    await asyncio.sleep(0)
                (made,) = proxy.listening.connections()
                loop, state = asyncio.get_running_loop(), proxy.listening.state
                server = await loop.create_server(
                    lambda: type(made)(made.config, state, {}, loop), sock=listen("::1", 0)
                )
                port = server.sockets[0].getsockname()[1]
                client = RawClient(*await asyncio.open_connection("::1", port))
                assert (await client.ask(get(b"/"))).body == b"ok"
                assert heard == [b"[::1]:%d" % upstream.port]
                await client.close()
                server.close()

    heard: list[bytes] = []
    play(main)
