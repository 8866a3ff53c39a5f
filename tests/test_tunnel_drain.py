"""A WebSocket through `tokometer serve`, which is told to stop."""

import asyncio
from pathlib import Path

import orjson
from clients import RawClient
from proxy_rig import play
from serve_rig import serving
from test_tunnel import ASK, Realtime
from upstreams import ScriptedUpstream


def test_tunnel_ends_with_the_time_to_drain_and_is_logged(tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"

    async def main() -> None:
        script = Realtime()
        async with ScriptedUpstream(script) as upstream:
            settings = (
                f"--upstream=http://127.0.0.1:{upstream.port}",
                "--drain-seconds=0.5",
                f"--log-requests={log}",
            )
            with serving(*settings) as started:
                proxy = await asyncio.to_thread(started.ready)
                client = await RawClient.connect(proxy.port)
                client.send(ASK)
                assert (await client.head()).status == 101
                proxy.signal()
                client.send(b"still there")  # it may go on for a while
                assert await client.reader.readexactly(11) == b"still there"
                assert await client.ended() == b""
                await script.closed.wait()
                assert await asyncio.to_thread(proxy.wait) == 0
                await client.close()

    play(main)
    (line,) = [orjson.loads(row) for row in log.read_bytes().splitlines()]
    assert (line["outcome"], line["code"], line["error"]) == ("aborted", 101, "draining")
    assert (line["received_bytes"], line["sent_bytes"]) == (11, 11)
