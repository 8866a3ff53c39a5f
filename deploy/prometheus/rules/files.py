"""The files that Prometheus reads, as text."""

from collections.abc import Iterable, Sequence
from typing import Any

import yaml

from deploy.prometheus.rules import index, load, service, speeds
from deploy.prometheus.rules.alerts import alerts
from deploy.prometheus.rules.rule import Alert, Group, Record
from deploy.prometheus.rules.settings import Settings, duration

_HEAD = """\
# Made by `python -m deploy.prometheus.generate` from deploy/prometheus/rules: change it there.
"""


class _Dumper(yaml.SafeDumper):
    """Block style for what has several lines, and lists indented under their key."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def as_yaml(document: dict[str, Any]) -> str:
    """As it is written to a file."""
    return _HEAD + yaml.dump(
        document, Dumper=_Dumper, sort_keys=False, width=1000, allow_unicode=True
    )


def recording_groups(settings: Settings) -> list[Group]:
    """In the order in which one needs the other."""
    parts: Sequence[Iterable[Group]] = [
        part.groups(settings) for part in (index, speeds, load, service)
    ]
    return [group for part in parts for group in part]


def recording(settings: Settings) -> str:
    """`tokometer.rules.yml`."""
    return as_yaml(recording_document(settings))


def recording_document(settings: Settings) -> dict[str, Any]:
    """The same, before it is text."""
    return {"groups": [_group(group) for group in recording_groups(settings)]}


def _group(group: Group) -> dict[str, Any]:
    return {
        "name": group.name,
        "interval": duration(group.interval),
        "rules": [_record(rule) for rule in group.rules],
    }


def _record(rule: Record) -> dict[str, Any]:
    labels = {"labels": rule.labels} if rule.labels else {}
    return {"record": rule.name, "expr": rule.expression, **labels}


def alerting(settings: Settings) -> str:
    """`tokometer.alerts.yml`."""
    return as_yaml(alerting_document(settings))


def alerting_document(settings: Settings) -> dict[str, Any]:
    """The same, before it is text."""
    rules = [_alert(settings, alert) for alert in alerts(settings)]
    group = {"name": "tokometer-alerts", "interval": duration(settings.fast), "rules": rules}
    return {"groups": [group]}


def _alert(settings: Settings, alert: Alert) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expression,
        "for": duration(alert.hold),
        "labels": {"severity": alert.severity, **alert.labels},
        "annotations": annotations(settings, alert),
    }


def annotations(settings: Settings, alert: Alert) -> dict[str, str]:
    """What people read of it, and where they go next."""
    variables = "&".join(
        f"var-{label}={{{{ $labels.{label} | urlquery }}}}"
        if label in alert.of
        else f"var-{label}=$__all"
        for label in ("job", "upstream", "model", "instance")
    )
    return {
        "summary": alert.summary,
        "description": alert.description,
        "runbook_url": f"{settings.runbooks}#{alert.name.lower()}",
        "dashboard_url": f"{settings.grafana}/d/tokometer-{alert.dashboard}?{variables}",
    }
