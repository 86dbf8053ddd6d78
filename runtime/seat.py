"""Which part of a sidecar's work a process does, where several share it."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from starlette.types import ASGIApp

from memory_store.store import Store
from tool_gateway.guards.gate import ReasoningGate
from tool_gateway.identity import Caller
from tool_gateway.sessions import ImplicitSessions


class SessionBinding(Protocol):
    """Where it is kept which session a token stands for."""

    def bind(self, token_id: str, name: str) -> None:
        """Let a token stand for one session, until `release`."""

    def release(self, token_id: str) -> None:
        """Let a token stand for no session of its own any more."""

    def pin_of(self, token_id: str) -> str | None:
        """Return the name of the only session that a token stands for, None without one."""


class Exposition(Protocol):
    """Shows metrics as Prometheus reads them."""

    def __call__(self, *, openmetrics: bool = False) -> tuple[bytes, str]:
        """Return them with their media type, with exemplars in the `openmetrics` format."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPart:
    """What a worker has of others instead of by itself.

    `store` is None where it writes to a server by itself. `place` is what names the worker in
    the ids that it gives to clients. `met` hears of each caller before its request is served;
    `handing` wraps what serves, to hand on what belongs to other workers.
    """

    place: str
    store: Store | None
    sessions: ImplicitSessions
    gate: ReasoningGate
    met: Callable[[Caller], Awaitable[None]]
    handing: Callable[[ASGIApp], ASGIApp]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperPart:
    """What the process that has the ledger does for the workers.

    `answering` answers them from the store that it is given. `problems` says which of them are
    missing, and `metrics` puts theirs beside its own. `spread_reload` has them take over what
    was taken over here. `binding` is asked by them which session a token stands for.
    """

    binding: SessionBinding

    answering: Callable[[Store], AbstractAsyncContextManager[None]]
    problems: Callable[[], list[str]]
    metrics: Exposition
    spread_reload: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """The part of one process.

    `workers` is between how many the limits of machine and upstreams are divided; 1 where one
    process does everything. `worker` is None for whoever keeps the house: ends overdue holds,
    removes old records, makes the first tokens. `is_first` says that no other process of this
    sidecar can be at work yet, so that what is live was left by an earlier one.
    """

    workers: int = 1
    worker: WorkerPart | None = None
    keeper: KeeperPart | None = None
    is_first: bool = True

    @property
    def place(self) -> str:
        """Return what names this process in the ids that clients send back; mostly nothing."""
        return "" if self.worker is None else self.worker.place

    @property
    def process(self) -> str:
        """Return what tells this process from others of its sidecar."""
        if self.worker is not None:
            return self.worker.place
        return "sidecar" if self.keeper is None else "keeper"

    def is_shared(self, store: Store) -> bool:
        """Tell whether other processes serve the sessions that are in `store`."""
        return store.is_shared or self.workers > 1


ALONE = Seat()
