"""Nothing of an exchange is left to the garbage collector: it is rare, and stops all streams."""

import asyncio
import gc
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack

import pytest
from clients import RawClient, get
from proxy_rig import play, proxying
from test_relay_failures import EVENT, STREAM
from upstreams import EVENTS, ScriptedUpstream, Visit, chunk, sized

CLOSING = EVENTS.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)
REST = chunk(b"data: [DONE]\n\n") + chunk(b"")
LONG = chunk(EVENT) * 3
TIMES = 5

Act = Callable[[RawClient], Awaitable[object]]


async def asks(client: RawClient) -> None:
    await client.ask(STREAM)


async def keeps(client: RawClient) -> None:
    await client.ask(STREAM)
    await client.ask(get(b"/"))


async def leaves(client: RawClient) -> None:
    client.send(STREAM)
    await client.head()
    client.reset()


ENDS: dict[str, tuple[Act, bytes, str]] = {
    "whole, kept": (keeps, EVENTS + LONG + REST, "stay"),
    "whole, closed": (asks, CLOSING + LONG + REST, "stay"),
    "small": (keeps, sized(b"ok"), "stay"),
    "to the end of the connection": (asks, b"HTTP/1.1 200 OK\r\n\r\nok", "close"),
    "cut": (asks, EVENTS + LONG, "close"),
    "reset": (asks, EVENTS + LONG, "reset"),
    "no answer": (asks, b"", "close"),
    "no HTTP": (asks, b"SMTP\r\n", "close"),
    "bad chunk": (asks, EVENTS + LONG + b"zz\r\n", "close"),
    "nobody there": (asks, b"", "absent"),
    "client leaves": (leaves, EVENTS + LONG, "stay"),
}


@pytest.fixture
def garbage() -> Iterator[Callable[[], Counter[str]]]:
    """Objects of ours that only the garbage collector would have found since the last call."""

    def found() -> Counter[str]:
        gc.collect()
        names = Counter(type(one).__qualname__ for one in gc.garbage if _is_ours(one))
        gc.garbage.clear()
        return names

    gc.collect()
    gc.freeze()  # what there is need not be looked at each time
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    yield found
    gc.set_debug(0)
    gc.enable()
    gc.unfreeze()
    gc.garbage.clear()


def _is_ours(one: object) -> bool:
    return type(one).__module__.startswith("proxy.")


@pytest.mark.parametrize("end", ENDS)
def test_an_exchange_leaves_no_cycles(end: str, garbage: Callable[[], Counter[str]]) -> None:
    act, answer, then = ENDS[end]

    async def script(visit: Visit) -> None:
        while await visit.hear():
            visit.say(answer)
            if then != "stay":
                await visit.writer.drain()
                visit.reset() if then == "reset" else visit.close()
                return

    async def main() -> None:
        async with ScriptedUpstream(script) as upstream:
            port = upstream.port
        async with AsyncExitStack() as stack:
            if then != "absent":
                port = (await stack.enter_async_context(ScriptedUpstream(script))).port
            proxy = await stack.enter_async_context(proxying(port))
            for _ in range(TIMES):
                client = await proxy.client()
                await act(client)
                await client.close()
                while proxy.listening.connections() or proxy.listening.state.tasks:
                    await asyncio.sleep(0)
            assert garbage() == {}

    play(main)
