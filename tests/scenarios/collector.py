"""A collector for OTLP over HTTP: takes what is sent, decodes it, and lets tests wait for it."""

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from google.protobuf.message import Message
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

SECONDS_MAX = 60.0
HOOK = "/hook"
KINDS: dict[str, type[Message]] = {
    "/v1/traces": ExportTraceServiceRequest,
    "/v1/metrics": ExportMetricsServiceRequest,
}


@dataclass(frozen=True)
class Seen:
    """A span as it arrived."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: str
    attributes: dict[str, Any]
    resource: dict[str, Any]
    is_error: bool


@dataclass
class Collector:
    """What has arrived so far."""

    url: str = ""
    spans: list[Seen] = field(default_factory=list)
    metrics: dict[str, Metric] = field(default_factory=dict)
    headers: list[dict[str, str]] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    notices: list[dict[str, Any]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    status: int = 200
    arrived: threading.Condition = field(default_factory=threading.Condition)

    def take(self, path: str, headers: dict[str, str], body: bytes) -> None:
        """Decode a request of an exporter, or of a webhook."""
        if path == HOOK:
            with self.arrived:
                self.notices += json.loads(body)["notices"]
                self.arrived.notify_all()
            return
        content = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
        message: Any = KINDS[path].FromString(content)
        with self.arrived:
            self.raw.append(content)
            self.headers.append(headers)
            if path == "/v1/traces":
                for resource in message.resource_spans:
                    about = _plain(resource.resource.attributes)
                    for scope in resource.scope_spans:
                        self.spans += [_seen(span, about) for span in scope.spans]
            else:
                for resource in message.resource_metrics:
                    for scope in resource.scope_metrics:
                        self.metrics |= {metric.name: metric for metric in scope.metrics}
            self.arrived.notify_all()

    def until(self, is_there: Callable[["Collector"], bool]) -> None:
        """Return when a test's wish has come true."""
        with self.arrived:
            assert self.arrived.wait_for(lambda: is_there(self), SECONDS_MAX), sorted(
                (span.name, span.trace_id) for span in self.spans
            )

    def of_trace(self, trace_id: str, *names: str) -> dict[str, Seen]:
        """Return the spans of a trace by their names, once all of those are there."""

        def found(_: Collector) -> bool:
            return set(names) <= {span.name for span in self.spans if span.trace_id == trace_id}

        self.until(found)
        with self.arrived:
            return {span.name: span for span in self.spans if span.trace_id == trace_id}


@contextmanager
def a_collector() -> Iterator[Collector]:
    """Serve a collector on loopback."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            try:
                collector.take(self.path, headers, body)
            except Exception as error:  # a test sees it, the exporter an error
                collector.faults.append(repr(error))
                raise
            self.send_response(collector.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    collector.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _seen(span: Span, resource: dict[str, Any]) -> Seen:
    return Seen(
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        kind=Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        attributes=_plain(span.attributes),
        resource=resource,
        is_error=span.status.code == 2,
    )


def _plain(attributes: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    one: KeyValue
    for one in attributes:
        value: AnyValue = one.value
        kind = value.WhichOneof("value")
        found[one.key] = None if kind is None else getattr(value, kind)
    return found
