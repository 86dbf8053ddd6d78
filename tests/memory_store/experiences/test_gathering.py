"""Writers of experiences that come together: none is lost, each is told its own."""

import threading
from functools import partial
from typing import Any

import anyio
import pytest
from sqlalchemy import text

from governor.experience.chain import breaks_in, first_hash
from governor.experience.kinds import Standing
from governor.ids import NamespaceId
from memory_store.errors import (
    ExperienceSupersededError,
    StoreError,
    StoreOverloadedError,
)
from memory_store.store import Store
from tests.memory_store.experiences.makers import (
    ACME,
    draft,
    ids,
    standings,
    wrote,
)

pytestmark = pytest.mark.anyio

BLOB = bytes(range(256)) * 64


async def test_concurrent_writers_lose_nothing(kept: Store, space: NamespaceId) -> None:
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in range(40):
                made = draft(f"n{number}", space, content=BLOB, call=f"call_{number}")
                tasks.start_soon(kept.experiences.write, (made,))

    entries = await kept.experiences.log_since(ACME, number=0)
    assert len(await kept.experiences.get(ids(*(f"n{n}" for n in range(40))), tenant=ACME)) == 40
    assert breaks_in(entries, after_number=0, after_hash=first_hash(ACME)) == []
    assert len(entries) == 40


async def test_of_concurrent_corrections_one_stands_and_the_others_hear_of_it(
    kept: Store, space: NamespaceId
) -> None:
    await wrote(kept, draft("old", space))
    outcomes: list[str] = []

    async def correct(name: str) -> None:
        try:
            await wrote(kept, draft(name, space, supersedes="old"))
        except ExperienceSupersededError:
            outcomes.append("refused")
        else:
            outcomes.append("stands")

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(correct, f"new{number}")

    assert sorted(outcomes) == ["refused"] * 4 + ["stands"]


@pytest.mark.requirement("memory.gathered-writes")
async def test_writes_that_came_together_share_a_transaction_and_fail_alone(
    kept: Store, space: NamespaceId
) -> None:
    await wrote(kept, draft("old", space))
    outcomes: dict[str, str] = {}
    may_go = threading.Event()
    is_held = kept.writer.submit(lambda _connection: may_go.wait(60))

    async def write(name: str, **more: Any) -> None:
        try:
            (written,) = await wrote(kept, draft(name, space, **more))
            outcomes[name] = f"new {written.number}" if written.is_new else "known"
        except StoreError as error:
            outcomes[name] = type(error).__name__

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(partial(write, f"n{number}", content=BLOB))
            tasks.start_soon(partial(write, "lost", made_of=("nobody",)))
            tasks.start_soon(partial(write, "fix", supersedes="old"))
            tasks.start_soon(partial(write, "late", supersedes="old"))
            tasks.start_soon(partial(write, "old"))
            await anyio.wait_all_tasks_blocked()
            may_go.set()
    await is_held

    fine = [outcomes.pop(f"n{number}") for number in range(20)]
    assert sorted(fine) == sorted(set(fine)), "each has a number of its own"
    assert outcomes.pop("fix").startswith("new")
    assert outcomes == {
        "lost": "ExperienceNotFoundError",
        "late": "ExperienceSupersededError",
        "old": "known",
    }
    assert (await kept.upkeep.check.look(ACME)).problems == ()


async def test_more_writers_than_may_wait_are_refused_at_once(
    kept: Store, space: NamespaceId, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_store.experiences.gathering.WAITING_MAX", 2)
    may_go = threading.Event()
    is_held = kept.writer.submit(lambda _connection: may_go.wait(60))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kept.experiences.write, (draft("a", space),))
            tasks.start_soon(kept.experiences.write, (draft("b", space),))
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(StoreOverloadedError):
                await kept.experiences.write((draft("c", space),))
            may_go.set()
    await is_held

    assert await standings(kept, "a", "b") == [Standing.ACTIVE] * 2


async def test_a_writer_that_goes_away_does_not_undo_what_it_wrote(
    kept: Store, space: NamespaceId
) -> None:
    may_go = threading.Event()
    is_held = kept.writer.submit(lambda _connection: may_go.wait(60))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kept.experiences.write, (draft("a", space),))
            tasks.start_soon(kept.experiences.write, (draft("b", space),))
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        may_go.set()
        await is_held
        await kept.writer.run(lambda connection: connection.execute(text("SELECT 1")).close())

    read = await kept.experiences.content(ids("a")[0], tenant=ACME)
    assert read.content == b"what a is about"
    assert (await kept.upkeep.check.look(ACME)).problems == ()
