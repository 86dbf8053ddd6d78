"""Experiences brought back from lines: without what is gone, as they stood, changed by nobody."""

import json
from pathlib import Path
from typing import Any

import pytest

from governor.experience.kinds import Standing, TrustLane
from governor.ids import NamespaceId
from memory_store.engine import Durability
from memory_store.experiences.transfer import Taken
from memory_store.experiences.values import KeepRule
from memory_store.store import Store, open_store
from tests.memory_store.experiences.makers import (
    ACME,
    BOB,
    BY,
    NOW,
    as_it_was,
    draft,
    each,
    ids,
    one,
    standings,
    wrote,
)

pytestmark = pytest.mark.anyio

ACTIVE, SUPERSEDED = Standing.ACTIVE, Standing.SUPERSEDED


async def carried_out(store: Store, **named: Any) -> list[bytes]:
    return [line async for line in store.upkeep.transfer.lines(ACME, **named)]


async def taken(store: Store, *lines: bytes) -> Taken:
    return await store.upkeep.transfer.take(each(lines), as_it_was, tenant=ACME, now_ms=NOW)


async def purge(store: Store) -> None:
    """Let everything that was learned early have its time."""
    await store.retention.purge(before_ms=0, now_ms=NOW, experiences=(KeepRule(before_ms=100),))


@pytest.mark.requirement("memory.transfer")
async def test_what_names_something_that_is_gone_is_brought_back_without_it(
    kept: Store, space: NamespaceId, tmp_path: Path
) -> None:
    team = await kept.namespaces.make("team/blue", tenant=ACME, now_ms=1)
    await wrote(kept, draft("source", space, learned_at_ms=5), draft("far", team.namespace))
    await wrote(kept, draft("lesson", space, made_of=("source", "far")))
    await wrote(kept, draft("private", space), draft("fix", space, supersedes="private"))
    await purge(kept)
    await kept.experiences.erase(ids=ids("private"), tenant=ACME, **BY)

    lines = await carried_out(kept, namespaces=(space,))
    async with open_store(tmp_path / "other", durability=Durability.PROCESS) as other:
        first = await taken(other, *lines)
        again = await taken(other, *lines)
        lesson, fix = await one(other, "lesson"), await one(other, "fix")
        looked = await other.upkeep.check.look(ACME)

    assert (first.new, first.refused) == (2, 0)
    assert (again.known, again.refused) == (2, 0)
    assert lesson.provenance.derived_from == ids("source", "far")
    assert (fix.standing, fix.supersedes) == (ACTIVE, ids("private")[0])
    assert looked.problems == ()


@pytest.mark.requirement("memory.transfer")
async def test_what_was_corrected_is_brought_back_corrected_whatever_became_of_the_correction(
    kept: Store, space: NamespaceId, tmp_path: Path
) -> None:
    await wrote(kept, draft("wrong", space), draft("a", space))
    await wrote(kept, draft("right", space, supersedes="wrong", learned_at_ms=5, valid_from_ms=5))
    await wrote(kept, draft("b", space, supersedes="a"))
    await wrote(kept, draft("c", space, supersedes="b", valid_from_ms=NOW + 3))
    await purge(kept)
    await kept.experiences.erase(ids=ids("b"), tenant=ACME, **BY)
    stood = await standings(kept, "wrong", "a", "c")

    lines = await carried_out(kept)
    async with open_store(tmp_path / "other", durability=Durability.PROCESS) as other:
        await taken(other, *lines)
        stands = await standings(other, "wrong", "a", "c")
        first = await one(other, "a")
        looked = await other.upkeep.check.look(ACME)

    assert stood == stands == [SUPERSEDED, SUPERSEDED, ACTIVE]
    assert (first.superseded_by, first.valid_until_ms) == (ids("c")[0], NOW + 3)
    assert looked.problems == ()


@pytest.mark.requirement("memory.erase")
async def test_what_was_made_of_something_erased_does_not_come_back_from_a_file(
    kept: Store, space: NamespaceId
) -> None:
    await wrote(kept, draft("secret", space), draft("told", space, made_of=("secret",)))
    lines = await carried_out(kept)
    await kept.experiences.erase(ids=ids("secret"), tenant=ACME, **BY)
    renamed = lines[1].replace(b"exp_told", b"exp_other")

    got = await taken(kept, renamed)

    assert got.new == 0
    assert got.faults[0].why == "exp_secret, which it was made of, was erased here"


@pytest.mark.requirement("memory.transfer")
@pytest.mark.parametrize(
    "changed",
    [{"standing": "active"}, {"terms": "evil"}, {"outcome": 1.0}, {"expires_at_ms": None},
     {"takes_effect": True}, {"superseded": ["exp_x", 1, 1]}, {"seal": ""}],
)  # fmt: skip
async def test_a_line_in_which_anything_was_changed_is_signed_by_nobody(
    kept: Store, space: NamespaceId, changed: dict[str, object]
) -> None:
    waiting = draft("q", space, standing=Standing.QUARANTINED, learned_at_ms=5, expires_at_ms=99)
    await wrote(kept, waiting)
    (line,) = await carried_out(kept)
    await purge(kept)

    await taken(kept, json.dumps({**json.loads(line), **changed}).encode())

    assert (await one(kept, "q")).lane is TrustLane.WEB


async def test_a_line_whose_id_is_something_elses_is_taken_once(
    kept: Store, space: NamespaceId
) -> None:
    await wrote(kept, draft("a", space, content=b"theirs", writer=BOB, learned_at_ms=5))
    lines = await carried_out(kept)
    await purge(kept)
    await wrote(kept, draft("a", space, content=b"ours"))

    counted = [await taken(kept, *lines) for _ in range(3)]

    assert [(one.new, one.known, one.renamed) for one in counted] == [(1, 0, 1)] + [(0, 1, 1)] * 2
    page = await kept.experiences.page(tenant=ACME, writer=BOB)
    (theirs,) = page.items
    await kept.experiences.erase(ids=(theirs.experience_id,), tenant=ACME, **BY)
    assert (await taken(kept, *lines)).refused == 1


@pytest.mark.requirement("memory.bad-input")
async def test_what_an_index_has_no_room_for_is_refused_at_the_door(
    kept: Store, space: NamespaceId
) -> None:
    await wrote(kept, draft("a", space))
    (line,) = await carried_out(kept)
    read = {**json.loads(line), "experience_id": "exp_b", "call_id": None}
    no_number, endless = "AP4=", "AHw="

    got = await taken(
        kept,
        *(
            json.dumps({**read, **changed}).encode()
            for changed in (
                {"traits": 2**40},
                {"tokens": 2**40},
                {"vector": no_number},
                {"vector": endless},
                {"superseded": ["exp_x", "now", 1]},
            )
        ),
    )

    assert (got.new, got.refused) == (0, 5)
    assert [fault.why for fault in got.faults][2] == "the vector holds what is no number"
