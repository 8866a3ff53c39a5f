"""What exchanges are to OpenTelemetry: measurements when they happen, and one span each."""

from collections.abc import Callable, Sequence
from functools import lru_cache

from opentelemetry.context import Context
from opentelemetry.metrics import Histogram, Meter
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    set_span_in_context,
)

from proxy.address import Upstream
from proxy.channel import End, Output
from proxy.genai import (
    KINDS,
    Attributes,
    common,
    counted,
    error_type,
    span_attributes,
    span_name,
)
from proxy.live import Exchange, Follower

_NANOSECONDS = 1_000_000_000


class Telemetry(Follower):
    """Records exchanges with models. Of other requests nothing is told.

    Args:
        room: whether one more span may be given on.
        end: called when nothing more is to come.
    """

    def __init__(
        self,
        upstreams: Sequence[Upstream],
        meter: Meter,
        tracer: Tracer,
        room: Callable[[], bool],
        end: Callable[[], object],
    ) -> None:
        self._upstreams = {upstream.name: upstream for upstream in upstreams}
        self._tracer = tracer
        self._room = room
        self._close = end
        self._attributes = lru_cache(10_000)(self._common)

        def seconds(name: str, help: str) -> Histogram:
            return meter.create_histogram(name, "s", help)

        self._duration = seconds("gen_ai.client.operation.duration", "GenAI operation duration.")
        self._first_chunk = seconds(
            "gen_ai.client.operation.time_to_first_chunk",
            "From the request to the first chunk with output.",
        )
        self._first_token = seconds(
            "gen_ai.server.time_to_first_token", "Time to the first token of completed streams."
        )
        self._per_token = seconds(
            "gen_ai.server.time_per_output_token",
            "Time per output token after the first one, of completed streams.",
        )
        self._usage = meter.create_histogram(
            "gen_ai.client.token.usage", "{token}", "Input and output tokens of each operation."
        )

    def output(self, exchange: Exchange, record: Output) -> None:
        ttft = record.get("ttft_seconds")
        if ttft is not None and exchange.api in KINDS:
            attributes = self._attributes(exchange.upstream, exchange.api, exchange.label)
            self._first_chunk.record(ttft, attributes)

    def end(self, exchange: Exchange | None, label: str, record: End) -> None:
        if record["api"] not in KINDS:
            return
        attributes = self._attributes(record["upstream"], record["api"], label)
        ttft = record.get("ttft_seconds")
        if ttft is not None and (exchange is None or exchange.ttft_seconds is None):
            self._first_chunk.record(ttft, attributes)
        error = error_type(record)
        if (duration := record.get("duration_seconds")) is not None:
            ended = attributes | {"error.type": error} if error else attributes
            self._duration.record(duration, ended)
        for type, tokens in counted(record).items():
            self._usage.record(tokens, attributes | {"gen_ai.token.type": type})
        if error is None:
            self._speed(record, attributes)
        self._span(record, exchange.asked if exchange else "", error)

    def close(self) -> None:
        self._close()

    def _common(self, upstream: str, api: str, label: str) -> Attributes:
        return common(self._upstreams[upstream], api, label)

    def _speed(self, record: End, attributes: Attributes) -> None:
        if (ttft := record.get("ttft_seconds")) is not None:
            self._first_token.record(ttft, attributes)
        if rate := record.get("decode_tokens_per_second"):
            self._per_token.record(1 / rate, attributes)

    def _span(self, record: End, asked: str, error: str | None) -> None:
        """The span of an exchange, as a part of the trace that the client is in."""
        wall = record.get("time")
        if wall is None:
            return
        start = round(wall * _NANOSECONDS)
        upstream = self._upstreams[record["upstream"]]
        span = self._tracer.start_span(
            span_name(record, asked),
            _parent(record),
            SpanKind.CLIENT,
            span_attributes(upstream, record, asked),
            start_time=start,
        )
        kept = span.is_recording() and span.get_span_context().trace_flags.sampled
        if not kept or not self._room():
            return
        if error is not None:
            span.set_status(Status(StatusCode.ERROR))
        span.end(start + round(record.get("duration_seconds", 0.0) * _NANOSECONDS))


def _parent(record: End) -> Context:
    """The span that `traceparent` named; none if there was no such header."""
    trace, parent = record.get("trace_id"), record.get("parent_id")
    if not trace or not parent:
        return Context()
    flags = TraceFlags.SAMPLED if record.get("sampled") else TraceFlags.DEFAULT
    context = SpanContext(int(trace, 16), int(parent, 16), True, TraceFlags(flags))
    return set_span_in_context(NonRecordingSpan(context), Context())
