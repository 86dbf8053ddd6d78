"""What the gateway needs of an upstream besides running governed calls."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from governor.ids import UpstreamName
from tool_gateway.exchange import Exchange
from tool_gateway.ports import Backend, Meter
from tool_gateway.results import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFace:
    """What a server says about itself, as the wire has it, and whether its era has sessions."""

    capabilities: Json
    instructions: str | None
    implementation: Json | None
    has_sessions: bool


class PresenceState(StrEnum):
    """How an upstream stands, or its part of a list."""

    OK = "ok"
    STARTING = "starting"
    DOWN = "down"
    FAILING = "failing"
    FAILED = "failed"
    QUARANTINED = "quarantined"


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """Whether an upstream is there, and if not why."""

    state: PresenceState
    why: str = ""


class Relay(Protocol):
    """One upstream, for everything of the protocol besides what calls are governed by."""

    @property
    def name(self) -> UpstreamName:
        """Return the upstream's configured name."""
        ...

    @property
    def is_prefixed(self) -> bool:
        """Tell whether clients see its names with its own name before them."""
        ...

    @property
    def face(self) -> ServerFace | None:
        """Return what it said about itself, None before it was first connected."""
        ...

    @property
    def presence(self) -> Presence:
        """Return whether it is connected."""
        ...

    async def started(self) -> None:
        """Wait until its first attempt to connect has ended, as long as a start may take."""
        ...

    def backend_for(self, exchange: Exchange) -> Backend:
        """Return what runs a call whose client is reached through `exchange`."""
        ...

    async def request(
        self,
        method: str,
        params: Json,
        exchange: Exchange,
        *,
        wall_ms: int,
        meter: Meter | None = None,
    ) -> Json:
        """Return the upstream's answer, after whatever it had to ask of the client.

        What it took of a server that was started here is noted on `meter`.

        Raises:
            UpstreamNotReachedError: provably nothing was sent.
            UpstreamFailedError: it failed, did not answer in time, or answered with an error.
        """
        ...

    async def watch(self, uri: str) -> None:
        """Have the upstream tell of changes to a resource.

        Raises:
            UpstreamNotReachedError: provably nothing was sent.
            UpstreamFailedError: it refuses.
        """
        ...

    async def unwatch(self, uri: str) -> None:
        """Let the upstream tell no more of a resource."""
        ...
