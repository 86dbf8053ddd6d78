"""What an operator says of the collector that spans and metrics are sent to."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import SecretStr


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportTerms:
    """Where spans and metrics go, and how many of them.

    `endpoint` is a collector's address for OTLP over HTTP, without the path of a signal. Of the
    traces that begin here the share `sampled` is sent; a caller's own are sent if it sends them.
    """

    endpoint: str
    headers: Mapping[str, SecretStr] = field(default_factory=dict)
    traces: bool = True
    metrics: bool = True
    sampled: float = 1.0
    metrics_every_ms: int = 30_000
    timeout_s: float = 10.0
