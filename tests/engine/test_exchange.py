import asyncio
from collections.abc import Awaitable
from itertools import pairwise
from typing import Any

import orjson
import pytest
from starlette.types import ASGIApp, Message

from engine.rig import Played, at_once, converse, post
from proxy.engine import EngineSettings, build_app
from proxy.engine.exchange import Cut

CHAT = "/v1/chat/completions"
TOKEN = b'"delta":{"content":"'
HELLO = [{"role": "user", "content": ""}]


def app(**settings: Any) -> ASGIApp:
    """An engine with a round TTFT and rate, whose clock is that of the running loop."""
    chosen: dict[str, Any] = {"ttft": 0.5, "rate": 40.0} | settings
    return build_app(EngineSettings(**chosen), clock=asyncio.get_running_loop().time)


def ask(tokens: int, **more: Any) -> dict[str, Any]:
    return {"messages": HELLO, "stream": True, "max_tokens": tokens} | more


def alone(body: Any, path: str = CHAT, **settings: Any) -> Played:
    async def main() -> Played:
        return await post(app(**settings), path, body)

    return at_once(main())


def together(*bodies: Any, **settings: Any) -> list[Played]:
    async def main() -> list[Played]:
        engine = app(**settings)
        return await asyncio.gather(*(post(engine, CHAT, body) for body in bodies))

    return at_once(main())


async def later(seconds: float, work: Awaitable[Played]) -> Played:
    await asyncio.sleep(seconds)
    return await work


def test_every_event_is_a_write_of_its_own_at_its_due_time() -> None:
    played = alone(ask(4, stream_options={"include_usage": True}))
    assert [write.count(b"data: ") for _, write in played.writes] == [1] * 8
    # Role and first token, tokens, finish and usage and [DONE] with the last one.
    due = [0.5, 0.5, 0.525, 0.55, 0.575, 0.575, 0.575, 0.575]
    assert [at for at, _ in played.writes] == pytest.approx(due)


def test_headers_leave_before_there_is_any_output() -> None:
    assert alone(ask(4)).headers_at == 0


def test_an_answer_that_is_not_streamed_leaves_when_its_last_token_is_due() -> None:
    played = alone(ask(21, stream=False))
    assert played.headers_at == pytest.approx(0.5 + 20 / 40)
    assert played.json["usage"]["completion_tokens"] == 21


def test_late_wake_ups_do_not_add_up() -> None:
    async def main() -> Played:
        async def oversleep(seconds: float) -> None:
            await asyncio.sleep(seconds + 0.01)

        settings = EngineSettings(ttft=0.5, rate=40)
        engine = build_app(settings, clock=asyncio.get_running_loop().time, sleep=oversleep)
        return await post(engine, CHAT, ask(100))

    times = at_once(main()).times(TOKEN)
    assert times == pytest.approx([0.51 + k / 40 for k in range(100)])


def test_an_engine_that_was_held_up_catches_up() -> None:
    async def main() -> Played:
        stop = iter([0.0] * 3 + [2.0] + [0.0] * 100)

        async def sleep(seconds: float) -> None:
            await asyncio.sleep(seconds + next(stop))

        settings = EngineSettings(ttft=0.5, rate=40)
        engine = build_app(settings, clock=asyncio.get_running_loop().time, sleep=sleep)
        return await post(engine, CHAT, ask(100))

    assert at_once(main()).times(TOKEN)[-1] == pytest.approx(0.5 + 99 / 40)


def test_users_at_once_are_slower_by_the_formula() -> None:
    slow = (157 / 81 - 1) / 7
    for users, rate in ((1, 157), (8, 81)):
        played = together(*[ask(101)] * users, rate=157.0, concurrency_slowdown=slow)
        for one in played:
            times = one.times(TOKEN)
            assert (len(times) - 1) / (times[-1] - times[0]) == pytest.approx(rate)


