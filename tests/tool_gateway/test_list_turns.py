"""Lists are asked of an upstream so many at once, and no queue of them grows without end."""

import anyio
import pytest

from governor.ids import UpstreamName
from tool_gateway import list_turns
from tool_gateway.errors import UpstreamNotReachedError
from tool_gateway.list_turns import ListTurns

pytestmark = pytest.mark.anyio

FILES = UpstreamName("files")


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_turns, "AT_ONCE_MAX", 2)
    monkeypatch.setattr(list_turns, "WAITING_MAX", 3)


class Crowd:
    """Tasks that each want a list of one upstream, and keep their turn until they may go."""

    def __init__(self) -> None:
        self.turns = ListTurns()
        self.inside = self.inside_max = self.done = self.refused = 0
        self.may_go = anyio.Event()

    async def ask(self) -> None:
        try:
            async with self.turns.turn(FILES):
                self.inside += 1
                self.inside_max = max(self.inside, self.inside_max)
                await self.may_go.wait()
                self.inside -= 1
        except UpstreamNotReachedError:
            self.refused += 1
        else:
            self.done += 1


@pytest.mark.requirement("contention.queues-are-bounded")
async def test_so_many_are_asked_for_so_many_wait_and_the_rest_is_refused() -> None:
    crowd = Crowd()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for _ in range(9):
                tasks.start_soon(crowd.ask)
            await anyio.wait_all_tasks_blocked()
            refused_at_once = crowd.refused
            crowd.may_go.set()

    assert (crowd.inside_max, refused_at_once) == (2, 4)
    assert crowd.done == 5


async def test_whoever_waits_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_turns, "WAIT_SECONDS_MAX", 0.05)
    crowd = Crowd()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(crowd.ask)
            while not crowd.refused:
                await anyio.sleep(0.01)
            crowd.may_go.set()

    assert (crowd.done, crowd.refused) == (2, 1)


async def test_a_wait_that_is_cancelled_takes_no_place() -> None:
    crowd = Crowd()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(crowd.ask)
            await anyio.wait_all_tasks_blocked()
            with anyio.move_on_after(0.01):
                await crowd.ask()
            crowd.may_go.set()
        await crowd.ask()

    assert (crowd.done, crowd.refused) == (3, 0)
