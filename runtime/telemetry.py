"""The one home of the OpenTelemetry SDK: metrics for Prometheus to read."""

from collections.abc import Iterator
from functools import cache

from opentelemetry import metrics, trace
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.view import DropAggregation, View
from opentelemetry.sdk.resources import Resource
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, Metric, generate_latest
from prometheus_client.registry import Collector

from tool_gateway.tallies import Histogram, Series, histograms

# Instruments of the libraries beneath us carry labels that clients choose: only "flyball_…" and
# "gen_ai.…", which is ours too, are shown. A view that covered ours as well would cost each of
# their measurements once more.
_OURS_ONLY = tuple(
    View(instrument_name=others, aggregation=DropAggregation())
    for others in ("[!fg]*", "f[!l]*", "g[!e]*")
)


_UNITS = {"ms": "_milliseconds", "s": "_seconds", "{token}": ""}


@cache
def collect_metrics(*, version: str) -> None:
    """Collect the metrics of this process from now on; once is enough for its whole life."""
    metrics.set_meter_provider(
        MeterProvider(
            metric_readers=[PrometheusMetricReader(disable_target_info=True)],
            resource=Resource.create({"service.name": "flyball", "service.version": version}),
            views=_OURS_ONLY,
        )
    )
    REGISTRY.register(_Histograms())
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        # Whoever collects spans was there before. While it is open whether somebody may come, the
        # environment is read for every span.
        trace.set_tracer_provider(trace.NoOpTracerProvider())


def exposition() -> tuple[bytes, str]:
    """Return the metrics in Prometheus' text format, with the media type."""
    return generate_latest(REGISTRY), CONTENT_TYPE_LATEST


class _Histograms(Collector):
    """The histograms that no SDK was told of, as its exporter would show them."""

    def collect(self) -> Iterator[Metric]:
        """Return those under which anything was measured."""
        for histogram in histograms():
            metric = _shown(histogram)
            if metric.samples:
                yield metric


def _shown(histogram: Histogram) -> Metric:
    name = histogram.name.replace(".", "_") + _UNITS[histogram.unit]
    metric = Metric(name, histogram.description, "histogram")
    bounds = [*map(str, histogram.bounds), "+Inf"]
    for series in histogram.series:
        up_to = series.up_to()
        if not up_to[-1]:
            continue
        labels = _labels_of(histogram, series)
        for bound, count in zip(bounds, up_to, strict=True):
            metric.add_sample(f"{name}_bucket", {**labels, "le": bound}, count)
        metric.add_sample(f"{name}_count", labels, up_to[-1])
        metric.add_sample(f"{name}_sum", labels, series.total)
    return metric


def _labels_of(histogram: Histogram, series: Series) -> dict[str, str]:
    return {
        **{label.replace(".", "_"): value for label, value in series.labels.items()},
        "otel_scope_name": histogram.meter_name,
        "otel_scope_schema_url": "",
        "otel_scope_version": "",
    }