def test_a_user_that_is_done_makes_the_others_faster() -> None:
    short, long = together(ask(5), ask(9), rate=10.0, concurrency_slowdown=1.0)
    assert short.times(TOKEN) == pytest.approx([0.5 + 0.2 * k for k in range(5)])
    assert long.times(TOKEN)[:5] == pytest.approx(short.times(TOKEN))
    assert long.times(TOKEN)[5:] == pytest.approx([1.4 + 0.1 * k for k in range(4)])


def test_a_long_prompt_slows_prefill_and_decode() -> None:
    prompt = [{"role": "user", "content": "x" * 16_000}]
    played = alone(ask(2, messages=prompt), prefill_rate=2000.0, context_slowdown=0.25)
    times = played.times(TOKEN)
    assert times[0] == pytest.approx(0.5 + 2)
    assert times[1] - times[0] == pytest.approx((1 + 0.25 * 4.001) / 40)


def test_requests_past_the_places_wait_in_line_and_their_ttft_grows() -> None:
    played = together(*[ask(21)] * 3, max_concurrency=1)
    assert [one.times(TOKEN)[0] for one in played] == pytest.approx([0.5, 1.5, 2.5])


@pytest.mark.parametrize("leave_after", [0.2, 0.7])
def test_a_client_that_leaves_frees_its_place_at_once(leave_after: float) -> None:
    async def main() -> tuple[Played, Played]:
        engine = app(max_concurrency=1)
        first = post(engine, CHAT, ask(1000), leave_after)
        return await asyncio.gather(first, later(0.1, post(engine, CHAT, ask(2))))

    left, stayed = at_once(main())
    assert not left.complete
    assert all(at <= leave_after for at, _ in left.writes)
    assert stayed.times(TOKEN)[0] == pytest.approx(leave_after + 0.5)


def test_a_client_that_leaves_the_line_is_not_served() -> None:
    async def main() -> tuple[Played, Played, Played]:
        engine = app(max_concurrency=1)
        return await asyncio.gather(
            post(engine, CHAT, ask(21)),
            post(engine, CHAT, ask(1000), leave_after=0.3),
            post(engine, CHAT, ask(1)),
        )

    _, left, last = at_once(main())
    assert left.writes == []
    assert last.times(TOKEN)[0] == pytest.approx(1.5)


def test_a_client_that_leaves_an_answer_that_is_not_streamed_frees_its_place() -> None:
    async def main() -> tuple[Played, Played]:
        engine = app(max_concurrency=1)
        first = post(engine, CHAT, ask(1000, stream=False), leave_after=0.7)
        return await asyncio.gather(first, post(engine, CHAT, ask(1)))

    left, stayed = at_once(main())
    assert left.status == 0
    assert stayed.times(TOKEN)[0] == pytest.approx(1.2)


def test_tokens_leave_in_bursts_at_the_same_rate() -> None:
    played = alone(ask(10, stream_options={"include_usage": True}), tokens_per_chunk=4)
    assert played.times(TOKEN) == pytest.approx([0.5, 0.6, 0.65])
    assert len(played.times(b'"completion_tokens":10')) == 1


def test_a_stall_is_one_pause_within_the_stream() -> None:
    times = alone(ask(20), stall=1.0, stall_seconds=7.0).times(TOKEN)
    gaps = sorted(after - before for before, after in pairwise(times))
    assert gaps[:-1] == pytest.approx([1 / 40] * 18)
    assert gaps[-1] == pytest.approx(7 + 1 / 40)


def test_answers_to_one_request_advance_side_by_side() -> None:
    played = alone(ask(3, n=2))
    first, second = played.times(b'"index":0,"delta":{"content":"'), played.times(b'"index":1,')
    assert first[-3:] == pytest.approx([0.5, 0.525, 0.55])
    assert second == pytest.approx([0.5, 0.5, 0.525, 0.55, 0.55])


async def post_or_none(engine: ASGIApp, body: Any) -> Played | None:
    """None where the engine cut the connection."""
    try:
        return await post(engine, CHAT, body)
    except Cut:
        return None


