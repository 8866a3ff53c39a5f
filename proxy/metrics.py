"""Every metric is defined once, here or in `speeds`: name, type, labels, help, buckets.

A new one is one definition; its series with 0, `# TYPE` and `/metrics` follow from it.
"""

import platform
from collections.abc import Iterable, Mapping, Sequence

from proxy import __version__, buckets
from proxy.labels import REFUSALS, SKIPPED, SOURCES, USUAL_CODES
from proxy.outcome import Outcome
from proxy.series import Values
from proxy.speeds import Speeds


def _each(values: Iterable[str]) -> list[Values]:
    return [(value,) for value in values]


class Metrics(Speeds):
    """All metrics of the keeper.

    Args:
        overrides: `[buckets]` of the settings: bounds by metric name. ValueError (one line) if one
            names no histogram.
    """

    def __init__(self, overrides: Mapping[str, Sequence[float]]) -> None:
        super().__init__(overrides)
        self._define_exchanges()
        self._define_speeds()
        self._define_tokens()
        self._define_upstreams()
        self._define_canary()
        self._define_users()
        self._define_tasks()
        self._define_own()
        self.complete()

    def _define_exchanges(self) -> None:
        codes = [(outcome.value, code) for outcome in Outcome for code in USUAL_CODES[outcome]]
        self.requests = self._counter(
            "requests_total",
            "upstream model api stream outcome code",
            "Exchanges ended. code is the status that the client saw; of one without a meaning its "
            "class, such as 4xx.",
            codes,
        )
        self.refused = self._counter(
            "refused_total",
            "reason",
            "Requests that the proxy refused itself, so that no upstream saw them.",
            _each(REFUSALS),
        )
        self.streams = self._gauge("streams", "upstream model phase", "Streams in flight.")
        self.streams_stalled = self._gauge(
            "streams_stalled",
            "upstream model",
            "Streams in flight that have been silent for longer than the stall threshold since "
            "their last output.",
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

    def _define_upstreams(self) -> None:
        self.upstream_up = self._gauge(
            "upstream_up", "upstream", "Whether the last connection or health probe worked."
        )
        self.upstream_info = self._gauge(
            "upstream_info",
            "upstream engine version",
            "What the upstream says it is; a change marks a deploy.",
        )
        self.connect = self._histogram(
            "connect_seconds", "upstream", "Making a connection to the upstream.", buckets.CONNECT
        )

    def _define_users(self) -> None:
        self.user_requests = self._counter(
            "user_requests_total", "user", "Exchanges ended, by user; only with --user-from."
        )
        self.user_output_tokens = self._counter(
            "user_output_tokens_total",
            "user",
            "Output tokens by user; moves while streams run; only with --user-from.",
        )
        self.user_ttft = self._histogram(
            "user_time_to_first_token_seconds",
            "user",
            "Time to first token by user; only with --user-from.",
            buckets.TTFT,
        )
        self.user_decode = self._histogram(
            "user_decode_tokens_per_second",
            "user",
            "Decode rate of each completed stream by user; only with --user-from.",
            buckets.DECODE_RATE,
        )

    def know_user(self, user: str) -> None:
        """Make the series of a user, with 0."""
        for family in self._families:
            if family.scope == ("user",):
                family.prepare(user)

    def _define_tasks(self) -> None:
        self.task_calls = self._histogram(
            "task_calls", "", "Requests to a model of each task of an agent.", buckets.TASK_CALLS
        )
        self.task_wait = self._histogram(
            "task_wait_seconds",
            "",
            "Durations of the requests of each task, added up.",
            buckets.TASK_WAIT,
        )
        self.task_output_tokens = self._histogram(
            "task_output_tokens", "", "Output tokens of each task.", buckets.LENGTH
        )

    def _define_canary(self) -> None:
        labels = "upstream model"
        self.canary_success = self._gauge(
            "canary_success", labels, "Whether the last canary was answered in full."
        )
        self.canary_ttft = self._gauge(
            "canary_time_to_first_token_seconds", labels, "TTFT of the last canary."
        )
        self.canary_decode = self._gauge(
            "canary_decode_tokens_per_second", labels, "Decode rate of the last canary."
        )

    def _define_own(self) -> None:
        self.overhead = self._histogram(
            "overhead_seconds",
            "upstream",
            "The proxy's own delay: from a chunk read to the chunk handed to the client's socket. "
            "A sample: a chunk of each stream twice a second.",
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
