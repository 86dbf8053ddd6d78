"""Metrics: collected by the SDK, added up by ourselves, and shown to Prometheus."""

from collections.abc import Iterator

from opentelemetry import metrics, trace
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.view import DropAggregation, View
from opentelemetry.sdk.resources import Resource
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, Metric, generate_latest
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as OPENMETRICS_TYPE
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics_text
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from tool_gateway.tallies import Histogram, Seen, Series, histograms
from tool_gateway.telemetry import collects_spans

# Instruments of the libraries beneath us carry labels that clients choose: only "flyball_…" and
# "gen_ai.…", which is ours too, are shown. A view that covered ours as well would cost each of
# their measurements once more.
_OURS_ONLY = tuple(
    View(instrument_name=others, aggregation=DropAggregation())
    for others in ("[!fg]*", "f[!l]*", "g[!e]*")
)


_UNITS = {"ms": "_milliseconds", "s": "_seconds", "{token}": ""}


def resource_of(*, version: str, process: str) -> Resource:
    """Return what all spans and metrics of this process are of."""
    return Resource.create(
        {"service.name": "flyball", "service.version": version, "flyball.process": process}
    )


# The API takes one for a whole process.
_made: list[MeterProvider] = []


def collect_metrics(*, version: str, process: str = "sidecar") -> MeterProvider:
    """Return what collects the metrics of this process, for its whole life from the first time."""
    if _made:
        return _made[0]
    provider = MeterProvider(
        metric_readers=[PrometheusMetricReader(disable_target_info=True)],
        resource=resource_of(version=version, process=process),
        shutdown_on_exit=False,
        views=_OURS_ONLY,
    )
    _made.append(provider)
    metrics.set_meter_provider(provider)
    REGISTRY.register(_Histograms())
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        # Nobody collects spans. While it is open whether somebody may come, the environment is
        # read for every span.
        trace.set_tracer_provider(trace.NoOpTracerProvider())
    return provider


def exposition(*, openmetrics: bool = False) -> tuple[bytes, str]:
    """Return the metrics in Prometheus' text format, with the media type.

    In the `openmetrics` format they show exemplars: a trace beside what it was measured in. Where
    nobody collects spans there are none to show, and the format is the usual one.
    """
    if openmetrics and collects_spans():
        return openmetrics_text(REGISTRY), OPENMETRICS_TYPE  # type: ignore[no-untyped-call]
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
        for bound, count, seen in zip(bounds, up_to, series.seen, strict=True):
            exemplar = None if seen is None else _exemplar(seen)
            metric.add_sample(f"{name}_bucket", {**labels, "le": bound}, count, None, exemplar)
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


def _exemplar(seen: Seen) -> Exemplar:
    ids = {"trace_id": f"{seen.trace_id:032x}", "span_id": f"{seen.span_id:016x}"}
    return Exemplar(ids, seen.value)
