"""What the admin interface needs of the rest of the process."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from governor.flow.labels import Traits
from governor.policy import Policy
from governor.tiers import ModelTier
from memory_store.audit import Actor
from memory_store.store import Store
from runtime.budget_words import KnownTargets
from runtime.long_preview import LongPreviews
from runtime.memory.administration.experiences import MemoryAdministration
from runtime.previewing import Previews
from runtime.prices import PriceSource
from runtime.reload import Reloaded
from runtime.router.desk import RouterDesk
from runtime.router.feedback import Feedback
from runtime.seat import Exposition
from tool_gateway.approver import Approver
from tool_gateway.catalog import ToolEntry
from tool_gateway.freezing import SessionFreezer
from tool_gateway.guards.pins import Pins
from tool_gateway.running import RunningCalls
from tool_gateway.schemas import SchemaFault

BODY_BYTES_MAX = 1024 * 1024


class Clock(Protocol):
    """The only source of time and of fresh names."""

    def now_ms(self) -> int:
        """Return the epoch time in milliseconds."""
        ...

    def fresh(self, prefix: str) -> str:
        """Return a new unique id that begins with `prefix` and an underscore."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminParts:
    """Everything that the admin interface works on.

    `readiness` returns a sentence for each part that is not ready, the store among them.
    `upstreams` returns one JSON object for each upstream; `name` and `state` are among its
    keys. `upstream` returns all that is known of one, None if there is none. `providers` returns
    one JSON object for each model provider, `tiers` the configured tiers of models. `metrics`
    returns Prometheus' text with its media type. `labels` says what flow rules take a tool for;
    `schema_faults` which schemas of tools are of no use.
    """

    store: Store
    clock: Clock
    running: RunningCalls
    approver: Approver
    freezer: SessionFreezer
    readiness: Callable[[], Awaitable[Sequence[str]]]
    upstreams: Callable[[], Sequence[Mapping[str, object]]]
    upstream: Callable[[str], Awaitable[Mapping[str, object] | None]]
    metrics: Exposition
    policy: Callable[[], Policy]
    known: Callable[[], KnownTargets]
    prices: PriceSource
    pins: Pins
    router: RouterDesk
    memory: MemoryAdministration
    feedback: Feedback
    labels: Callable[[ToolEntry], Traits]
    reload: Callable[[Actor], Awaitable[Reloaded]]
    providers: Callable[[], Sequence[Mapping[str, object]]] = tuple
    tiers: Callable[[], Sequence[ModelTier]] = tuple
    schema_faults: Callable[[], Sequence[SchemaFault]] = tuple
    body_bytes_max: int = BODY_BYTES_MAX
    previews: Previews = field(default_factory=Previews)
    long_previews: LongPreviews = field(default_factory=LongPreviews)