async def outcome(engine: ASGIApp, body: Any) -> str:
    played = await post_or_none(engine, body)
    if played is None:
        return "cut"
    broken = played.times(b'"error"') and played.status == 200
    return "error event" if broken else str(played.status)


def words(played: Played) -> list[bytes]:
    return [write.split(TOKEN)[1].split(b'"')[0] for _, write in played.writes if TOKEN in write]


@pytest.mark.parametrize(
    ("stream", "ways"), [(True, {"429", "500", "error event", "cut"}), (False, {"429", "500"})]
)
def test_the_set_share_of_requests_goes_wrong_in_each_way(stream: bool, ways: set[str]) -> None:
    async def main() -> list[str]:
        engine = app(error_rate=0.25)
        return [await outcome(engine, ask(4, stream=stream)) for _ in range(800)]

    seen = at_once(main())
    wrong = [one for one in seen if one != "200"]
    assert set(wrong) == ways
    assert len(wrong) / len(seen) == pytest.approx(0.25, abs=0.05)


def test_no_request_goes_wrong_by_default() -> None:
    async def main() -> set[str]:
        engine = app()
        return {await outcome(engine, ask(4)) for _ in range(100)}

    assert at_once(main()) == {"200"}


def test_a_broken_stream_breaks_half_way_and_tells_no_usage() -> None:
    async def main() -> list[Played | None]:
        engine, body = app(error_rate=1.0), ask(8, stream_options={"include_usage": True})
        return [await post_or_none(engine, body) for _ in range(40)]

    played = next(one for one in at_once(main()) if one and one.status == 200)
    assert len(played.times(TOKEN)) == 4
    assert orjson.loads(played.writes[-2][1][6:])["error"]["type"] == "server_error"
    assert played.writes[-1][1] == b"data: [DONE]\n\n"
    assert not played.times(b"completion_tokens")


def test_the_same_seed_gives_the_same_texts_times_and_chances() -> None:
    def play(seed: int) -> list[Any]:
        async def main() -> list[Any]:
            engine = app(seed=seed, jitter=0.5, stall=0.5, error_rate=0.3)
            played = [await post_or_none(engine, ask(6)) for _ in range(20)]
            return [one and (one.status, one.times(b""), words(one)) for one in played]

        return at_once(main())

    assert play(1) == play(1)
    assert play(1) != play(2)


def test_embeddings_take_a_place_for_their_prefill() -> None:
    async def main() -> tuple[Played, Played]:
        engine = app(max_concurrency=1, prefill_rate=100.0)
        embed = post(engine, "/v1/embeddings", {"input": ["x" * 200, "y" * 200]})
        return await asyncio.gather(embed, post(engine, CHAT, ask(1)))

    embedded, chatted = at_once(main())
    assert embedded.headers_at == pytest.approx(0.5 + 1)
    assert embedded.json["usage"] == {"prompt_tokens": 100, "total_tokens": 100}
    assert chatted.times(TOKEN)[0] == pytest.approx(1.5 + 0.5)


def part(body: bytes, more: bool) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_body_may_come_in_parts() -> None:
    async def main() -> Played:
        body = orjson.dumps(ask(2))
        return await converse(app(), CHAT, [part(body[:9], True), part(body[9:], False)])

    assert len(at_once(main()).times(TOKEN)) == 2


def test_a_client_that_leaves_before_its_body_is_complete_gets_nothing() -> None:
    async def main() -> Played:
        return await converse(app(), CHAT, [part(b"{", True), {"type": "http.disconnect"}])

    assert at_once(main()).status == 0


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"null", b"\xff"])
def test_a_body_that_is_no_json_object_is_refused(body: bytes) -> None:
    played = alone(body)
    assert played.status == 400
    assert "body" in played.json["error"]["message"]


def test_a_bug_in_an_exchange_is_not_hidden() -> None:
    class Broken(Exception):
        pass

    async def main() -> None:
        async def sleep(seconds: float) -> None:
            raise Broken

        await post(build_app(EngineSettings(), sleep=sleep), CHAT, ask(1))

    with pytest.raises(Broken):
        at_once(main())
