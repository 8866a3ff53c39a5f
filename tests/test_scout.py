import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from channel_rig import LOOPS, Ear, NewLoop, run, until
from engine.rig import FAST, running
from upstreams import ScriptedUpstream, Visit, answering, sized

from proxy.address import Upstream
from proxy.canary import Canary
from proxy.config import Config
from proxy.engine import EngineSettings
from proxy.scout import Scout
from proxy.scouting import Scouting
from proxy.tls import connecting

TLS = connecting(dict)


@asynccontextmanager
async def scouting(path: Path, urls: dict[str, str], **settings: Any) -> AsyncIterator[Ear]:
    """What a scout of these upstreams tells; it is stopped at the exit."""
    ear = await Ear().at(path / "channel")
    config = Config(
        tuple(Upstream.parse(name, url, f"/{name}") for name, url in urls.items()),
        scouting={name: Scouting(**settings) for name in urls},
    )
    scout = Scout(config, str(path / "channel"), TLS, time.monotonic)
    task = asyncio.ensure_future(scout.run())
    try:
        yield ear
    finally:
        await until(lambda: signal.getsignal(signal.SIGTERM) != signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
        await task
        ear.receiver.close()


def of(ear: Ear, kind: str, upstream: str = "up") -> list[dict[str, Any]]:
    records = [record for record in ear.records if record["kind"] == kind]
    return [record for record in records if record["upstream"] == upstream]


@pytest.mark.parametrize("new_loop", LOOPS)
def test_upstreams_are_probed_and_canaries_sent_and_the_keeper_told(
    new_loop: NewLoop, tmp_path: Path
) -> None:
    async def main(url: str) -> None:
        async with scouting(tmp_path, {"up": url}, probe_interval=1.0, canary_interval=1.0) as ear:
            await until(lambda: len(of(ear, "sung")) >= 2 and len(of(ear, "probed")) >= 3)
        first, *later = of(ear, "probed")
        assert (first["up"], first["engine"], first["models"]) == (
            True,
            "tokometer-engine",
            ["sim-8b"],
        )
        assert all(record == {"kind": "probed", "upstream": "up", "up": True} for record in later)
        for record in of(ear, "sung"):
            assert (record["success"], record["model"]) == (True, "sim-8b")
            assert record["ttft_seconds"] > 0
        assert "state" not in ear.kinds()  # it is no worker

    with running(EngineSettings(seed=1, **FAST)) as url:
        run(new_loop, main(url))


def test_no_two_canaries_are_with_one_upstream_at_a_time(tmp_path: Path) -> None:
    open_now: set[int] = set()
    at_once: list[int] = []

    async def slow(visit: Visit) -> None:
        heard = await visit.hear()
        if not heard.line.startswith(b"POST"):
            visit.say(sized(b"{}", status=b"404 Not Found"))
            return
        open_now.add(visit.number)
        at_once.append(len(open_now))
        await visit.gone()
        open_now.remove(visit.number)

    async def main() -> None:
        async with ScriptedUpstream(slow) as up:
            settings = {"probe_interval": None, "canary_interval": 0.03, "canary_model": "m"}
            url = f"http://127.0.0.1:{up.port}"
            async with scouting(tmp_path, {"up": url}, **settings) as ear:
                await until(lambda: len(of(ear, "sung")) >= 3)
            assert not any(record["success"] for record in of(ear, "sung"))
            assert max(at_once) == 1

    asyncio.run(asyncio.wait_for(main(), 30))


def test_an_upstream_that_hangs_holds_no_other_up(tmp_path: Path) -> None:
    async def hang(visit: Visit) -> None:
        await visit.gone()

    async def main() -> None:
        async with ScriptedUpstream(hang) as bad, answering(sized(b"{}")) as good:
            urls = {
                "bad": f"http://127.0.0.1:{bad.port}",
                "good": f"http://127.0.0.1:{good.port}",
            }
            async with scouting(tmp_path, urls, probe_interval=1.0) as ear:
                await until(lambda: of(ear, "probed", "good"))
                assert not of(ear, "probed", "bad")
                await until(lambda: of(ear, "probed", "bad"))
            assert not of(ear, "probed", "bad")[0]["up"]

    asyncio.run(asyncio.wait_for(main(), 30))


def test_a_mistake_of_ours_is_confessed_and_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def broken(self: Canary) -> Any:
        raise KeyError("a secret")

    monkeypatch.setattr(Canary, "sing", broken)

    async def main() -> None:
        async with answering(sized(b"{}")) as up:
            url = f"http://127.0.0.1:{up.port}"
            settings = {"probe_interval": 0.05, "canary_interval": 0.05}
            async with scouting(tmp_path, {"up": url}, **settings) as ear:
                await until(lambda: len(of(ear, "probed")) >= 3)

    asyncio.run(asyncio.wait_for(main(), 30))
    said = capsys.readouterr().err
    assert "KeyError in test_scout.py" in said
    assert "a secret" not in said


def test_a_new_keeper_is_told_all_that_is_known(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        async with scouting(tmp_path, {"up": url}, canary_interval=60.0) as ear:
            await until(lambda: of(ear, "probed") and of(ear, "sung"))
            ear.receiver.close()
            successor = await Ear().at(tmp_path / "channel")
            await until(lambda: of(successor, "probed") and of(successor, "sung"))
            assert of(successor, "probed")[0]["engine"] == "tokometer-engine"
            successor.receiver.close()

    with running(EngineSettings(seed=1, **FAST)) as url:
        asyncio.run(asyncio.wait_for(main(url), 30))


def test_a_stop_gives_up_what_is_on_its_way(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def hang(visit: Visit) -> None:
        await visit.hear()
        asked.set()
        await visit.gone()

    async def main() -> None:
        async with ScriptedUpstream(hang) as up:
            url = f"http://127.0.0.1:{up.port}"
            async with scouting(tmp_path, {"up": url}, canary_interval=60.0, canary_model="m"):
                await asked.wait()
            # Were it not given up, it would go on for a minute.

    asyncio.run(asyncio.wait_for(main(), 30))
