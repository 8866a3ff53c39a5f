"""What records of exchanges add to the metrics."""

import re

from proxy.channel import Delays, End, Output, Refused
from proxy.labels import UNKNOWN, status
from proxy.live import Beside, Exchange
from proxy.metrics import Metrics
from proxy.series import Trace

# What an engine reports after no work is 0 or a million; a rate over this is no measurement.
_ABSURD_DECODE = 1e5
_SWITCHED = 101  # how long somebody talked is no duration of a request
_ABSURD_PREFILL = 1e7
# OpenMetrics allows 128 characters for an exemplar's label names and values together.
_MAX_TRACE_CHARACTERS = 128 - len("trace_id")
# Escaped as it should be, a quote in an exemplar costs some readers of OpenMetrics the whole page.
_ESCAPED = re.compile(r'["\\\n]')


def _trace(id: str, wall: float | None, seconds: float) -> Trace | None:
    """Of what happened so many seconds after t0, which was at `wall`."""
    if not id or len(id) > _MAX_TRACE_CHARACTERS or _ESCAPED.search(id):
        return None
    return Trace(id, None if wall is None else wall + seconds)


class Tally:
    """Counts exchanges into `Metrics`. Exchanges come as they were before the record."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._prepared: set[tuple[str, ...]] = set()
        self._refusals: set[tuple[str, ...]] = set()

    def know(self, *scope: str) -> None:
        """This upstream, model, api and stream exist: all their series are there, with 0."""
        for length in range(len(scope), 0, -1):
            if scope[:length] in self._prepared:
                return
            self._prepared.add(scope[:length])
            self._metrics.prepare(*scope[:length])

    def expect(self, exchange: Exchange, label: str) -> None:
        """It will end in some way: the series of all of them are there, with 0."""
        stream = "true" if exchange.stream else "false"
        if label == UNKNOWN:
            self._metrics.requests.prepare(exchange.upstream, label, exchange.api, stream)
        else:
            self.know(exchange.upstream, label, exchange.api, stream)
        refusal = exchange.upstream, label, exchange.api, "false"  # of a stream is none
        if exchange.stream and refusal not in self._refusals:
            self._refusals.add(refusal)
            self._metrics.requests.prepare(*refusal)

    def models(self) -> list[tuple[str, str]]:
        """Upstreams and models (labels) that are known."""
        return [(scope[0], scope[1]) for scope in self._prepared if len(scope) == 2]

    def output(self, exchange: Exchange, record: Output) -> None:
        """A stream moved."""
        metrics, upstream, label = self._metrics, exchange.upstream, exchange.label
        if gaps := record.get("gaps"):
            metrics.chunk_gap.of(upstream, label).observe_all(gaps)
        if tokens := record.get("tokens"):
            metrics.output_tokens.of(upstream, label, exchange.api).add(tokens)
        if characters := record.get("characters"):
            metrics.output_characters.of(upstream, label, exchange.api).add(characters)
        if "ttft_seconds" in record or "ttfv_seconds" in record:
            seconds = record.get("ttft_seconds", 0.0)
            trace = _trace(exchange.trace, exchange.begun.get("time"), seconds)
            self._first((upstream, label), record, exchange, trace)

    def relabel(self, exchange: Exchange, before: str) -> None:
        """What an exchange counted as `before` belongs to its new label."""
        for counter, counted in (
            (self._metrics.output_tokens, exchange.tokens),
            (self._metrics.output_characters, exchange.characters),
        ):
            if counted:
                counter.of(exchange.upstream, before, exchange.api).settle(counted, 0)
                counter.of(exchange.upstream, exchange.label, exchange.api).add(counted)

    def end(
        self, label: str, record: End, exchange: Exchange | None, beside: Beside | None
    ) -> None:
        """An exchange ended; `exchange` is None where its begin was never told."""
        scope = (record["upstream"], label, record["api"], "true" if record["stream"] else "false")
        if label != UNKNOWN:
            self.know(*scope)
        code, outcome = status(record.get("code")), record["outcome"]
        self._metrics.requests.of(*scope, outcome, code).add(1)
        id = record.get("trace_id") or record.get("request_id", "")
        trace = _trace(id, record.get("time"), record.get("duration_seconds", 0.0))
        self._times(scope, record, trace)
        self._first(scope[:2], record, exchange, trace)
        if record.get("answered"):
            self._tokens(scope[:3], record, exchange)
            self._stream(scope[:2], record)
        if outcome == "completed":
            self._speed(scope[:2], record, trace)
            self._engine(scope[:2], record)
            if beside is not None:
                self._cells(scope[:2], record, beside)

    def _first(
        self,
        scope: tuple[str, ...],
        record: Output | End,
        exchange: Exchange | None,
        trace: Trace | None,
    ) -> None:
        """The first output, where no record has told of it yet."""
        metrics = self._metrics
        ttft, ttfv = record.get("ttft_seconds"), record.get("ttfv_seconds")
        if ttft is not None and (exchange is None or exchange.ttft_seconds is None):
            metrics.ttft.of(*scope).observe(ttft, trace)
        if ttfv is not None and (exchange is None or exchange.ttfv_seconds is None):
            metrics.ttfv.of(*scope).observe(ttfv, trace)

    def _times(self, scope: tuple[str, ...], record: End, trace: Trace | None) -> None:
        metrics = self._metrics
        if (seconds := record.get("headers_seconds")) is not None:
            metrics.headers.of(*scope[:2]).observe(seconds)
        seconds = record.get("duration_seconds")
        if seconds is not None and record.get("code") != _SWITCHED:
            metrics.duration.of(*scope).observe(seconds, trace)
        if (seconds := record.get("client_wait_seconds")) is not None:
            metrics.client_wait.of(*scope[:2]).observe(seconds)

    def _tokens(self, scope: tuple[str, ...], record: End, exchange: Exchange | None) -> None:
        """Token counts; what was counted on the way is settled to the final number."""
        metrics = self._metrics
        if (tokens := record.get("prompt_tokens")) is not None:
            metrics.prompt_tokens.of(*scope).add(tokens)
            metrics.prompt_length.of(*scope[:2]).observe(tokens)
        if tokens := record.get("cached_prompt_tokens"):
            metrics.cached_prompt_tokens.of(*scope).add(tokens)
        if tokens := record.get("reasoning_tokens"):
            metrics.reasoning_tokens.of(*scope).add(tokens)
        if (tokens := record.get("output_tokens")) is not None:
            metrics.output_length.of(*scope[:2]).observe(tokens)
            counted = exchange.tokens if exchange else 0
            metrics.output_tokens.of(*scope).settle(counted, tokens)
        if (count := record.get("output_characters")) is not None:
            counted = exchange.characters if exchange else 0
            metrics.output_characters.of(*scope).settle(counted, count)

    def _stream(self, scope: tuple[str, ...], record: End) -> None:
        """What is told of each stream, and of each answer with output."""
        metrics = self._metrics
        source = record.get("token_source", "none")
        if source != "none" or record["stream"]:
            metrics.token_counts.of(*scope, source).add(1)
        if stalls := record.get("stalls"):
            metrics.stalls.of(*scope).add(stalls)
            metrics.stalled_seconds.of(*scope).add(record.get("stalled_seconds") or 0.0)
        if reason := record.get("skipped"):
            metrics.skipped.of(*scope, reason).add(1)

    def _speed(self, scope: tuple[str, ...], record: End, trace: Trace | None) -> None:
        metrics = self._metrics
        if rate := record.get("decode_tokens_per_second"):
            metrics.decode.of(*scope).observe(rate, trace)
            metrics.tpot.of(*scope).observe(1 / rate, trace)
        if rate := record.get("prefill_tokens_per_second"):
            metrics.prefill.of(*scope).observe(rate)

    def _engine(self, scope: tuple[str, ...], record: End) -> None:
        engine = record.get("engine") or {}
        if 0 < (rate := engine.get("decode_tokens_per_second") or 0) < _ABSURD_DECODE:
            self._metrics.engine_decode.of(*scope).observe(rate)
        if 0 < (rate := engine.get("prefill_tokens_per_second") or 0) < _ABSURD_PREFILL:
            self._metrics.engine_prefill.of(*scope).observe(rate)

    def _cells(self, scope: tuple[str, ...], record: End, beside: Beside) -> None:
        prompt = record.get("prompt_tokens", record.get("context"))
        ttft, rate = record.get("ttft_seconds"), record.get("decode_tokens_per_second")
        if ttft is not None:
            cached = record.get("cached_prompt_tokens") or 0
            uncached = None if prompt is None else max(0, prompt - cached)
            self._metrics.ttft_cells.observe(ttft, scope, uncached, beside.at_arrival)
        if rate and beside.decoding is not None:
            self._metrics.tpot_cells.observe(1 / rate, scope, prompt, beside.decoding)

    def refused(self, record: Refused) -> None:
        """The proxy refused a request itself."""
        self._metrics.refused.of(record["error"]).add(1)

    def delays(self, record: Delays) -> None:
        """The proxy's own delays."""
        self._metrics.event_loop_lag.of().observe_all(record.get("lag") or ())
        for upstream, seconds in (record.get("overhead") or {}).items():
            self._metrics.overhead.of(upstream).observe_all(seconds)
