"""One request to the simulated engine and its answer, over ASGI."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterable, Mapping

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from proxy.engine import embeddings
from proxy.engine.answer import Burst, runs
from proxy.engine.ask import Body, Refusal
from proxy.engine.simulation import Fault, Simulation
from proxy.engine.wire import Interface, Payload, Times, Wire, error

HALF_WAY = Refusal(500, "the engine failed in mid-answer (simulated)")


class Cut(Exception):
    """The connection is to end in mid-answer: the server closes it when this reaches it."""


def error_response(
    path: str, refusal: Refusal, headers: Mapping[str, str] | None = None
) -> Response:
    """An error in the words of the interface to which the path belongs."""
    if refusal.status == 429:
        headers = {"retry-after": "1"}
    return _json(error(path, refusal), refusal.status, headers)


def _json(
    payload: Payload, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    return Response(orjson.dumps(payload), status, headers, "application/json")


class _Endpoint(ABC):
    """Takes a body of JSON, and answers for as long as the client is there."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await _body(receive)
        if body is None:
            return
        try:
            await _while_connected(receive, self.answer(_parsed(body), scope, receive, send))
        except Refusal as refusal:
            await error_response(scope["path"], refusal)(scope, receive, send)

    @abstractmethod
    async def answer(self, body: Body, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises Refusal as long as nothing is sent, and Cut."""


async def _body(receive: Receive) -> bytes | None:
    """The request's body, None where the client left before its end."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if not message.get("more_body", False):
            return bytes(body)


def _parsed(body: bytes) -> Body:
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError as problem:
        raise Refusal(400, f"the body is not JSON: {problem}") from None
    if not isinstance(parsed, dict):
        raise Refusal(400, "the body must be a JSON object")
    return parsed


async def _while_connected(receive: Receive, work: Coroutine[None, None, None]) -> None:
    """Does `work`, and cancels it when the client leaves: only `receive` tells of that."""
    try:
        async with asyncio.TaskGroup() as group:
            job, watch = group.create_task(work), group.create_task(_left(receive))
            job.add_done_callback(lambda _: watch.cancel())
            watch.add_done_callback(lambda _: job.cancel())
    except BaseExceptionGroup as failed:
        # The watch cannot fail, so this is the one of the job.
        raise failed.exceptions[0] from None


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class Generate(_Endpoint):
    """One of the interfaces for generated text."""

    def __init__(self, simulation: Simulation, interface: Interface) -> None:
        super().__init__(simulation)
        self._interface = interface

    async def answer(self, body: Body, scope: Scope, receive: Receive, send: Send) -> None:
        run, asked = self._simulation, self._interface.read(body)
        times, chance = Times(run.clock()), run.chance()
        reply = run.reply(asked, chance)
        fault = run.fault(chance, asked.stream)
        wire = self._interface.wire(reply)
        steps = reply.bursts(run.settings.tokens_per_chunk)
        if not asked.stream:
            await run.decode(steps, asked, chance, times, _keep)
            await _json(wire.whole(times))(scope, receive, send)
            return
        stream = _Stream(wire, send)
        await stream.open()
        half = steps[: len(steps) // 2] if fault else steps
        await run.decode(half, asked, chance, times, stream.burst)
        await stream.close(times, fault)


async def _keep(burst: Burst) -> None:
    """An answer that is not streamed leaves when it is complete."""


class _Stream:
    """Sends a reply event by event, each as a write of its own."""

    def __init__(self, wire: Wire, send: Send) -> None:
        self._wire = wire
        self._send = send

    async def open(self) -> None:
        headers = [(b"content-type", self._wire.media_type), (b"cache-control", b"no-cache")]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._write(self._wire.opening())

    async def burst(self, burst: Burst) -> None:
        for channel, text in runs(burst.pieces):
            await self._write(self._wire.delta(burst.answer, channel, text))
        if burst.last:
            await self._write(self._wire.finish(burst.answer))

    async def close(self, times: Times, fault: Fault | None) -> None:
        if fault is Fault.CUT:
            raise Cut
        ending = self._wire.failure(HALF_WAY) if fault else self._wire.closing(times)
        await self._write(ending)
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write(self, events: Iterable[bytes]) -> None:
        for event in events:
            await self._send({"type": "http.response.body", "body": event, "more_body": True})


class Embed(_Endpoint):
    """Embeddings, which take as long as the prefill of their texts."""

    async def answer(self, body: Body, scope: Scope, receive: Receive, send: Send) -> None:
        run, asked = self._simulation, embeddings.read(body)
        model, chance = run.model(asked.model), run.chance()
        run.fault(chance, stream=False)
        await run.prefill(asked.tokens, chance)
        answer = embeddings.embed(asked, model, run.settings.seed)
        await _json(answer)(scope, receive, send)
