"""The whole of it alive: an engine that becomes slower, the proxy, and a Prometheus with the rules.

Two engines stand behind one proxy. In the middle one is started again a quarter slower; the other
stays as it is, but its users begin to send long prompts, which it decodes more slowly.
"""

import asyncio
import contextlib
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import httpx

from deploy.prometheus.rules import files
from deploy.prometheus.rules.settings import PRESETS, Baseline, Settings

from .prometheus import Api, Store, free_port

SLOWED, LONGER = "slowed", "longer"  # the upstreams
# Seconds for what are minutes and days otherwise; a class of prompts needs few streams.
SETTINGS: Settings = replace(
    PRESETS["live"],
    fast=1,
    slow=1,
    index_window=8,
    index_long_window=10,
    baseline=Baseline(length=15, ago=10, tile=5),
    baseline_cell_streams=10,
    regression_hold=3,
    deploy_hold=3,
)
_NORMAL_SECONDS = SETTINGS.baseline.length + SETTINGS.baseline.ago
_NEW_SECONDS = SETTINGS.index_long_window + 4  # until streams of before the change are out of sight
_PATIENCE = 60.0  # seconds
_POLL_SECONDS = 0.2
_USERS = 6  # of each engine
_RATE, _SLOWER = 25.0, 1.25  # tokens per second
_SHORT, _LONG = 300, 6000  # tokens of a prompt
_RULES = ("rules.yml", "alerts.yml")


class Site:
    """Both engines, the proxy and Prometheus, as processes. `folder` is for their files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes = contextlib.ExitStack()
        self._engines = {name: (free_port(), contextlib.ExitStack()) for name in (SLOWED, LONGER)}
        self._port, self._admin = free_port(), free_port()

    @property
    def url(self) -> str:
        """Where the proxy takes requests; each upstream's name is its prefix."""
        return f"http://127.0.0.1:{self._port}"

    @contextlib.contextmanager
    def running(self) -> Iterator[Api]:
        """From start to end; Prometheus' interface."""
        with contextlib.ExitStack() as stack:
            for name, (_, stop) in self._engines.items():
                self.restart(name, _RATE)
                stack.callback(stop.close)
            stack.enter_context(self._process("serve", f"--config={self._config()}"))
            _wait(f"http://127.0.0.1:{self._admin}/healthz")
            yield stack.enter_context(Store(self._folder).serving(self._scrape()))

    def restart(self, name: str, rate: float) -> None:
        """Start an engine, or start it again with another decode rate, on the same port."""
        port, running = self._engines[name]
        running.close()
        options = {"port": port, "rate": rate, "ttft": 0.1, "context-slowdown": 0.2}
        flags = [f"--{option}={value}" for option, value in options.items()]
        running.enter_context(self._process("engine", *flags))
        _wait(f"http://127.0.0.1:{port}/v1/models")

    @contextlib.contextmanager
    def _process(self, *arguments: str) -> Iterator[None]:
        with (self._folder / "programs.log").open("ab") as log:
            command = [sys.executable, "-m", "proxy", *arguments]
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait(_PATIENCE)

    def _config(self) -> Path:
        lines = [f"port = {self._port}", f"admin_port = {self._admin}"]
        for name, (port, _) in self._engines.items():
            url = f"http://127.0.0.1:{port}"
            lines += [f"[upstreams.{name}]", f'prefix = "/{name}"', f'url = "{url}"']
        file = self._folder / "proxy.toml"
        file.write_text("\n".join(lines), encoding="utf-8")
        return file

    def _scrape(self) -> str:
        texts = (files.recording(SETTINGS), files.alerting(SETTINGS))
        for name, text in zip(_RULES, texts, strict=True):
            self._folder.joinpath(name).write_text(text, encoding="utf-8")
        return f"""
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{", ".join(_RULES)}]
scrape_configs:
- job_name: tokometer
  static_configs: [{{targets: ["127.0.0.1:{self._admin}"]}}]
"""


class Users:
    """Those of one engine: each asks, reads the answer to its end and asks again."""

    def __init__(self, url: str, seed: str) -> None:
        self._url = url
        self._chance = random.Random(seed)
        self.long = 0.25  # share of long prompts

    @contextlib.asynccontextmanager
    async def asking(self) -> AsyncIterator[None]:
        async with httpx.AsyncClient(timeout=_PATIENCE) as client, asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._ask(client)) for _ in range(_USERS)]
            yield
            for task in tasks:
                task.cancel()

    async def _ask(self, client: httpx.AsyncClient) -> None:
        while True:
            tokens = _LONG if self._chance.random() < self.long else _SHORT
            body = {
                "messages": [{"role": "user", "content": "tell me more " * (tokens // 3)}],
                "max_tokens": self._chance.randint(15, 25),
                "stream": True,
            }
            try:
                async with client.stream("POST", self._url, json=body) as answer:
                    await answer.aread()
            except httpx.HTTPError:
                await asyncio.sleep(_POLL_SECONDS)  # the engine is being started again


async def regress(site: Site, api: Api) -> None:
    """Normal times, then the changes, until the alert on decode fires and all is new.

    AssertionError if it does not fire.
    """
    users = {
        name: Users(f"{site.url}/{name}/v1/chat/completions", name) for name in (SLOWED, LONGER)
    }
    async with users[SLOWED].asking(), users[LONGER].asking():
        await asyncio.sleep(_NORMAL_SECONDS)
        assert not firing(api), "an alert fires in normal times"
        changed = time.monotonic()
        await asyncio.to_thread(site.restart, SLOWED, _RATE / _SLOWER)
        users[LONGER].long = 0.9
        while ("DecodeRegression", SLOWED) not in firing(api):
            assert time.monotonic() < changed + _PATIENCE, "no alert fires"
            await asyncio.sleep(_POLL_SECONDS)
        await asyncio.sleep(max(0, changed + _NEW_SECONDS - time.monotonic()))


def firing(api: Api, seconds: int = 1) -> set[tuple[str, str]]:
    """Alerts on regressions that fired in the last `seconds`: name and upstream."""
    chosen = 'alertname=~"DecodeRegression|PrefillRegression",alertstate="firing"'
    found = api.instant(f"last_over_time(ALERTS{{{chosen}}}[{seconds}s])")
    return {(labels["alertname"], labels["upstream"]) for labels, _ in found}


def _wait(url: str) -> None:
    until = time.monotonic() + _PATIENCE
    while True:
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(url).status_code == 200:
                return
        assert time.monotonic() < until, f"no answer from {url}"
        time.sleep(_POLL_SECONDS)
