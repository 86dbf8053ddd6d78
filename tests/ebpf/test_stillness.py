from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import pytest

from ebpf.pausing import Pause
from ebpf.stillness import Stillness

pytestmark = pytest.mark.anyio
SESSION = ("tenant", "session")


@contextmanager
def kept(stillness: Stillness, session: tuple[str, str], one: Pause) -> Iterator[None]:
    stillness.joined(session, one)
    yield
    stillness.left(session, one)


class Still:
    """A domain that can be frozen, and that does nothing else."""

    async def freeze(self) -> None:
        """Stand still."""

    async def thaw(self) -> None:
        """Go on."""


def pause() -> Pause:
    return Pause(Still())  # type: ignore[arg-type] # nothing else of a domain is used


async def test_a_time_limit_stands_still_with_its_session_and_no_other() -> None:
    stillness, inside, outside = Stillness(), pause(), pause()
    with kept(stillness, SESSION, inside), kept(stillness, ("tenant", "other"), outside):
        scopes = [one.limit(wall_ms=10_000) for one in (inside, outside)]

        stillness.note(SESSION, is_still=True)

        assert scopes[0].deadline == float("inf")
        assert scopes[1].deadline < float("inf")

        stillness.note(SESSION, is_still=False)

        assert scopes[0].deadline < float("inf")


async def test_a_command_that_begins_in_a_still_session_has_its_whole_time_left() -> None:
    stillness, late = Stillness(), pause()
    stillness.note(SESSION, is_still=True)

    with kept(stillness, SESSION, late):
        scope = late.limit(wall_ms=10_000)
        assert scope.deadline == float("inf")
        before = anyio.current_time()
        stillness.note(SESSION, is_still=False)

        assert before + 10 <= scope.deadline <= anyio.current_time() + 10


async def test_what_an_administrator_froze_stays_so_when_its_session_goes_on() -> None:
    stillness, frozen = Stillness(), pause()
    with kept(stillness, SESSION, frozen):
        scope = frozen.limit(wall_ms=10_000)
        await frozen.freeze()
        stillness.note(SESSION, is_still=True)
        stillness.note(SESSION, is_still=False)

        assert frozen.is_frozen
        assert scope.deadline == float("inf")

        await frozen.thaw()

        assert scope.deadline < float("inf")


async def test_a_command_that_is_over_is_told_nothing_more() -> None:
    stillness, over = Stillness(), pause()
    with kept(stillness, SESSION, over):
        stillness.note(SESSION, is_still=True)

    stillness.note(SESSION, is_still=False)

    with kept(stillness, SESSION, over):
        assert over.limit(wall_ms=10_000).deadline < float("inf")
