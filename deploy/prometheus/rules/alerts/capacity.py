"""More load than the server can take, objectives that are missed, traffic that stopped."""

from collections.abc import Iterator

from deploy.prometheus.rules.load import IN_FLIGHT, KNEE
from deploy.prometheus.rules.rule import Alert, promql
from deploy.prometheus.rules.settings import Burn, Settings, duration


def alerts(settings: Settings) -> Iterator[Alert]:
    """Of load and of service levels."""
    yield _knee(settings)
    for burn in settings.burns:
        yield _burn(settings, burn)
    yield _stopped(settings)


def _knee(settings: Settings) -> Alert:
    return Alert(
        "SaturationKnee",
        "warning",
        promql(f"""
            {IN_FLIGHT} > {settings.knee_factor} * {KNEE}
              and {IN_FLIGHT} >= {settings.knee_streams}
        """),
        settings.knee_hold,
        "{{ $labels.model }} on {{ $labels.upstream }}: {{ $value }} streams in flight, more than "
        f"{settings.knee_factor} times what gave {settings.knee_share:.0%} of the best throughput",
        "More streams bring no more tokens any more, every user gets slower. Look at throughput "
        "and per-user speed against concurrency; add replicas or limit concurrency.",
        "capacity",
    )


def _burn(settings: Settings, burn: Burn) -> Alert:
    long, short = duration(burn.long), duration(burn.short)
    return Alert(
        "GoodputBurn",
        burn.severity,
        promql(f"""
            model:tokometer_goodput:burn{{window="{long}"}} > {burn.factor}
              and ignoring (window)
                model:tokometer_goodput:burn{{window="{short}"}} > {burn.factor}
              and model:tokometer_objectives:increase{{window="{long}"}}
                >= {settings.goodput_exchanges}
        """),
        burn.hold,
        '{{ $labels.model }} on {{ $labels.upstream }}: objectives are missed {{ printf "%.1f" '
        f"$value }}}} times as fast as {settings.goodput_target:.0%} allows, over {long} and "
        f"{short}",
        "Look at which objective is missed (TTFT, TPOT, duration): TTFT is queueing and prefill, "
        "TPOT is load and decode, duration alone is longer answers.",
        "overview",
        {"window": long},
    )


def _stopped(settings: Settings) -> Alert:
    traffic = "model:tokometer_traffic:increase"
    return Alert(
        "TrafficStopped",
        "warning",
        promql(f"""
            {traffic} offset {duration(settings.traffic_ago)} >= {settings.traffic_exchanges}
              unless {traffic} > 0
              unless {IN_FLIGHT} > 0
        """),
        settings.traffic_hold,
        '{{ $labels.model }} on {{ $labels.upstream }}: no traffic; it was {{ printf "%.0f" '
        f"$value }}}} exchanges in {duration(settings.traffic_window)} an hour ago",
        "Look whether other models still have traffic: if none has, look in front of the proxy "
        "(clients, DNS, load balancer); if one has stopped, at its name and its clients.",
        "overview",
    )
