"""Measurements to an OpenTelemetry collector, by OTLP over HTTP. Needs the extra `otel`.

Threads of OpenTelemetry's own send: nothing here waits for the collector, and what it does not take
is a bounded amount.
"""

import logging
import os
import re
import threading
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import requests
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import (
    MetricExporter,
    MetricExportResult,
    MetricsData,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from proxy import __version__
from proxy.address import Upstream
from proxy.genai import SCHEMA
from proxy.notices import say
from proxy.telemetry import Telemetry

Result = TypeVar("Result")

# What may be told of a failure: the rest of its text quotes headers, and what a collector answers.
_TELLING = re.compile(r"code: \d{3}|refused|timed out|not known|unreachable|certificate|header")
_ANOTHER_SESSION = "_CREDENTIAL_PROVIDER"
_MOST_WAITING = 2048  # spans, of some 2 KiB
_BATCH = 512
_LAST_WORDS_SECONDS = 1.5


def _telling(text: str) -> str:
    return ", ".join(dict.fromkeys(_TELLING.findall(text)))


class Losses(logging.Handler):
    """Says once that something cannot be sent, and again when that begins anew.

    It is also where OpenTelemetry's exporters log to: what they say first is the reason.
    """

    def __init__(self, complain: Callable[[str], object]) -> None:
        super().__init__(logging.WARNING)
        self._complain = complain
        self._failing: set[str] = set()
        self._reason = ""

    def emit(self, record: logging.LogRecord) -> None:
        self._reason = self._reason or _telling(record.getMessage())

    def attempt(self, trouble: str, send: Callable[[], Result], failed: Result) -> Result:
        """Sends something, and notes the trouble if that failed in whatever way."""
        try:
            result = send()
        except Exception as error:
            self._reason = self._reason or _telling(str(error)) or type(error).__name__
            result = failed
        self.note(trouble, over=result is not failed)
        return result

    def note(self, trouble: str, over: bool = False) -> None:
        """There is this trouble, or no more."""
        if over:
            self._failing.discard(trouble)
        elif trouble not in self._failing:
            self._failing.add(trouble)
            reason = f" ({self._reason})" if self._reason else ""
            self._complain(f"OpenTelemetry: {trouble}{reason}")
        self._reason = ""


def _session() -> requests.Session | None:
    """What sends; None where a variable of OpenTelemetry names another.

    A redirect is no success, as OpenTelemetry would have it. It is not followed either: headers
    with keys are for the collector that was named, and a POST can become a GET on the way.
    """
    if any(name.endswith(_ANOTHER_SESSION) for name in os.environ):
        return None
    session = requests.Session()
    session.hooks["response"].append(_no_redirect)
    return session


def _no_redirect(response: requests.Response, **_: object) -> None:
    if 300 <= response.status_code < 400:
        response.close()
        raise requests.HTTPError(f"code: {response.status_code}")


class Spans(SpanExporter):
    """Sends spans. There is room for a bounded number of them."""

    def __init__(self, exporter: SpanExporter, losses: Losses) -> None:
        self._exporter = exporter
        self._losses = losses
        self._given = self._taken = 0  # each is counted by one thread only

    def room(self) -> bool:
        """Whether one more may be given; it is lost if not."""
        if self._given - self._taken >= _MOST_WAITING:
            self._losses.note("more spans than can be sent: some are lost")
            return False
        self._given += 1
        return True

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self._taken += len(spans)
        return self._losses.attempt(
            "spans cannot be sent and are lost until that changes",
            partial(self._exporter.export, spans),
            SpanExportResult.FAILURE,
        )

    def shutdown(self) -> None:
        self._exporter.shutdown()


class Measurements(MetricExporter):
    """Sends metrics. Cumulative ones, the default, are lost only until they can be sent again."""

    def __init__(self, exporter: OTLPMetricExporter, losses: Losses) -> None:
        super().__init__(
            preferred_temporality=exporter._preferred_temporality,
            preferred_aggregation=exporter._preferred_aggregation,
        )
        self._exporter = exporter
        self._losses = losses

    def export(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: object
    ) -> MetricExportResult:
        return self._losses.attempt(
            "metrics cannot be sent until that changes",
            partial(self._exporter.export, metrics_data, timeout_millis),
            MetricExportResult.FAILURE,
        )

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return True

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: object) -> None:
        self._exporter.shutdown(timeout_millis)


class Collector:
    """A collector, and how measurements get there.

    Args:
        endpoint: its URL, without the paths of OTLP; None for what the variables
            `OTEL_EXPORTER_OTLP_*` say. Other variables of OpenTelemetry hold in any case.
        complain: takes a line when something begins to get lost.
    """

    def __init__(
        self, endpoint: str | None, complain: Callable[[str], object] | None = None
    ) -> None:
        losses = Losses(complain or say)
        _listen(losses)
        resource = _resource()
        exponential = ExponentialBucketHistogramAggregation()
        metrics = OTLPMetricExporter(
            endpoint and f"{endpoint}/v1/metrics",
            session=_session(),
            preferred_aggregation={Histogram: exponential},
        )
        self._meters = MeterProvider(
            [PeriodicExportingMetricReader(Measurements(metrics, losses))],
            resource,
            shutdown_on_exit=False,
        )
        traces = OTLPSpanExporter(endpoint and f"{endpoint}/v1/traces", session=_session())
        self._spans = Spans(traces, losses)
        self._tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._tracers.add_span_processor(
            BatchSpanProcessor(self._spans, _MOST_WAITING, max_export_batch_size=_BATCH)
        )

    def telemetry(self, upstreams: Sequence[Upstream]) -> Telemetry:
        """What exchanges with these upstreams are told to."""
        return Telemetry(
            upstreams,
            self._meters.get_meter("tokometer", __version__, SCHEMA),
            self._tracers.get_tracer("tokometer", __version__, SCHEMA),
            self._spans.room,
            self.close,
        )

    def close(self, seconds: float = _LAST_WORDS_SECONDS) -> None:
        """Send what is left, if that takes no longer than this."""
        ends = [
            threading.Thread(target=end, daemon=True)
            for end in (self._tracers.shutdown, self._meters.shutdown)
        ]
        for one in ends:
            one.start()
        for one in ends:
            one.join(seconds)


def _resource() -> Resource:
    """What runs here; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES come first."""
    ours = {
        "service.name": "tokometer",
        "service.version": __version__,
        "service.instance.id": str(uuid.uuid4()),
    }
    return Resource.create(ours).merge(OTELResourceDetector().detect())


def _listen(losses: Losses) -> None:
    """OpenTelemetry's log is not for our standard error; of other parts it may hold headers."""
    everything = logging.getLogger("opentelemetry")
    everything.propagate = False
    everything.handlers = [logging.NullHandler()]
    logging.getLogger("opentelemetry.exporter").handlers = [losses]
