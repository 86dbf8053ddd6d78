"""What the console needs of the rest of the process."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from starlette.types import ASGIApp

from memory_store.identities import Identity
from runtime.console.visits import VisitKeeper

IDLE_MS = 60 * 60 * 1000


class Doorkeeper(Protocol):
    """Whoever knows which tokens stand for whom."""

    async def recognise(self, secret_hash: str, *, now_ms: int) -> Identity | None:
        """Return whom the token of that hash stands for at this moment, None for nobody."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleParts:
    """Everything that the console works on.

    `api` is the admin API's application, which is asked in this process. `draw` returns fresh
    random text that nobody can guess. `host` is its own name on this machine. `is_secure` says
    that browsers reach the console by TLS, `has_memory` that agents are offered a memory.
    """

    api: ASGIApp
    doorkeeper: Doorkeeper
    visits: VisitKeeper
    now_ms: Callable[[], int]
    draw: Callable[[], str]
    host: str = ""
    is_secure: bool = False
    has_memory: bool = True
    idle_ms: int = IDLE_MS
