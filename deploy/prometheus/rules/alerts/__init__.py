"""All alerts."""

from deploy.prometheus.rules.alerts import capacity, proxy, regression, streams
from deploy.prometheus.rules.rule import Alert
from deploy.prometheus.rules.settings import Settings


def alerts(settings: Settings) -> list[Alert]:
    """In the order in which they are listed everywhere."""
    return [
        alert for part in (regression, streams, capacity, proxy) for alert in part.alerts(settings)
    ]
