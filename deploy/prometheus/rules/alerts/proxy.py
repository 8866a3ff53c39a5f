"""tokometer itself."""

from collections.abc import Iterator

from deploy.prometheus.rules.rule import Alert, quoted
from deploy.prometheus.rules.settings import Settings


def alerts(settings: Settings) -> Iterator[Alert]:
    """Whether it is there, in time, and counts."""
    scraped = f"up{{job=~{quoted(settings.job)}}}"
    yield Alert(
        "ProxyDown",
        "critical",
        f"{scraped} == 0",
        settings.down_hold,
        "tokometer on {{ $labels.instance }} cannot be scraped (up {{ $value }})",
        "Traffic through this proxy is probably down too. Look whether the process runs and what "
        "it logged last; ask /healthz and /readyz of its admin listener.",
        "proxy",
        of=("job", "instance"),
    )
    yield Alert(
        "ProxyAbsent",
        "critical",
        f"absent({scraped})",
        settings.absent_hold,
        "No tokometer is scraped at all ({{ $value }} such job is missing)",
        "Prometheus has no target of this job: look at its scrape configuration or service "
        "discovery, and at whether the job is called what the alerts expect.",
        "proxy",
        of=(),
    )
    yield Alert(
        "ProxySlow",
        "warning",
        f"instance:tokometer_overhead_seconds:p99 > {settings.overhead_seconds}",
        settings.overhead_hold,
        "tokometer on {{ $labels.instance }} holds chunks for {{ humanizeDuration $value }} (p99)",
        "Measurements suffer, too. Look at event loop lag and at the host's processor: another "
        "program, too few workers, a limit on processor time.",
        "proxy",
        of=("job", "instance"),
    )
    yield Alert(
        "TokensUncounted",
        "info",
        f"model:tokometer_token_counts:share_uncounted > {settings.uncounted_share}",
        settings.uncounted_hold,
        "{{ $labels.model }} on {{ $labels.upstream }}: {{ humanizePercentage $value }} of the "
        "answers come without a count of tokens",
        "Their speed is estimated from text, or missing. Look at the sources of counts: does the "
        "upstream report usage in streams, and is usage injection on (--usage inject)?",
        "proxy",
    )
