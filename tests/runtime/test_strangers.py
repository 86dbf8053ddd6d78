"""What strangers wrote runs apart: whoever waits for it can always stop waiting."""

from contextlib import suppress

import anyio
import pytest

from runtime import strangers
from runtime.strangers import NotEndingError, apart, begun, ended, resting, still_there

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("stop.bounded")]
SECONDS_MAX = 60


@pytest.fixture(autouse=True)
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers, "GRACE_SECONDS", 0.01)


class Stubborn:
    """Swallows every cancellation until it is let go."""

    def __init__(self) -> None:
        self.has_begun = anyio.Event()
        self.may_end = anyio.Event()

    async def __call__(self) -> str:
        self.has_begun.set()
        while not self.may_end.is_set():
            with suppress(BaseException):
                await self.may_end.wait()
        return "at last"


async def test_what_a_stranger_returns_and_raises_comes_through() -> None:
    async def answers() -> str:
        return "yes"

    async def fails() -> str:
        raise LookupError("nothing there")

    with anyio.fail_after(SECONDS_MAX):
        assert await apart("one", answers) == "yes"
        with pytest.raises(LookupError, match="nothing there"):
            await apart("one", fails)

    assert still_there() == ()


async def test_a_caller_that_is_cancelled_does_not_wait_for_one_that_swallows_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stubborn = Stubborn()

    with anyio.fail_after(SECONDS_MAX):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(apart, "plug-in odd", stubborn)
            await stubborn.has_begun.wait()
            tasks.cancel_scope.cancel()

    assert still_there() == ("plug-in odd",)
    assert "plug-in odd does not end when told to; it is left behind" in caplog.text
    await _let_end(stubborn)


async def test_whoever_leaves_too_much_behind_is_asked_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(strangers, "LEFT_MAX", 1)
    stubborn = Stubborn()

    with anyio.fail_after(SECONDS_MAX):
        task = begun("plug-in odd", stubborn)
        await stubborn.has_begun.wait()
        has_ended = await ended(task)
        with pytest.raises(NotEndingError):
            await apart("plug-in odd", stubborn)
        await _let_end(stubborn)
        again = await apart("plug-in odd", stubborn)

    assert not has_ended
    assert again == "at last"


async def test_what_waits_for_us_in_a_strangers_task_is_in_nobodys_way() -> None:
    is_open, may_close = anyio.Event(), anyio.Event()

    async def life() -> None:
        with resting():
            is_open.set()
            await may_close.wait()

    with anyio.fail_after(SECONDS_MAX):
        task = begun("plug-in odd", life)
        during = still_there()
        await is_open.wait()
        resting_now = still_there()
        may_close.set()
        await task

    assert (during, resting_now) == (("plug-in odd",), ())


async def _let_end(stubborn: Stubborn) -> None:
    stubborn.may_end.set()
    with anyio.fail_after(SECONDS_MAX):
        while still_there():
            await anyio.lowlevel.checkpoint()
