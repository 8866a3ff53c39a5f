"""Clients that leave while nothing is read from them."""

import asyncio
from collections.abc import Callable

import pytest
from clients import RawClient, get
from proxy_rig import Listening, play, promptly, serving
from test_listener import Waiting


async def paused(listening: Listening) -> None:
    """Wait until the only connection is not read from."""
    while not [c for c in listening.connections() if c.flow.read_paused]:
        await asyncio.sleep(0)


@pytest.mark.parametrize("how", [RawClient.leave, RawClient.reset])
@pytest.mark.parametrize(
    "behind", [get(b"/2"), b"POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n12"]
)
def test_client_that_leaves_is_noticed_though_nothing_is_read(
    how: Callable[[RawClient], None], behind: bytes
) -> None:
    async def main() -> None:
        app = Waiting()
        async with serving(app) as listening:
            client = await listening.client()
            client.send(get(b"/1"), behind)
            await paused(listening)
            assert not app.cancelled.is_set()
            how(client)
            await promptly(app.cancelled.wait())
            assert len(app.clients) == 1

    play(main)


def test_client_that_waits_for_two_answers_is_not_taken_for_gone() -> None:
    async def main() -> None:
        app = Waiting()
        async with serving(app) as listening:
            client = await listening.client()
            client.send(get(b"/1"), get(b"/2"))
            await paused(listening)
            await asyncio.sleep(0.25)  # it is looked for twice
            app.go_on.set()
            for _ in range(2):
                assert (await client.answer()).body == b"ok"

    play(main)
