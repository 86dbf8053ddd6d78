"""A disk that hangs and one that refuses to be written: closed meanwhile, and whole afterwards."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import anyio
import pytest
from proof.crowd_on_disk import CrowdOnDisk
from proof.disks import disk_in_a_file
from proof.failing_driver import failing_driver
from proof.stores import SqliteFactory

from memory_store.engine import Durability
from tool_gateway import books

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

POWER = SqliteFactory(durability=Durability.POWER)
CLIENTS = 12

Trouble = Callable[[], AbstractContextManager[None]]
Place = tuple[Path, Trouble, Trouble]


@pytest.fixture(params=["driver", "disk"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Yield a folder, how its disk hangs up, and how it can no longer be written.

    Once it is the driver that behaves as if, once a disk that really does.
    """
    with ExitStack() as stack:
        if request.param == "driver":
            driver = stack.enter_context(failing_driver())
            yield tmp_path, driver.stopped, driver.read_only
        else:
            disk = stack.enter_context(disk_in_a_file(tmp_path))
            yield disk.path, disk.stopped, disk.read_only


@pytest.mark.requirement("proof.stalled-disk")
async def test_while_the_disk_hangs_nobody_is_told_anything_and_then_all_goes_on(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(books, "SETTLE_SECONDS_MAX", 0.2)
    folder, hanging, _ = place
    async with POWER.open(folder) as stage:
        crowd = CrowdOnDisk(stage)
        await crowd.open()
        running, waiting = await crowd.admit(), await crowd.admit()
        assert running is not None
        assert waiting is not None
        assert await crowd.forward(running)
        told_before = dict(crowd.told)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                with hanging():
                    group.start_soon(crowd.calls, 3 * CLIENTS)
                    # The result of a call is not kept from its client for longer than that.
                    was_said_to_be_stored = await crowd.end(running)
                    # Who asks and leaves before its turn holds nothing.
                    with anyio.move_on_after(0.1) as gone:
                        await crowd.admit()
                    told_meanwhile, denied_meanwhile = dict(crowd.told), dict(crowd.denied)
            await crowd.call()

        assert not was_said_to_be_stored
        assert gone.cancelled_caught
        assert told_meanwhile == told_before
        assert denied_meanwhile == {}
        facts = await crowd.judge()
        states = {hold.reservation_id: hold.state for hold in facts.holds}
        assert states[running.reservation_id] == "settled", "what was accepted is done"
        assert states[waiting.reservation_id] == "held"
        assert set(states) == set(crowd.told)


@pytest.mark.requirement("proof.read-only-disk")
async def test_while_the_disk_cannot_be_written_nothing_is_admitted_and_then_all_goes_on(
    place: Place,
) -> None:
    folder, _, read_only = place
    async with POWER.open(folder) as stage:
        crowd = CrowdOnDisk(stage)
        await crowd.open()
        running, waiting = await crowd.admit(), await crowd.admit()
        assert running is not None
        assert waiting is not None
        assert await crowd.forward(running)

        with anyio.fail_after(60):
            with read_only():
                await crowd.calls(CLIENTS)
                was_said_to_be_stored = await crowd.end(running)
                may_leave = await crowd.forward(waiting)
                denied = dict(crowd.denied)
                # What was stored can still be read, and it is what was said.
                await crowd.judge()
            is_stored_now = await crowd.end(running)
            await crowd.forward(waiting)
            await crowd.call()

        assert denied == {"ledger_unavailable": CLIENTS}
        assert not was_said_to_be_stored
        assert not may_leave
        assert is_stored_now
        await crowd.judge()
        assert sorted(crowd.told.values()) == ["forwarded", "settled", "settled"]


@pytest.mark.requirement("proof.read-only-disk")
async def test_a_disk_that_becomes_read_only_under_calls_undoes_nothing_that_was_said(
    place: Place,
) -> None:
    folder, _, read_only = place
    async with POWER.open(folder) as stage:
        crowd = CrowdOnDisk(stage)
        await crowd.open(limit=10**9)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for _ in range(CLIENTS):
                    group.start_soon(crowd.call_until_denied)
                await crowd.is_under_way.wait()
                with read_only():
                    await crowd.is_denied.wait()
            await crowd.call()

        assert crowd.denied.keys() == {"ledger_unavailable"}
        assert Counter(crowd.told.values())["settled"] > CLIENTS
        await crowd.judge()
