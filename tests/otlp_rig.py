"""A collector on loopback that speaks OTLP over HTTP and keeps what it gets."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collecting(ThreadingHTTPServer):
    """`status` is what it answers with; with `stuck` set it does not answer."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.status = 200
        self.location = ""  # behind a redirect
        self.stuck = False
        self.go_on = threading.Event()
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self._metrics: list[ExportMetricsServiceRequest] = []
        self._traces: list[ExportTraceServiceRequest] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def take(self, path: str, body: bytes, headers: dict[str, str]) -> None:
        """One export. Raises: ValueError for any other path, DecodeError for other bytes."""
        if path == "/v1/metrics":
            self._metrics.append(ExportMetricsServiceRequest.FromString(body))
        elif path == "/v1/traces":
            self._traces.append(ExportTraceServiceRequest.FromString(body))
        else:
            raise ValueError(path)
        self.bodies.append(body)
        self.headers.append(headers)

    def spans(self) -> list[Span]:
        """All spans so far, in the order of their arrival."""
        return [
            span
            for request in self._traces
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def resource(self) -> dict[str, Any]:
        """Attributes of what sent the last metrics."""
        return read(self._metrics[-1].resource_metrics[0].resource.attributes)

    def points(self) -> dict[str, list[Any]]:
        """Data points of the exponential histograms of the last metrics, by name."""
        if not self._metrics:
            return {}
        return {
            metric.name: list(metric.exponential_histogram.data_points)
            for resource in self._metrics[-1].resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


class _Answer(BaseHTTPRequestHandler):
    server: Collecting

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["Content-Encoding"] == "gzip":
            body = gzip.decompress(body)
        if self.server.stuck:
            self.server.go_on.wait()
        elif self.server.status == 200:
            self.server.take(self.path, body, dict(self.headers))
        self.send_response(self.server.status)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def read(attributes: "Any") -> dict[str, Any]:
    """Attributes as Python has them."""
    return {one.key: _value(one) for one in attributes}


def _value(one: KeyValue) -> Any:
    kind = one.value.WhichOneof("value")
    if kind == "array_value":
        return [value.string_value for value in one.value.array_value.values]
    return getattr(one.value, str(kind))


@contextmanager
def collecting() -> Iterator[Collecting]:
    """A collector that is there until the end of the block."""
    with Collecting() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.go_on.set()
            server.shutdown()
            thread.join()
