"""Every metric is defined here once: name, type, labels, help, buckets.

A new one is one definition; its series with 0, `# TYPE` and `/metrics` follow from it.
"""

import platform
from collections.abc import Iterable, Mapping, Sequence

from prometheus_client.core import Metric

from proxy import __version__, buckets
from proxy.cells import CELLS, Cells, Size, Sizes, crowd_size, prompt_size
from proxy.labels import SCOPE, SKIPPED, SOURCES, USUAL_CODES
from proxy.meter import Outcome
from proxy.series import Counter, Family, Gauge, Histogram, Values


def _each(values: Iterable[str]) -> list[Values]:
    return [(value,) for value in values]


class Metrics:
    """All metrics of the keeper.

    Args:
        overrides: `[buckets]` of the settings: bounds by metric name. ValueError (one line) if one
            names no histogram.
    """

    def __init__(self, overrides: Mapping[str, Sequence[float]]) -> None:
        self._families: list[Family] = []
        self._bounds = buckets.Bounds(overrides)
        self._define_exchanges()
        self._define_times()
        self._define_rates()
        self._define_tokens()
        self._define_cells()
        self._define_upstreams()
        self._define_own()
        self._bounds.check()
        self.prepare()

    def prepare(self, *scope: str) -> None:
        """Make the series of an upstream, a model, an api ... (values of `SCOPE`), with 0."""
        names = SCOPE[: len(scope)]
        for family in self._families:
            if family.scope == names:
                family.prepare(*scope)

    def collect(self) -> list[Metric]:
        """A copy of all metrics, in the order of their definition."""
        return [family.collect() for family in self._families]

    def _counter(
        self, name: str, labels: str, help: str, known: Sequence[Values] = ((),)
    ) -> Counter:
        family = Counter(f"tokometer_{name}", labels.split(), help, known)
        self._families.append(family)
        return family

    def _gauge(self, name: str, labels: str, help: str) -> Gauge:
        family = Gauge(f"tokometer_{name}", labels.split(), help)
        self._families.append(family)
        return family

    def _histogram(self, name: str, labels: str, help: str, bounds: Sequence[float]) -> Histogram:
        full = f"tokometer_{name}"
        family = Histogram(full, labels.split(), help, self._bounds.of(full, bounds))
        self._families.append(family)
        return family

    def _define_exchanges(self) -> None:
        codes = [(outcome.value, code) for outcome in Outcome for code in USUAL_CODES[outcome]]
        self.requests = self._counter(
            "requests_total",
            "upstream model api stream outcome code",
            "Exchanges ended. code is the status that the client saw.",
            codes,
        )
        self.streams = self._gauge("streams", "upstream model phase", "Streams in flight.")
        self.streams_stalled = self._gauge(
            "streams_stalled",
            "upstream model",
            "Streams in flight that have been silent for longer than the stall threshold since "
            "their last output.",
        )

    def _define_times(self) -> None:
        self.ttft = self._histogram(
            "time_to_first_token_seconds",
            "upstream model",
            "From the last byte of the request to the first generated output of a stream, "
            "observed when it happens.",
            buckets.TTFT,
        )
        self.ttfv = self._histogram(
            "time_to_first_visible_output_seconds",
            "upstream model",
            "From the last byte of the request to the first output that is not reasoning.",
            buckets.TTFT,
        )
        self.headers = self._histogram(
            "time_to_headers_seconds",
            "upstream model",
            "From the last byte of the request to the head of the answer.",
            buckets.TTFT,
        )
        self.chunk_gap = self._histogram(
            "chunk_gap_seconds",
            "upstream model",
            "Between two successive reads with output; one can hold many tokens.",
            buckets.CHUNK_GAP,
        )
        self.duration = self._histogram(
            "request_duration_seconds",
            "upstream model api stream",
            "From the last byte of the request to the last byte of the answer.",
            buckets.DURATION,
        )
        self.client_wait = self._histogram(
            "client_wait_seconds",
            "upstream model",
            "Time of an exchange in which the client did not take bytes.",
            buckets.CLIENT_WAIT,
        )

    def _define_rates(self) -> None:
        labels = "upstream model"
        self.decode = self._histogram(
            "decode_tokens_per_second",
            labels,
            "Decode rate of each completed stream, after its first output.",
            buckets.DECODE_RATE,
        )
        self.tpot = self._histogram(
            "time_per_output_token_seconds",
            labels,
            "Time per output token of each completed stream, after its first output.",
            buckets.TPOT,
        )
        self.prefill = self._histogram(
            "prefill_tokens_per_second",
            labels,
            "Uncached prompt tokens per second of TTFT; queueing is inside it.",
            buckets.PREFILL_RATE,
        )
        self.engine_decode = self._histogram(
            "engine_decode_tokens_per_second",
            labels,
            "Decode rate that the engine itself reports.",
            buckets.DECODE_RATE,
        )
        self.engine_prefill = self._histogram(
            "engine_prefill_tokens_per_second",
            labels,
            "Prefill rate that the engine itself reports.",
            buckets.PREFILL_RATE,
        )

    def _define_tokens(self) -> None:
        labels = "upstream model api"
        self.prompt_tokens = self._counter(
            "prompt_tokens_total", labels, "Prompt tokens, cached ones included."
        )
        self.cached_prompt_tokens = self._counter(
            "cached_prompt_tokens_total", labels, "Prompt tokens that the upstream had cached."
        )
        self.output_tokens = self._counter(
            "output_tokens_total",
            labels,
            "Output tokens, reasoning included; moves while streams run.",
        )
        self.reasoning_tokens = self._counter(
            "reasoning_tokens_total", labels, "Output tokens that were reasoning."
        )
        self.output_characters = self._counter(
            "output_characters_total", labels, "Characters of output; moves while streams run."
        )
        self.prompt_length = self._histogram(
            "prompt_tokens", "upstream model", "Prompt tokens of each exchange.", buckets.LENGTH
        )
        self.output_length = self._histogram(
            "output_tokens", "upstream model", "Output tokens of each exchange.", buckets.LENGTH
        )
        self.token_counts = self._counter(
            "token_counts_total",
            "upstream model source",
            "Exchanges by where their number of output tokens came from.",
            _each(SOURCES),
        )
        self.skipped = self._counter(
            "skipped_total",
            "upstream model reason",
            "Streams without a decode-rate sample, by reason.",
            _each(SKIPPED),
        )
        self.stalls = self._counter(
            "stalls_total", "upstream model", "Chunk gaps over the stall threshold."
        )
        self.stalled_seconds = self._counter(
            "stalled_seconds_total", "upstream model", "Time in chunk gaps over the threshold."
        )

    def _define_cells(self) -> None:
        context = "uncached prompt tokens"
        sizes = self._sizes("ttft", "TTFT", f"ln (256 + {context})", prompt_size)
        self.ttft_cells = self._cells("ttft", "TTFT", context, sizes)
        what, context = "time per output token", "prompt tokens"
        sizes = self._sizes("tpot", what, "ln (8 + concurrency)", crowd_size)
        self.tpot_cells = self._cells("tpot", what, context, sizes)

    def _cells(self, name: str, what: str, context: str, sizes: Sizes) -> Cells:
        of = f"of the {what} in microseconds, by {context} and concurrency."
        streams = f"Completed streams with a {what}, by {context} and concurrency."
        return Cells(
            self._cell(f"cell_{name}_streams", streams),
            self._cell(f"cell_{name}_log_sum", f"Sum of ln {of}"),
            self._cell(f"cell_{name}_log_sumsq", f"Sum of squares of ln {of}"),
            sizes=sizes,
        )

    def _sizes(self, name: str, what: str, size: str, of: Size) -> Sizes:
        times = f"times ln of the {what} in microseconds"
        return Sizes(
            of,
            self._cell(f"{name}_size_sum", f"Sum of {size}, by cell."),
            self._cell(f"{name}_size_sumsq", f"Sum of squares of {size}, by cell."),
            self._cell(f"{name}_size_log_sum", f"Sum of {size} {times}, by cell."),
        )

    def _cell(self, name: str, help: str) -> Counter:
        labels = "upstream model context concurrency"
        return self._counter(f"{name}_total", labels, help, CELLS)

    def _define_upstreams(self) -> None:
        self.upstream_up = self._gauge(
            "upstream_up", "upstream", "Whether the last connection to it could be made."
        )
        self.upstream_info = self._gauge(
            "upstream_info",
            "upstream engine version",
            "What the upstream says it is; a change marks a deploy.",
        )
        self.connect = self._histogram(
            "connect_seconds", "upstream", "Making a connection to the upstream.", buckets.CONNECT
        )

    def _define_own(self) -> None:
        self.overhead = self._histogram(
            "overhead_seconds",
            "upstream",
            "The proxy's own delay: from a chunk read to the chunk handed to the client's socket. "
            "A sample: one chunk of each stream four times a second.",
            buckets.OWN_DELAY,
        )
        self.event_loop_lag = self._histogram(
            "event_loop_lag_seconds",
            "",
            "The proxy's own delay: by how much a worker's event loop was late.",
            buckets.OWN_DELAY,
        )
        self.workers = self._gauge("workers", "state", "Worker processes.")
        self.label_overflow = self._counter(
            "label_overflow_total",
            "label",
            "Values of a label that were folded into other.",
            _each(["model"]),
        )
        self.records_dropped = self._counter(
            "records_dropped_total",
            "",
            "What workers could not tell the keeper, or it could not read: these are missing here.",
        )
        self.log_lines_lost = self._counter(
            "log_lines_lost_total", "", "Lines of the request log that could not be written."
        )
        self.build_info = self._gauge("build_info", "version python", "What runs here.")
        self.build_info.set(1, __version__, platform.python_version())
