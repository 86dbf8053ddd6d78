"""What an operator says about an upstream."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from governor.ids import UpstreamName


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioSpec:
    """A server that the gateway starts; it gets a minimal environment and `env`, no more."""

    name: UpstreamName
    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    prefixed: bool = True
    start_ms_max: int = 30_000
    trust_reported_cost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSpec:
    """A server that runs elsewhere; `headers` go to it alone."""

    name: UpstreamName
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    prefixed: bool = True
    start_ms_max: int = 30_000
    trust_reported_cost: bool = False


UpstreamSpec = StdioSpec | HttpSpec
