import pytest

from governor.ids import CallId, SessionId
from tool_gateway.errors import UpstreamFailedError
from tool_gateway.freezing import SessionFreezer
from tool_gateway.running import RunningCalls

pytestmark = pytest.mark.anyio
SESSION = SessionId("one")


class Commands:
    """Commands of which one cannot be frozen."""

    def __init__(self) -> None:
        self.frozen: set[str] = set()

    async def freeze(self, name: str) -> bool:
        if name == "stubborn":
            raise UpstreamFailedError
        self.frozen.add(name)
        return True

    async def thaw(self, name: str) -> bool:
        self.frozen.discard(name)
        return True


async def test_a_command_that_cannot_be_frozen_keeps_no_other_running() -> None:
    calls, commands = RunningCalls(), Commands()
    freezer = SessionFreezer(running=calls, commands=commands)

    with calls.track(CallId("stubborn"), SESSION), calls.track(CallId("other"), SESSION):
        count = await freezer.freeze(SESSION)

    assert (count, commands.frozen) == (1, {"other"})


@pytest.mark.requirement("session.frozen-stands-still")
async def test_a_call_whose_command_has_not_started_is_marked_for_it() -> None:
    calls = RunningCalls()
    freezer = SessionFreezer(running=calls, commands=Commands())

    with calls.track(CallId("a"), SESSION):
        await freezer.freeze(SESSION)
        while_frozen = calls.is_frozen(CallId("a"))
        await freezer.thaw(SESSION)
        afterwards = calls.is_frozen(CallId("a"))

    assert (while_frozen, afterwards) == (True, False)
