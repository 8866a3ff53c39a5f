"""The same alerts as Grafana manages them itself, for those who have no Alertmanager.

The format is that of Grafana's file provisioning (grafana.com/docs, "Use configuration files to
provision alerting resources"). Recording rules are still Prometheus's.
"""

from typing import Any

from deploy.prometheus.rules.alerts import alerts
from deploy.prometheus.rules.files import annotations, as_yaml
from deploy.prometheus.rules.rule import Alert
from deploy.prometheus.rules.settings import Settings, duration

# Grafana's name of the source of its own expressions.
_EXPRESSION = "__expr__"


def alerting(settings: Settings) -> str:
    """`grafana/provisioning/alerting/tokometer.yml`."""
    group = {
        "orgId": 1,
        "name": "tokometer",
        "folder": "tokometer",
        "interval": duration(settings.fast),
        "rules": [_rule(settings, alert) for alert in alerts(settings)],
    }
    return as_yaml({"apiVersion": 1, "groups": [group]})


def _rule(settings: Settings, alert: Alert) -> dict[str, Any]:
    """An alert of Prometheus has a value exactly where it holds: nothing is fine."""
    name = "-".join([alert.name, *alert.labels.values()])
    return {
        "uid": f"tokometer-{name.lower()}",
        "title": name.replace("-", " "),
        "condition": "D",
        "data": [
            _query(settings, alert),
            _step("B", "A", {"type": "reduce", "reducer": "last"}),
            _step("C", "is_number($B)", {"type": "math"}),
            _step("D", "C", {"type": "threshold", "conditions": [_over_0()]}),
        ],
        "noDataState": "OK",
        "execErrState": "Error",
        "for": duration(alert.hold),
        "annotations": {
            name: text.replace("$value", "$values.B.Value")
            for name, text in annotations(settings, alert).items()
        },
        "labels": {"severity": alert.severity, **alert.labels},
    }


def _query(settings: Settings, alert: Alert) -> dict[str, Any]:
    model = {
        "refId": "A",
        "datasource": {"type": "prometheus", "uid": settings.datasource},
        "editorMode": "code",
        "expr": alert.expression,
        "instant": True,
        "range": False,
    }
    # An instant query is of the end of its range.
    span = {"from": settings.fast, "to": 0}
    return {
        "refId": "A",
        "relativeTimeRange": span,
        "datasourceUid": settings.datasource,
        "model": model,
    }


def _step(ref: str, expression: str, model: dict[str, Any]) -> dict[str, Any]:
    source = {"type": _EXPRESSION, "uid": _EXPRESSION}
    return {
        "refId": ref,
        "relativeTimeRange": {"from": 0, "to": 0},
        "datasourceUid": _EXPRESSION,
        "model": {"refId": ref, "datasource": source, "expression": expression, **model},
    }


def _over_0() -> dict[str, Any]:
    return {"evaluator": {"type": "gt", "params": [0]}}
