"""The one home of the OpenTelemetry SDK: what is measured and traced, and where it is sent."""

from runtime.telemetry.exporting import ExportTerms, exporting
from runtime.telemetry.metrics import collect_metrics, exposition

__all__ = ["ExportTerms", "collect_metrics", "exporting", "exposition"]
