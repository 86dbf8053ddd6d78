"""The one home of the OpenTelemetry SDK: metrics for Prometheus to read."""

from functools import cache

from opentelemetry import metrics
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.view import DropAggregation, View
from opentelemetry.sdk.resources import Resource
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest

# Instruments of the libraries beneath us carry labels that clients choose: only "flyball_…" and
# "gen_ai.…", which is ours too, are shown. A view that covered ours as well would cost each of
# their measurements once more.
_OURS_ONLY = tuple(
    View(instrument_name=others, aggregation=DropAggregation())
    for others in ("[!fg]*", "f[!l]*", "g[!e]*")
)


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


def exposition() -> tuple[bytes, str]:
    """Return the metrics in Prometheus' text format, with the media type."""
    return generate_latest(REGISTRY), CONTENT_TYPE_LATEST
