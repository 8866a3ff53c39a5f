"""Coroutines that begin at once."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from channel_rig import LOOPS, NewLoop, run

from proxy.eager import start

each_loop = pytest.mark.parametrize("new_loop", LOOPS)


@each_loop
def test_what_never_waits_is_done_at_once_and_is_no_task(new_loop: NewLoop) -> None:
    async def main() -> None:
        async def work() -> None:
            said.append("done")

        assert start(work(), asyncio.get_running_loop()) is None
        assert said == ["done"]

    said: list[str] = []
    run(new_loop, main())


@each_loop
def test_what_waits_is_a_task_from_there_on(new_loop: NewLoop) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        first: asyncio.Future[str] = loop.create_future()

        async def work() -> None:
            said.append("begun")
            said.append(await first)
            async with asyncio.timeout(30):  # only a task can have one
                await asyncio.sleep(0.001)
            try:
                await failing
            except KeyError:
                said.append("failed")

        failing: asyncio.Future[None] = loop.create_future()
        task = start(work(), loop)
        assert said == ["begun"]
        first.set_result("first")
        failing.set_exception(KeyError())
        assert task is not None
        await task
        assert said == ["begun", "first", "failed"]

    said: list[str] = []
    run(new_loop, main())


async def _sleep() -> None:
    await asyncio.sleep(0)


async def _wait() -> None:
    await asyncio.get_running_loop().create_future()


@each_loop
@pytest.mark.parametrize("wait", [_sleep, _wait])
@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_cancelled_it_hears_of_it_where_it_waits(
    new_loop: NewLoop, wait: Callable[[], Coroutine[Any, Any, None]], rounds: int
) -> None:
    async def main() -> None:
        async def work() -> None:
            try:
                await wait()
                await _wait()
            except asyncio.CancelledError:
                said.append("cancelled")
                await asyncio.sleep(0.001)
                said.append("and done")
                raise

        task = start(work(), asyncio.get_running_loop())
        assert task is not None
        for _ in range(rounds):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert said == ["cancelled", "and done"]

    said: list[str] = []
    run(new_loop, main())


@each_loop
@pytest.mark.parametrize("at_once", [True, False])
def test_what_it_raises_is_raised(new_loop: NewLoop, at_once: bool) -> None:
    async def main() -> None:
        async def work() -> None:
            if not at_once:
                await asyncio.sleep(0)
            raise KeyError("x")

        with pytest.raises(KeyError):
            task = start(work(), asyncio.get_running_loop())
            assert task is not None
            await task

    run(new_loop, main())
