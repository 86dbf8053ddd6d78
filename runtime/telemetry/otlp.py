"""What speaks OTLP over HTTP to a collector; imported only where one is named."""

from collections.abc import Sequence
from time import time_ns
from typing import Any

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import Exemplar
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExporter,
    MetricExportResult,
    MetricReader,
    MetricsData,
    PeriodicExportingMetricReader,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from runtime.telemetry.deliveries import note_taken
from runtime.telemetry.scrubbing import scrubbed
from runtime.telemetry.terms import ExportTerms
from tool_gateway import tallies, telemetry
from tool_gateway.tallies import Seen, Series

# Spans that wait to be sent; more are dropped, oldest first, while a collector is away.
_WAITING_MAX = 8_192
_BATCH_MAX = 512
_EVERY_MS = 1_000
_BYTES_MAX = 16 * 1024 * 1024


def span_processor(terms: ExportTerms) -> BatchSpanProcessor:
    """Return what sends ended spans to the collector, from a thread of its own."""
    exporter = OTLPSpanExporter(
        endpoint=f"{terms.endpoint}/v1/traces",
        headers=_headers(terms),
        timeout=terms.timeout_s,
        compression=Compression.Gzip,
        max_request_size=_BYTES_MAX,
    )
    return BatchSpanProcessor(
        _Spans(exporter),
        max_queue_size=_WAITING_MAX,
        max_export_batch_size=_BATCH_MAX,
        schedule_delay_millis=_EVERY_MS,
    )


def metric_reader(terms: ExportTerms) -> MetricReader:
    """Return what sends all metrics to the collector, every so often."""
    exporter = OTLPMetricExporter(
        endpoint=f"{terms.endpoint}/v1/metrics",
        headers=_headers(terms),
        timeout=terms.timeout_s,
        compression=Compression.Gzip,
        max_request_size=_BYTES_MAX,
    )
    return PeriodicExportingMetricReader(
        _Metrics(exporter), export_interval_millis=terms.metrics_every_ms
    )


def _headers(terms: ExportTerms) -> dict[str, str]:
    return {name: secret.get_secret_value() for name, secret in terms.headers.items()}


class _Spans(SpanExporter):
    """Sends spans without what could be secret in them, and counts what fails."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send ended spans."""
        result = self._exporter.export([scrubbed(span) for span in spans])
        if result is SpanExportResult.SUCCESS:
            note_taken()
        else:
            telemetry.count_failure("otlp_traces")
        return result

    def shutdown(self) -> None:
        """Send nothing further."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Return at once: nothing waits here."""
        return self._exporter.force_flush(timeout_millis)


class _Metrics(MetricExporter):
    """Sends the SDK's metrics with the histograms that it was not told of."""

    def __init__(self, exporter: OTLPMetricExporter) -> None:
        super().__init__(
            preferred_temporality=exporter._preferred_temporality,  # noqa: SLF001 - the library's
            preferred_aggregation=exporter._preferred_aggregation,  # noqa: SLF001 - own wrappers
        )
        self._exporter = exporter
        self._began_ns = time_ns()

    def export(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any
    ) -> MetricExportResult:
        """Send everything that was measured."""
        whole = MetricsData(
            resource_metrics=[
                ResourceMetrics(
                    resource=one.resource,
                    scope_metrics=[*one.scope_metrics, *_histograms(self._began_ns, time_ns())],
                    schema_url=one.schema_url,
                )
                for one in metrics_data.resource_metrics[:1]
            ]
        )
        result = self._exporter.export(whole, timeout_millis, **kwargs)
        if result is MetricExportResult.SUCCESS:
            note_taken()
        else:
            telemetry.count_failure("otlp_metrics")
        return result

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        """Return at once: nothing waits here."""
        return self._exporter.force_flush(timeout_millis)

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        """Send nothing further."""
        self._exporter.shutdown(timeout_millis, **kwargs)


def _histograms(began_ns: int, now_ns: int) -> list[ScopeMetrics]:
    by_scope: dict[str, list[Metric]] = {}
    for histogram in tallies.histograms():
        points = [
            _point(series, histogram.bounds, began_ns, now_ns)
            for series in histogram.series
            if any(series.counts)
        ]
        if points:
            metric = Metric(
                name=histogram.name,
                description=histogram.description,
                unit=histogram.unit,
                data=Histogram(
                    data_points=points, aggregation_temporality=AggregationTemporality.CUMULATIVE
                ),
            )
            by_scope.setdefault(histogram.meter_name, []).append(metric)
    return [
        ScopeMetrics(scope=InstrumentationScope(name), metrics=metrics, schema_url="")
        for name, metrics in by_scope.items()
    ]


def _point(
    series: Series, bounds: Sequence[float], began_ns: int, now_ns: int
) -> HistogramDataPoint:
    counts = series.counts
    # Neither extreme is kept: of a whole life they say little. The wire has them as optional.
    return HistogramDataPoint(
        attributes=series.labels,
        start_time_unix_nano=began_ns,
        time_unix_nano=now_ns,
        count=sum(counts),
        sum=series.total,
        bucket_counts=counts,
        explicit_bounds=bounds,
        min=None,  # type: ignore[arg-type]
        max=None,  # type: ignore[arg-type]
        exemplars=[_exemplar(seen, now_ns) for seen in series.seen if seen is not None],
    )


def _exemplar(seen: Seen, now_ns: int) -> Exemplar:
    return Exemplar({}, seen.value, now_ns, seen.span_id, seen.trace_id)
