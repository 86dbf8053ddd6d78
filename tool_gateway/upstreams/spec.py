"""What an operator says about an upstream."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from governor.ids import UpstreamName
from tool_gateway.egress.reach import NAMED, Reach
from tool_gateway.upstreams.oauth.terms import UpstreamAuth


class Transport(StrEnum):
    """How a remote upstream is spoken to: the present transport, or that of 2024-11-05."""

    STREAMABLE = "streamable"
    SSE = "sse"


class Share(StrEnum):
    """Who shares a connection (and a process): all clients, or the calls of one session."""

    ALL = "all"
    SESSION = "session"


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
    share: Share = Share.ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSpec:
    """A server that runs elsewhere; `headers` go to it alone, `reach` bounds its addresses."""

    name: UpstreamName
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    reach: Reach = NAMED
    auth: UpstreamAuth | None = None
    transport: Transport = Transport.STREAMABLE
    prefixed: bool = True
    start_ms_max: int = 30_000
    trust_reported_cost: bool = False
    share: Share = Share.ALL


UpstreamSpec = StdioSpec | HttpSpec
