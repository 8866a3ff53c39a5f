"""Streams that users suffer from: slower than reading, stalled, failed."""

from collections.abc import Iterator

from deploy.prometheus.rules.load import IN_FLIGHT
from deploy.prometheus.rules.rule import Alert, promql
from deploy.prometheus.rules.settings import Settings, duration


def alerts(settings: Settings) -> Iterator[Alert]:
    """Of now, without a past."""
    yield _slower_than_reading(settings)
    yield _stalled_now(settings)
    yield _stall_share(settings)
    yield _errors(settings)
    yield _canary_failing(settings)


def _slower_than_reading(settings: Settings) -> Alert:
    speed = settings.reading_speed
    return Alert(
        "SlowerThanReading",
        "warning",
        promql(f"""
            sum without (tokens_per_second) (
              model:tokometer_decode_streams:share_slower{{tokens_per_second="{speed}"}}
            ) > {settings.reading_share}
              and model:tokometer_decode_streams:increase >= {settings.reading_streams}
        """),
        settings.reading_hold,
        "{{ $labels.model }} on {{ $labels.upstream }}: {{ humanizePercentage $value }} of the "
        f"streams are slower than reading ({speed} tokens/s)",
        "Look at the distribution of decode rates: is all of it slow (server, load) or a tail "
        "(long contexts, one replica)? Then at concurrency against the knee.",
        "streams",
    )


def _stalled_now(settings: Settings) -> Alert:
    stalled = "model:tokometer_streams_stalled:sum"
    return Alert(
        "StreamsStalledNow",
        "critical",
        promql(f"""
            {stalled} > 0
              unless {stalled} < {settings.stalled_share} * {IN_FLIGHT}
        """),
        settings.stalled_hold,
        "{{ $labels.model }} on {{ $labels.upstream }}: {{ $value }} streams in flight have stood "
        "still since their last output",
        "The engine may look healthy and serve nothing. Look at chunk gaps and at streams in "
        "flight, then at the engine's log; send it one request beside the proxy.",
        "streams",
    )


def _stall_share(settings: Settings) -> Alert:
    return Alert(
        "StallShare",
        "warning",
        promql(f"""
            model:tokometer_stalls:per_stream > {settings.stall_share}
              and model:tokometer_started_streams:increase >= {settings.stall_streams}
        """),
        settings.stall_hold,
        "{{ $labels.model }} on {{ $labels.upstream }}: stalls in {{ humanizePercentage $value }} "
        "of the streams, if none stalls twice",
        "Look at the largest chunk gaps and when they happen: preemption and swapping when the "
        "cache of keys and values is full, long prefills in the same batch, a network between.",
        "streams",
    )


def _errors(settings: Settings) -> Alert:
    return Alert(
        "ErrorRatio",
        "critical",
        f"model:tokometer_errors:wilson_lower > {settings.error_share}",
        settings.error_hold,
        "{{ $labels.model }} on {{ $labels.upstream }}: at least {{ humanizePercentage $value }} "
        "of the exchanges fail",
        "The lower bound of the share that failed in the last "
        f"{duration(settings.error_window)}; refusals that are the client's own doing (4xx) do "
        "not count. Look at outcomes and codes: unreachable and 5xx are the server, truncated "
        "and error_midstream an engine that dies under running streams.",
        "overview",
    )


def _canary_failing(settings: Settings) -> Alert:
    return Alert(
        "CanaryFailing",
        "critical",
        "min by (job, upstream, model) (tokometer_canary_success) == 0",
        settings.canary_failing_hold,
        "{{ $labels.model }} on {{ $labels.upstream }}: the canary fails (success {{ $value }})",
        "One short fixed request does not come back whole. Send one by hand; look at the "
        "outcomes of users' requests: if they complete, look at the canary's own settings (key, "
        "model name).",
        "overview",
    )
