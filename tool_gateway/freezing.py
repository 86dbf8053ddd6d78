"""Freezing a session: the commands that it runs stand still until it is resumed."""

import logging
from collections.abc import Awaitable, Callable

from governor.ids import CallId, SessionId
from tool_gateway import telemetry
from tool_gateway.errors import UpstreamError
from tool_gateway.ports import CommandFreezer
from tool_gateway.running import RunningCalls

logger = logging.getLogger(__name__)


class SessionFreezer:
    """Freezes and thaws the local commands of a session's running calls.

    What runs elsewhere, an upstream's work, goes on: only its next calls are denied, and what of a
    running one has not been sent is not sent any more.
    """

    def __init__(self, *, running: RunningCalls, commands: CommandFreezer) -> None:
        """Take the list of calls, and what runs their commands."""
        self._running = running
        self._commands = commands

    async def freeze(self, session: SessionId) -> int:
        """Freeze the session's commands, also those about to start; return how many stand still."""
        return await self._each(
            self._running.freeze_session(session), self._commands.freeze, "frozen"
        )

    async def thaw(self, session: SessionId) -> int:
        """Let the session's commands go on; return how many do."""
        return await self._each(self._running.thaw_session(session), self._commands.thaw, "thawed")

    async def _each(
        self, calls: list[CallId], act: Callable[[str], Awaitable[bool]], what: str
    ) -> int:
        count = 0
        for call_id in calls:
            try:
                count += await act(call_id)
            except UpstreamError:
                # One that the machine does not obey must not keep the others running.
                telemetry.count_failure("freeze")
                logger.exception("the command of %s could not be %s", call_id, what)
        return count
