"""Where an upstream stands, and who waits until that is known."""

import logging
from enum import StrEnum

import anyio

from governor.ids import UpstreamName

logger = logging.getLogger(__name__)


class UpstreamState(StrEnum):
    """Where an upstream stands."""

    STARTING = "starting"
    READY = "ready"
    DOWN = "down"
    IDLE = "idle"  # stopped, because nothing used it; the next call starts it


class Standing:
    """Written by whoever keeps the upstream connected, waited for by its calls."""

    def __init__(self, name: UpstreamName) -> None:
        """Begin with a first attempt under way."""
        self.state = UpstreamState.STARTING
        self.problem = ""
        self.is_waking = True  # a start takes longer than to connect again
        self._name = name
        self._told = ""
        self._awaiting = 0
        self._settled = anyio.Event()  # set once READY, DOWN or IDLE is known
        self._rest: anyio.Event | None = None  # set by whoever ends the rest

    async def settled(self) -> None:
        """Wait until an attempt to connect has succeeded or failed."""
        self._awaiting += 1
        try:
            await self._settled.wait()
        finally:
            self._awaiting -= 1

    @property
    def is_awaited(self) -> bool:
        """Tell whether somebody waits to use it."""
        return self._awaiting > 0

    def ready(self, *, tools: int = 0) -> None:
        """Let calls go out from now on; whoever was told of a loss is told that it is over."""
        if self._told:
            offers = "1 tool" if tools == 1 else f"{tools} tools"
            logger.warning("upstream %s is up again, %s", self._name, offers)
        self.state, self.problem, self._told = UpstreamState.READY, "", ""
        self.is_waking = False
        self._settled.set()

    def start(self) -> None:
        """Let calls wait from now on, until an attempt has succeeded or failed."""
        self.state = UpstreamState.STARTING
        if self._settled.is_set():  # else calls wait on it already
            self._settled = anyio.Event()

    def down(self, problem: str, *, soon_back: bool) -> None:
        """Note a loss; calls wait for the next attempt only where one is near."""
        self.problem = problem
        if soon_back:
            self.start()
        else:
            self.state, self.is_waking = UpstreamState.DOWN, False
            self._settled.set()
        # One that stays down is tried again and again, and told once.
        if problem != self._told:
            self._told = problem
            logger.warning("upstream %s is %s: %s", self._name, self.state, problem)

    def rest(self) -> None:
        """Let it be stopped until somebody wakes it."""
        self.state, self.problem, self._rest = UpstreamState.IDLE, "", anyio.Event()
        self._settled.set()

    def wake(self) -> None:
        """End the rest, if it rests; calls wait until it is up."""
        if self.state is UpstreamState.IDLE and self._rest is not None:
            self.is_waking = True
            self.start()
            self._rest.set()

    async def rested(self) -> bool:
        """Wait for the end of the rest; tell whether there was one."""
        if self._rest is None:
            return False
        await self._rest.wait()
        self._rest = None
        return True
