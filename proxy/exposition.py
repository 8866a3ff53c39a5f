"""The metrics as text: Prometheus's own format, or OpenMetrics, which has exemplars."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, cast

from prometheus_client import exposition as text
from prometheus_client.core import Metric, UnknownMetricFamily
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector


class Format(NamedTuple):
    """A format and its media type."""

    media_type: str
    render: Callable[[Sequence[Metric]], bytes]


class _Collected(Collector):
    """Metrics that were collected already."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Sequence[Metric]:
        return self._families


def _as_text(families: Sequence[Metric]) -> bytes:
    return text.generate_latest(_Collected(families))


def _as_openmetrics(families: Sequence[Metric]) -> bytes:
    collector = _Collected(_without_clashes(families))
    # All names are plain, and so look the same in every escaping: this one is twice as fast.
    render = partial(openmetrics.generate_latest, escaping=openmetrics.ALLOWUTF8)
    return cast(bytes, render(collector))


def _without_clashes(families: Sequence[Metric]) -> list[Metric]:
    """A counter that has a namesake goes without its type.

    In OpenMetrics a counter's name is without `_total`, and a name may be used once: the histogram
    `x` and the counter `x_total` cannot both be there. The counter's samples stay as they are.
    """
    names = [family.name for family in families]
    return [
        _untyped(family) if family.type == "counter" and names.count(family.name) > 1 else family
        for family in families
    ]


def _untyped(counter: Metric) -> Metric:
    family = UnknownMetricFamily(counter.name + "_total", counter.documentation)
    family.samples = counter.samples
    return family


TEXT = Format(text.CONTENT_TYPE_PLAIN_0_0_4, _as_text)
OPENMETRICS = Format(openmetrics.CONTENT_TYPE_LATEST, _as_openmetrics)


def chosen(accept: str) -> Format:
    """What an `Accept` header likes best of the two; text where it says nothing of them.

    Other types, such as Prometheus's protobuf, are passed over. RFC 9110, section 12.5.1.
    """
    best, most = TEXT, 0.0
    for choice in accept.split(","):
        media_type, *parameters = (part.strip().lower() for part in choice.split(";"))
        form = _FORMATS.get(media_type)
        if form is not None and _acceptable(parameters) and _quality(parameters) > most:
            best, most = form, _quality(parameters)
    return best


_FORMATS = {"application/openmetrics-text": OPENMETRICS, "text/plain": TEXT}


def _acceptable(parameters: list[str]) -> bool:
    """Whether the version is one that we write: 0.0.x and 1.x differ in nothing that we use."""
    versions = [part for part in parameters if part.startswith("version=")]
    return all(version.startswith(("version=0.", "version=1.")) for version in versions)


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return float(parameter[2:])
            except ValueError:
                return 0.0
    return 1.0
