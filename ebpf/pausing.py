"""Freezing one command that runs: its time limit stands still with it."""

import math
from contextlib import suppress
from enum import StrEnum

import anyio

from ebpf.domains.domain import Domain
from ebpf.errors import DomainError

_UNDO_SECONDS_MAX = 5.0


class Holder(StrEnum):
    """On whose word a command stands still; it goes on when the last of them lets it."""

    ADMINISTRATOR = "administrator"
    LADDER = "ladder"


class Pause:
    """Whether a command is frozen, on whose word, and how long it has been so far."""

    def __init__(self, domain: Domain) -> None:
        """Start with the command running."""
        self._domain = domain
        self._turns = anyio.Lock()
        self._holders: set[Holder] = set()
        self._causes = 0
        self._since: float | None = None
        self._over_seconds = 0.0
        self._limit: anyio.CancelScope | None = None
        self._left_seconds = math.inf

    @property
    def is_frozen(self) -> bool:
        """Tell whether the command itself was frozen and not thawed since."""
        return bool(self._holders)

    @property
    def frozen_seconds(self) -> float:
        """Return how long the command was frozen, all times together."""
        now = 0.0 if self._since is None else anyio.current_time() - self._since
        return self._over_seconds + now

    @property
    def left_seconds(self) -> float:
        """Return how long the command may still run."""
        if self._limit is None or self._since is not None:
            return self._left_seconds
        return self._limit.deadline - anyio.current_time()

    def is_held_besides(self, holder: Holder) -> bool:
        """Tell whether anybody but `holder` wants the command, or what it is in, to stand still."""
        return bool(self._holders - {holder}) or self._causes > int(self.is_frozen)

    def limit(self, *, wall_ms: int) -> anyio.CancelScope:
        """Return the scope that the command's time limit cancels; frozen time does not count."""
        self._left_seconds = wall_ms / 1000
        self._limit = anyio.CancelScope()
        if self._since is None:
            self._limit.deadline = anyio.current_time() + self._left_seconds
        return self._limit

    async def freeze(self, by: Holder = Holder.ADMINISTRATOR) -> None:
        """Let no process of the command run until `by`, and whoever else froze it, thaws it.

        Raises:
            DomainError: the machine refused; the command runs on, as far as it does.
        """
        async with self._turns:
            if not self._holders:
                self.stand()
                try:
                    await self._domain.freeze()
                except BaseException:
                    await self._undo()
                    raise
            self._holders.add(by)

    async def _undo(self) -> None:
        """Let go on what was to be frozen and may be in part: its time limit will."""
        try:
            with anyio.move_on_after(_UNDO_SECONDS_MAX, shield=True), suppress(DomainError):
                await self._domain.thaw()
        finally:
            self.go_on()

    async def thaw(self, by: Holder = Holder.ADMINISTRATOR) -> None:
        """Let the command go on where it was, unless others hold it.

        Raises:
            DomainError: the machine refused; the command stays frozen.
        """
        async with self._turns:
            is_last = self._holders == {by}
            if is_last:
                await self._domain.thaw()
            self._holders.discard(by)
            if is_last:
                self.go_on()

    def stand(self) -> None:
        """Let the time limit stand still: something that the command is in does, or it will."""
        self._causes += 1
        if self._causes == 1:
            self._stop_clock()

    def go_on(self) -> None:
        """Take back one `stand`; with the last of them the time limit goes on."""
        assert self._causes, "what goes on has stood still"
        self._causes -= 1
        if not self._causes:
            self._start_clock()

    def _stop_clock(self) -> None:
        self._since = anyio.current_time()
        if self._limit is not None:
            self._left_seconds = self._limit.deadline - self._since
            self._limit.deadline = math.inf

    def _start_clock(self) -> None:
        assert self._since is not None, "only a frozen command is thawed"
        now = anyio.current_time()
        self._over_seconds += now - self._since
        self._since = None
        if self._limit is not None:
            self._limit.deadline = now + self._left_seconds
