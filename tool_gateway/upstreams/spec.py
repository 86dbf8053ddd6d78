"""What an operator says about an upstream."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from governor.ids import UpstreamName
from governor.retrying import RetryTerms
from tool_gateway.egress.reach import NAMED, Reach
from tool_gateway.server_ports import Opening, ServerLimits
from tool_gateway.upstreams.oauth.terms import UpstreamAuth


class Transport(StrEnum):
    """How a remote upstream is spoken to: the present transport, or that of 2024-11-05."""

    STREAMABLE = "streamable"
    SSE = "sse"


class Share(StrEnum):
    """Who shares a connection (and a process): all clients, or the calls of one session."""

    ALL = "all"
    SESSION = "session"


SESSIONS_MAX = 64
# A result larger than this is refused, however it comes.
ANSWER_BYTES_MAX = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How often an upstream is asked whether it answers, and when it counts as hung."""

    every_ms: int = 30_000
    timeout_ms: int = 10_000
    failures_max: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Care:
    """How an upstream is treated that fails.

    `answer_ms_max` is the longest that one attempt at a request may take, whatever the rule
    of its tool allows it altogether. A server that is `idempotent_by_key` runs a call once
    however often it comes with the same `_meta["flyball/idempotency_key"]`, which it is sent.
    The tools of one that is `hidden_when_down` are listed only while it can be reached.
    """

    retry: RetryTerms = field(default_factory=RetryTerms)
    answer_ms_max: int = 24 * 60 * 60 * 1000
    idempotent_by_key: bool = False
    hidden_when_down: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spec:
    """What is said of an upstream of any kind.

    With `idle_ms` it is let go when nothing used it for so long, a process is stopped, and it is
    there again for the next call.
    """

    name: UpstreamName
    prefixed: bool = True
    start_ms_max: int = 30_000
    trust_reported_cost: bool = False
    share: Share = Share.ALL
    idle_ms: int | None = None
    health: Health | None = None
    sessions_max: int = SESSIONS_MAX
    care: Care = field(default_factory=Care)


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioSpec(_Spec):
    """A server that the gateway starts; it gets a minimal environment and `env`, no more."""

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    health: Health | None = field(default_factory=Health)
    line_bytes_max: int = ANSWER_BYTES_MAX
    limits: ServerLimits | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSpec(_Spec):
    """A server that runs elsewhere; `headers` go to it alone, `reach` bounds its addresses."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    reach: Reach = NAMED
    auth: UpstreamAuth | None = None
    transport: Transport = Transport.STREAMABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class PluggedSpec(_Spec):
    """A server of a kind that a plug-in brings, in this process; `opened` makes one.

    Two are the same server where kind and settings are, whoever opens it.
    """

    kind: str
    opened: Opening = field(compare=False, repr=False)
    settings: Mapping[str, object] = field(default_factory=dict, repr=False)


UpstreamSpec = StdioSpec | HttpSpec | PluggedSpec


def kind_of(spec: UpstreamSpec) -> str:
    """Return what kind of upstream it is, in a word."""
    match spec:
        case StdioSpec():
            return "stdio"
        case HttpSpec():
            return "http"
        case PluggedSpec():
            return spec.kind
