"""The tables of `flyball.toml` about upstreams that fail, and what the gateway gets of them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Literal, Protocol, Self

from pydantic import Field, model_validator

from governor.breaker import BreakerTerms
from governor.retrying import RetryTerms
from runtime.configuration.table import Table
from tool_gateway.upstreams.spec import Care

_DAY_S = 86_400
Seconds = Annotated[int, Field(strict=True, gt=0, le=_DAY_S)]


class BreakerTable(Table):
    """When calls of an upstream are turned away because it fails, and for how long."""

    failures_percent: Annotated[int, Field(strict=True, gt=0, le=100)] = 50
    calls_min: Annotated[int, Field(strict=True, gt=0, le=100_000)] = 10
    window_s: Seconds = 60
    open_s: Seconds = 5
    open_s_max: Seconds = 120

    @model_validator(mode="after")
    def _is_in_order(self) -> Self:
        if self.open_s > self.open_s_max:
            raise ValueError(f"open_s = {self.open_s} is above open_s_max = {self.open_s_max}")
        return self


class BrokenTable(Protocol):
    """The table of an upstream or a model provider, as far as its breaker is concerned."""

    @property
    def name(self) -> str:
        """Return its name."""
        ...

    @property
    def breaker(self) -> Literal["off"] | BreakerTable:
        """Return its breaker's terms."""
        ...


class UpstreamTable(BrokenTable, Protocol):
    """The table of an upstream, as far as it matters here."""

    @property
    def retries(self) -> int:
        """Return how often a request is sent again."""
        ...

    @property
    def answer_ms_max(self) -> int | None:
        """Return the longest that one attempt may take; None leaves it to the rules."""
        ...

    @property
    def idempotent_by_key(self) -> bool:
        """Tell whether the server knows what it was asked before by its key."""
        ...

    @property
    def when_down(self) -> Literal["listed", "hidden"]:
        """Return what becomes of its tools while it cannot be reached."""
        ...


def care_of(table: UpstreamTable) -> Care:
    """Return how an upstream is treated that fails."""
    care = Care(
        retry=RetryTerms(retries=table.retries),
        idempotent_by_key=table.idempotent_by_key,
        hidden_when_down=table.when_down == "hidden",
    )
    return care if table.answer_ms_max is None else replace(care, answer_ms_max=table.answer_ms_max)


def breakers_of(backends: Iterable[BrokenTable]) -> Mapping[str, BreakerTerms]:
    """Return the terms of each backend's breaker; one that is switched off has none."""
    return {
        backend.name: BreakerTerms(
            failures_percent=table.failures_percent,
            calls_min=table.calls_min,
            window_ms=table.window_s * 1000,
            open_ms=table.open_s * 1000,
            open_ms_max=table.open_s_max * 1000,
        )
        for backend in backends
        if isinstance(table := backend.breaker, BreakerTable)
    }
