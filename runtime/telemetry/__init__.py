"""The one home of the OpenTelemetry SDK: what is measured and traced, and where it is sent."""

from runtime.telemetry.exporting import exporting
from runtime.telemetry.metrics import collect_metrics, exposition
from runtime.telemetry.terms import ExportTerms

__all__ = ["ExportTerms", "collect_metrics", "exporting", "exposition"]
