"""Corrections of corrections on each database: of a chain that stands, the latest is found."""

from itertools import permutations

import pytest

from governor.experience.kinds import Standing
from governor.ids import NamespaceId
from memory_store.experiences.values import KeepRule
from memory_store.store import Store
from tests.memory_store.experiences.makers import ACME, BY, NOW, draft, ids, one, standings, wrote

pytestmark = pytest.mark.anyio

CHAIN = "abcd"
ACTIVE, QUARANTINED = Standing.ACTIVE, Standing.QUARANTINED
SUPERSEDED, REVOKED = Standing.SUPERSEDED, Standing.REVOKED


async def chain(store: Store, space: NamespaceId, run: str, *, length: int = 4) -> None:
    """Write corrections of corrections; each is true a little later than the one before."""
    for place, name in enumerate(CHAIN[:length]):
        before = f"{run}{CHAIN[place - 1]}" if place else None
        await wrote(
            store, draft(f"{run}{name}", space, supersedes=before, valid_from_ms=NOW + place)
        )


async def found(store: Store, run: str, names: str) -> str:
    """Return which of the chain are found."""
    stand = await standings(store, *(f"{run}{name}" for name in names))
    return "".join(name for name, standing in zip(names, stand, strict=True) if standing is ACTIVE)


@pytest.mark.requirement("memory.corrections")
async def test_whatever_is_withdrawn_in_whatever_order_the_latest_that_stands_is_found(
    kept: Store, space: NamespaceId
) -> None:
    for number, order in enumerate(list(permutations(CHAIN, 3))[::3]):
        run = f"r{number}"
        await chain(kept, space, run)
        left = CHAIN
        for name in order:
            await kept.experiences.mark(ids(f"{run}{name}"), QUARANTINED, tenant=ACME, **BY)
            left = left.replace(name, "")
            assert await found(kept, run, CHAIN) == left[-1], (order, name, "quarantined")
        for name in order[number % 3 :] + order[: number % 3]:
            await kept.experiences.mark(ids(f"{run}{name}"), ACTIVE, tenant=ACME, **BY)
            left = "".join(sorted(left + name))
            assert await found(kept, run, CHAIN) == left[-1], (order, name, "promoted")
        await kept.experiences.mark(ids(f"{run}{order[0]}"), REVOKED, tenant=ACME, **BY)
        assert await found(kept, run, CHAIN) == left.replace(order[0], "")[-1], (order, "revoked")
        for name in order:
            await kept.experiences.erase(ids=ids(f"{run}{name}"), tenant=ACME, **BY)
            left = left.replace(name, "")
            assert await found(kept, run, left) == left[-1], (order, name, "erased")
    assert (await kept.upkeep.check.look(ACME)).problems == ()


@pytest.mark.requirement("memory.corrections")
async def test_what_is_withdrawn_together_leaves_the_latest_that_stands(
    kept: Store, space: NamespaceId
) -> None:
    for gone in ("bc", "cb", "bd", "acd", "bcd", "cd"):
        for does in ("revoke", "erase"):
            run = f"{gone}{does}"
            await chain(kept, space, run)
            names = ids(*(f"{run}{name}" for name in gone))
            if does == "revoke":
                await kept.experiences.mark(names, REVOKED, tenant=ACME, **BY)
            else:
                await kept.experiences.erase(ids=names, tenant=ACME, **BY)
            left = "".join(name for name in CHAIN if name not in gone)
            assert await found(kept, run, left) == left[-1], run


async def test_what_was_corrected_twice_ends_when_the_correction_that_stands_begins(
    kept: Store, space: NamespaceId
) -> None:
    await chain(kept, space, "t", length=3)

    await kept.experiences.erase(ids=ids("tb"), tenant=ACME, **BY)

    first = await one(kept, "ta")
    assert (first.standing, first.superseded_by) == (SUPERSEDED, ids("tc")[0])
    assert first.valid_until_ms == NOW + 2


@pytest.mark.requirement("memory.corrections")
async def test_a_correction_that_has_had_its_time_brings_no_error_back(
    kept: Store, space: NamespaceId
) -> None:
    await wrote(kept, draft("wrong", space), draft("old", space))
    await wrote(kept, draft("right", space, supersedes="wrong", expires_at_ms=NOW + 1))
    await wrote(kept, draft("newer", space, supersedes="old", learned_at_ms=5))
    rules = (KeepRule(before_ms=100),)

    purged = await kept.retention.purge(before_ms=0, now_ms=NOW + 2, experiences=rules)

    assert purged.experiences == 2
    assert await standings(kept, "wrong", "old") == [SUPERSEDED, SUPERSEDED]
    assert (await kept.upkeep.check.look(ACME)).problems == ()
