"""The metrics of speed: times, rates, how output is delivered, what was aimed at; see `metrics`."""

from proxy import buckets
from proxy.cells import CELLS, Cells, Size, Sizes, crowd_size, prompt_size
from proxy.families import Families
from proxy.series import Counter

_CROWD = "ln (8 + concurrency)"


class Speeds(Families):
    """Metrics by upstream and model, and their cells."""

    def _define_speeds(self) -> None:
        self._define_times()
        self._define_rates()
        self._define_delivery()
        self._define_aims()
        self._define_cells()

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

    def _define_delivery(self) -> None:
        labels = "upstream model"
        self.decode_characters = self._histogram(
            "decode_characters_per_second",
            labels,
            "Characters of output per second of each completed stream, after its first output: the "
            "same text is as many characters for every tokenizer.",
            buckets.CHARACTER_RATE,
        )
        self.tokens_per_chunk = self._histogram(
            "tokens_per_chunk",
            labels,
            "Output tokens per read with output, of each completed stream.",
            buckets.TOKENS_PER_CHUNK,
        )
        self.burst_ratio = self._histogram(
            "burst_ratio",
            labels,
            "Share of a completed stream's chunk gaps that are under a quarter of their mean, "
            "stalls left out: 0 is even, (k - 1) / k are bursts of k chunks.",
            buckets.RATIO,
        )

    def _define_aims(self) -> None:
        self.objectives = self._counter(
            "objectives_total",
            "upstream model objective met",
            "Exchanges by whether they met an objective of the settings; all: every one of them.",
        )
        self.ceiling = self._gauge(
            "ceiling_tokens_per_second",
            "upstream model",
            "The most that one user can get: memory bandwidth / bytes per token, by the settings.",
        )
        self.model_info = self._gauge(
            "model_info",
            "upstream model precision hardware engine",
            "The dials to quote a speed with, by the settings.",
        )

    def _define_cells(self) -> None:
        context = "uncached prompt tokens"
        sizes = self._sizes("ttft", "TTFT", f"ln (256 + {context})", prompt_size)
        crowd = self._cell("ttft_crowd_sum", f"Sum of {_CROWD}, by cell.")
        self.ttft_cells = self._cells("ttft", "TTFT", context, sizes, crowd)
        what, context = "time per output token", "prompt tokens"
        sizes = self._sizes("tpot", what, _CROWD, crowd_size)
        self.tpot_cells = self._cells("tpot", what, context, sizes)

    def _cells(
        self, name: str, what: str, context: str, sizes: Sizes, crowd: Counter | None = None
    ) -> Cells:
        of = f"of the {what} in microseconds, by {context} and concurrency."
        streams = f"Completed streams with a {what}, by {context} and concurrency."
        return Cells(
            self._cell(f"cell_{name}_streams", streams),
            self._cell(f"cell_{name}_log_sum", f"Sum of ln {of}"),
            self._cell(f"cell_{name}_log_sumsq", f"Sum of squares of ln {of}"),
            sizes=sizes,
            crowd=crowd,
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
