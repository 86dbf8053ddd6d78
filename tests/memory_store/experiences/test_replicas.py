"""Two sidecars on one server write the experiences of one tenant; a worker does over a link."""

from pathlib import Path

import anyio
import pytest

from governor.experience.chain import breaks_in, first_hash
from governor.experience.kinds import Standing
from governor.ids import NamespaceId
from memory_store.engine import Durability
from memory_store.errors import ExperienceRevokedError, ExperienceSupersededError
from memory_store.store import Store, open_store
from tests.memory_store.experiences.makers import (
    ACME,
    BOB,
    BY,
    draft,
    ids,
    one,
    space_of,
    standings,
    wrote,
)

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

BLOB = b"evidence" * 1_000


@pytest.mark.requirement("memory.replicas")
async def test_two_sidecars_lose_nothing_and_leave_no_gap_in_a_log(
    tmp_path: Path, database: str
) -> None:
    async with (
        open_store(tmp_path / "a", url=database, durability=Durability.PROCESS) as left,
        open_store(tmp_path / "b", url=database, durability=Durability.PROCESS) as right,
    ):
        space = await space_of(left)
        assert await space_of(right) == space
        await wrote(left, draft("old", space), draft("seed", space, writer=BOB))
        refused: list[str] = []

        async def write(store: Store, who: str) -> None:
            for number in range(15):
                await wrote(store, draft(f"{who}{number}", space, content=BLOB))
            try:
                await wrote(store, draft(f"fix_{who}", space, supersedes="old"))
            except ExperienceSupersededError:
                refused.append(who)

        with anyio.fail_after(120):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(write, left, "a")
                tasks.start_soon(write, right, "b")
                tasks.start_soon(derive, left, space)
                tasks.start_soon(revoke, right)

        entries = await right.experiences.log_since(ACME, number=0)
        looked = await left.upkeep.check.look(ACME)
        there = [await one(right, f"{who}{number}") for who in "ab" for number in range(15)]
        made = await left.experiences.page(tenant=ACME, limit=200)

    assert breaks_in(entries, after_number=0, after_hash=first_hash(ACME)) == []
    assert looked.problems == ()
    assert len(there) == 30
    assert len(refused) == 1
    # Whether it was made before the revocation or refused after it: none is left standing.
    derived = [made_of for made_of in made.items if made_of.provenance.derived_from]
    assert {found.standing for found in derived} <= {Standing.REVOKED}


async def derive(store: Store, space: NamespaceId) -> None:
    for number in range(15):
        try:
            await wrote(store, draft(f"made{number}", space, made_of=("seed",)))
        except ExperienceRevokedError:
            return


async def revoke(store: Store) -> None:
    await store.experiences.revoke_writer(BOB, tenant=ACME, **BY)


async def test_what_one_sidecar_erases_the_other_does_not_read(
    tmp_path: Path, database: str
) -> None:
    async with (
        open_store(tmp_path / "a", url=database, durability=Durability.PROCESS) as left,
        open_store(tmp_path / "b", url=database, durability=Durability.PROCESS) as right,
    ):
        space = await space_of(left)
        await wrote(left, draft("a", space, content=BLOB), draft("b", space, content=BLOB))
        before = (await right.experiences.content(ids("a")[0], tenant=ACME)).content
        await right.experiences.erase(ids=ids("a"), tenant=ACME, **BY)
        after = (await left.experiences.content(ids("b")[0], tenant=ACME)).content
        await left.experiences.mark(ids("b"), Standing.QUARANTINED, tenant=ACME, **BY)
        aside = await standings(right, "b")

    assert before == after == BLOB
    assert aside == [Standing.QUARANTINED]
