"""A command that was not frozen whole goes on, and says so in words of its own."""

from types import SimpleNamespace

import anyio
import pytest

from ebpf.errors import DomainError
from ebpf.ladder import Ladder, LadderPlan
from ebpf.pausing import Pause
from governor.ladder import LadderTerms
from tests.ebpf.commands import MIB, limits

pytestmark = pytest.mark.anyio


class Slow:
    """A domain that stands still as soon as it is told to, but is long in saying so."""

    memory = unified = None

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.is_still = False

    async def freeze(self) -> None:
        self.is_still = True
        await anyio.sleep(self._seconds)

    async def thaw(self) -> None:
        self.is_still = False


async def test_a_freeze_that_is_given_up_leaves_nothing_frozen() -> None:
    domain = Slow(60)
    pause = Pause(domain)  # type: ignore[arg-type] # nothing else of a domain is used

    with anyio.move_on_after(0.05):
        await pause.freeze()
    frozen_seconds = pause.frozen_seconds
    await anyio.sleep(0.05)

    assert (domain.is_still, pause.is_frozen) == (False, False)
    assert pause.frozen_seconds == frozen_seconds  # the time goes on


async def test_a_ladder_whose_group_is_gone_ends_with_an_error_of_this_package() -> None:
    def gone(**_: int) -> None:
        raise DomainError

    domain = Slow(0)
    pause = Pause(domain)  # type: ignore[arg-type] # nothing else of a domain is used
    plan = LadderPlan(terms=LadderTerms(throttle_permille=500, full_permille=950))
    held = limits(memory_bytes=64 * MIB)
    ladder = Ladder("call", domain, pause, held, plan)  # type: ignore[arg-type] # as above
    ladder._grip = SimpleNamespace(waits=False, make_room=gone)  # type: ignore[assignment]

    with pytest.raises(DomainError):
        await ladder._freeze()
