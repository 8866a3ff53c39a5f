"""One request and its answer as the keeper is told of it: begin, progress, end."""

import re
from typing import Any, cast

from proxy.channel import Begin, End, Output, Refused
from proxy.errors import Failure
from proxy.formats.event import Call, Interface
from proxy.headers import Fields
from proxy.meter import Meter, Progress
from proxy.origin import Origin
from proxy.outcome import Outcome
from proxy.tokens import Learned, Totals

_REQUEST_ID = re.compile(r"[\x20-\x7e]{1,128}")
# W3C Trace Context, section 3.2: version, trace id, parent id, flags. Zeros are no ids.
_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?"
)
_SAMPLED = 1  # among the flags
_MAX_MODEL_CHARACTERS = 256
_MAX_FINISH_CHARACTERS = 64
_MAX_ERROR_CHARACTERS = 200


class Exchange:
    """What is known of one exchange.

    Args:
        number: unique within the worker.
        request_id: one of ours, for a request that brings none.
        wall: when it came, seconds since the epoch, for people.
        origin: whom it is from, as far as that is to be told.
    """

    __slots__ = (
        "_code_told",
        "_held_told",
        "answered",
        "call",
        "code",
        "error",
        "held",
        "meter",
        "moved",
        "number",
        "origin",
        "outcome",
        "over_at",
        "parent_id",
        "received_bytes",
        "request_id",
        "sampled",
        "sent_bytes",
        "t0",
        "t_end",
        "trace_id",
        "upstream",
        "wall",
    )

    def __init__(
        self,
        number: int,
        upstream: str,
        fields: Fields,
        request_id: str,
        wall: float,
        call: Call,
        interface: Interface,
        learned: Learned,
        t0: float,
        stall_seconds: float,
        origin: Origin = Origin(),  # noqa: B008  # immutable
    ) -> None:
        self.number = number
        self.origin = origin
        self.upstream = upstream
        self.wall = wall
        self.request_id = _request_id(fields) or request_id
        trace = _trace(fields)
        self.trace_id = trace[1] if trace else None
        self.parent_id = trace[2] if trace else None
        self.sampled = bool(int(trace[3], 16) & _SAMPLED) if trace else None
        self.call = call
        self.t0 = self.t_end = t0
        self.over_at = 0.0  # when nothing was in flight any more
        self.meter = Meter(call, call.reader or interface.event, learned, t0, stall_seconds)
        self.code: int | None = None  # the status that the client saw
        self._code_told = False
        self.answered = False  # by a 2xx
        self.error: str | None = None  # why it did not complete, in our words
        self.received_bytes: int | None = None  # from the client and to it, behind a 101
        self.sent_bytes: int | None = None
        self.held = self._held_told = False  # the client takes no bytes
        self.moved = False  # something is new since the last progress record
        # Only the line that proves something better changes it.
        self.outcome = Outcome.ABORTED

    def uploaded(self, at: float) -> None:
        """The last byte of a body that streamed through has arrived: that is t0."""
        self.t0 = self.meter.t0 = at

    def begin(self) -> Begin:
        """It goes to the upstream."""
        record: Begin = {
            "kind": "begin",
            "id": self.number,
            "upstream": self.upstream,
            "api": self.call.api,
            "stream": self.call.stream,
            "at": self.t0,
            "trace": self.trace_id or self.request_id,
            "time": self.wall,
            "request_id": self.request_id,
        }
        if self.trace_id:
            record["trace_id"] = self.trace_id
        if self.parent_id and self.sampled is not None:
            record["parent_id"], record["sampled"] = self.parent_id, self.sampled
        if self.origin.user:
            record["user"] = self.origin.user
        if self.origin.task:
            record["task"] = self.origin.task
        if self.call.model:
            record["model"] = self.call.model[:_MAX_MODEL_CHARACTERS]
        return record

    def progress(self) -> Output | None:
        """What moved since the last such record; None if nothing did."""
        self.moved = False
        meter = self.meter
        if not (self.answered and meter.stream):
            return None
        moved = meter.progress()
        if moved is None:
            if self.held == self._held_told:
                return None
            moved = Progress(0, 0, [], first=False, visible=False)
        record: Output = {
            "kind": "output",
            "id": self.number,
            "last_at": meter.gaps.last_at,
            "tokens": moved.tokens,
            "characters": moved.characters,
            "gaps": moved.gaps,
        }
        if meter.model:
            record["model"] = meter.model[:_MAX_MODEL_CHARACTERS]
        if moved.first and meter.ttft is not None and meter.output.first_at is not None:
            record["ttft_seconds"] = meter.ttft
            record["first_at"] = meter.output.first_at
        if moved.visible and meter.ttfv is not None:
            record["ttfv_seconds"] = meter.ttfv
        if self.held != self._held_told:
            record["held"] = self._held_told = self.held
        if not self._code_told and self.code is not None:
            record["code"], self._code_told = self.code, True
        return record

    def end(self) -> End:
        """All of it, now that it is over. Teaches the model's ratios where it was counted."""
        meter = self.meter
        totals = meter.totals()
        self.t_end = max(self.t_end, meter.gaps.last_at)
        if self.outcome is Outcome.COMPLETED and self.answered:
            meter.learn(totals)
        record: dict[str, Any] = {
            "kind": "end",
            "id": self.number,
            "time": self.wall,
            "at": self.over_at or self.t_end,
            "request_id": self.request_id,
            "trace_id": self.trace_id,
            "parent_id": self.parent_id,
            "sampled": self.sampled,
            "user": self.origin.user,
            "task": self.origin.task,
            "upstream": self.upstream,
            "model": meter.model[:_MAX_MODEL_CHARACTERS] if meter.model else None,
            "api": self.call.api,
            "stream": meter.stream,
            "outcome": self.outcome.value,
            "code": self.code,
            "answered": self.answered,
            "headers_seconds": meter.headers,
            # Where no byte came back, t_end is t0 still.
            "duration_seconds": self.t_end - self.t0 if self.t_end > self.t0 else None,
            "client_wait_seconds": meter.gaps.wait,
            "chunks": meter.chunks,
            "context": self._context(totals),
            "finish_reason": meter.finish and meter.finish[:_MAX_FINISH_CHARACTERS],
            "engine": meter.engine or None,
            "error": self.error and self.error[:_MAX_ERROR_CHARACTERS],
            "received_bytes": self.received_bytes,
            "sent_bytes": self.sent_bytes,
        }
        record |= self._tokens(totals) | self._speed(totals)
        return cast(End, {key: value for key, value in record.items() if value is not None})

    def _context(self, totals: Totals) -> int | None:
        """Prompt tokens: the upstream's own count, else the estimate made at arrival."""
        if totals.prompt is not None:
            return totals.prompt
        characters = self.call.prompt_characters
        return self.meter.learned.prompt(characters) if characters else None

    def _tokens(self, totals: Totals) -> dict[str, Any]:
        return {
            "token_source": totals.source,
            "prompt_tokens": totals.prompt,
            "cached_prompt_tokens": totals.cached,
            "output_tokens": totals.output,
            "reasoning_tokens": totals.reasoning,
            "output_characters": self.meter.output.characters or None,
        }

    def _speed(self, totals: Totals) -> dict[str, Any]:
        """Times and rates; a stream without a decode rate says why."""
        meter = self.meter
        if not meter.stream:
            return {}
        speed: dict[str, Any] = {
            "ttft_seconds": meter.ttft,
            "ttfv_seconds": meter.ttfv,
            "first_at": meter.output.first_at,
            "last_at": meter.gaps.last_at or None,
            "max_gap_seconds": meter.gaps.longest or None,
            "stalls": meter.gaps.stalls,
            "stalled_seconds": meter.gaps.stalled or None,
        }
        rate, skipped = meter.decode_rate(totals.output)
        if self.outcome is not Outcome.COMPLETED:
            rate, skipped = None, skipped if skipped in _UNREADABLE else "not_completed"
        elif totals.prompt and meter.ttft:
            speed["prefill_tokens_per_second"] = _prefill(totals, meter.ttft)
        if self.answered:
            speed["decode_tokens_per_second"] = rate
            speed["decode_characters_per_second"] = meter.decode_characters() if rate else None
            speed["tokens_per_chunk"] = meter.tokens_per_chunk(totals.output)
            speed["skipped"] = skipped
        return speed


def refusal(failure: Failure, fields: Fields, wall: float) -> Refused:
    """What is told of a request with these headers that the proxy refused itself."""
    record: Refused = {
        "kind": "refused",
        "time": wall,
        "outcome": Outcome.REJECTED.value,
        "code": failure.status,
        "error": failure.code,
    }
    if (request_id := _request_id(fields)) is not None:
        record["request_id"] = request_id
    if (trace := _trace(fields)) is not None:
        record["trace_id"] = trace[1]
    return record


def _request_id(fields: Fields) -> str | None:
    asked = fields[b"x-request-id"]
    return asked if _REQUEST_ID.fullmatch(asked) else None


def _trace(fields: Fields) -> re.Match[str] | None:
    """Trace id, parent id, flags."""
    return _TRACEPARENT.fullmatch(fields[b"traceparent"])


_UNREADABLE = ("encoding", "too_large", "malformed")


def _prefill(totals: Totals, ttft: float) -> float | None:
    """Uncached prompt tokens per second of TTFT."""
    uncached = (totals.prompt or 0) - (totals.cached or 0)
    return uncached / ttft if uncached > 0 else None
