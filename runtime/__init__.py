"""The process: it composes the other packages and owns clock, settings and telemetry."""
