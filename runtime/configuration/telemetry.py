"""Where spans and metrics are sent, as `flyball.toml` says it."""

from typing import Annotated, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from runtime.configuration.named_secrets import secret_named
from runtime.configuration.table import Flag, Name, Table
from runtime.errors import ConfigError
from runtime.telemetry import ExportTerms
from tool_gateway.upstreams.origin import can_be_sent, origin_of

_SIGNALS = ("/v1/traces", "/v1/metrics")
Share = Annotated[float, Field(strict=True, ge=0, le=1)]
_EVERY_S_MAX = 3_600
_TIMEOUT_S_MAX = 60


class TelemetryTable(Table):
    """A collector for OTLP over HTTP; without one nothing is sent."""

    otlp_endpoint: str | None = None
    headers_from: dict[Name, Name] = Field(default={}, max_length=16)
    traces: Flag = True
    metrics: Flag = True
    # Of the traces that begin here: a caller that sends its own says itself whether it is kept.
    sampled: Share = 1.0
    metrics_every_s: Annotated[int, Field(strict=True, ge=1, le=_EVERY_S_MAX)] = 30
    timeout_s: Annotated[int, Field(strict=True, ge=1, le=_TIMEOUT_S_MAX)] = 10

    @field_validator("otlp_endpoint")
    @classmethod
    def _is_base(cls, value: str | None) -> str | None:
        if value is None:
            return None
        if origin_of(value) is None:
            raise ValueError("expected an http:// or https:// address without a user in it")
        value = value.rstrip("/")
        if value.endswith(_SIGNALS):
            raise ValueError("leave the path out: /v1/traces and /v1/metrics are added")
        return value

    @model_validator(mode="after")
    def _has_somewhere_to_send(self) -> Self:
        if self.otlp_endpoint is None and self.headers_from:
            raise ValueError("headers_from is for an otlp_endpoint; name one, or remove it")
        return self


def export_terms_of(table: TelemetryTable) -> ExportTerms | None:
    """Return where spans and metrics go, None where they stay.

    Raises:
        ConfigError: a variable that the file names is not set, or holds what no header can.
    """
    if table.otlp_endpoint is None or not (table.traces or table.metrics):
        return None
    headers = {
        name: SecretStr(secret_named(variable, f"telemetry.headers_from.{name}"))
        for name, variable in table.headers_from.items()
    }
    if not can_be_sent({name: secret.get_secret_value() for name, secret in headers.items()}):
        raise ConfigError("telemetry.headers_from: a variable holds what no HTTP header can carry")
    return ExportTerms(
        endpoint=table.otlp_endpoint,
        headers=headers,
        traces=table.traces,
        metrics=table.metrics,
        sampled=table.sampled,
        metrics_every_ms=table.metrics_every_s * 1000,
        timeout_s=table.timeout_s,
    )
