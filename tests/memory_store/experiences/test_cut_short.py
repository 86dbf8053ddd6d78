"""Withdrawals that are cut short: the next purge goes on, with the order as it was given."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from governor.experience.kinds import Standing, TrustLane
from governor.ids import NamespaceId, PrincipalId
from memory_store.errors import ExperienceNotFoundError
from memory_store.experiences.values import Changed
from memory_store.experiences.withdrawing import Withdrawal
from memory_store.store import Store
from tests.memory_store.experiences.makers import (
    ACME,
    ADA,
    BOB,
    BY,
    NOW,
    draft,
    ids,
    one,
    standings,
    wrote,
)

pytestmark = pytest.mark.anyio

HOUSE = PrincipalId("house:memory")


async def web(store: Store, space: NamespaceId) -> None:
    """Write what several make of one another, and what is none of it."""
    await wrote(store, draft("a", space), draft("z", space))
    await wrote(store, draft("mine", space, made_of=("a", "z")))
    await wrote(store, draft("his", space, writer=BOB, made_of=("mine",)))
    await wrote(store, draft("ours", space, writer=HOUSE, made_of=("mine", "z")))
    operator = draft("rule", space, writer=BOB, lane=TrustLane.OPERATOR, made_of=("mine",))
    await wrote(store, operator, draft("deep", space, made_of=("his", "ours")))


async def cut(
    monkeypatch: pytest.MonkeyPatch, name: str, work: Callable[[], Awaitable[Changed]]
) -> None:
    """Do `work` until its second step, in which its caller goes away."""

    async def gone(*_arguments: object, **_named: object) -> None:
        raise asyncio.CancelledError

    with monkeypatch.context() as patched:
        patched.setattr(Withdrawal, name, gone)
        with pytest.raises(asyncio.CancelledError):
            await work()


async def told(store: Store) -> set[str]:
    return {problem.what for problem in (await store.upkeep.check.look(ACME)).problems}


async def left(store: Store, *names: str) -> dict[str, str]:
    """Return where those stand that are there."""
    found = {}
    for name in names:
        try:
            found[name] = (await one(store, name)).standing.value
        except ExperienceNotFoundError:
            continue
    return found


ALL = ("a", "z", "mine", "his", "ours", "rule", "deep")


@pytest.mark.requirement("memory.cut-short")
async def test_an_erasure_of_ones_own_that_is_cut_short_spares_what_is_others(
    kept: Store, space: NamespaceId, monkeypatch: pytest.MonkeyPatch
) -> None:
    await web(kept, space)

    await cut(
        monkeypatch,
        "_erase_all",
        lambda: kept.experiences.erase(ids=ids("a"), tenant=ACME, only_of=ADA, **BY),
    )
    noticed = await told(kept)
    await kept.retention.purge(before_ms=0, now_ms=NOW)

    assert noticed == {"what it was made of is withdrawn; the next purge goes on with it"}
    # What was made of what is put aside is not gone either.
    assert await left(kept, *ALL) == {
        "z": "active",
        "his": "quarantined",
        "rule": "active",
    }
    assert await told(kept) == set()


@pytest.mark.requirement("memory.cut-short")
async def test_an_erasure_that_is_cut_short_is_finished(
    kept: Store, space: NamespaceId, monkeypatch: pytest.MonkeyPatch
) -> None:
    await web(kept, space)

    await cut(
        monkeypatch,
        "_erase_all",
        lambda: kept.experiences.erase(ids=ids("a"), tenant=ACME, **BY),
    )
    await kept.retention.purge(before_ms=0, now_ms=NOW)

    assert await left(kept, *ALL) == {"z": "active"}
    (last, *_) = (await kept.experiences.log_since(ACME, number=0))[::-1]
    assert (last.by, last.why, last.at_ms) == ("root", "asked for", NOW + 5)


@pytest.mark.requirement("memory.cut-short")
async def test_a_revocation_that_is_cut_short_is_finished(
    kept: Store, space: NamespaceId, monkeypatch: pytest.MonkeyPatch
) -> None:
    await web(kept, space)

    await cut(
        monkeypatch,
        "_revoke_all",
        lambda: kept.experiences.mark(ids("a"), Standing.REVOKED, tenant=ACME, **BY),
    )
    before = await standings(kept, "a", "mine", "deep")
    await kept.retention.purge(before_ms=0, now_ms=NOW)

    active, revoked = Standing.ACTIVE, Standing.REVOKED
    assert before == [revoked, active, active]
    assert await standings(kept, *ALL) == [revoked, active, *[revoked] * 5]
    assert await told(kept) == set()


@pytest.mark.requirement("memory.cut-short")
@pytest.mark.parametrize("how", ["erase", "revoke"])
async def test_a_caller_who_goes_away_leaves_nothing_readable_of_what_is_withdrawn(
    kept: Store, space: NamespaceId, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    await web(kept, space)
    made = getattr(Withdrawal, f"_{how}")

    with anyio.fail_after(60), anyio.CancelScope() as scope:

        async def step(self: Withdrawal, *asked: Any, **named: Any) -> object:
            scope.cancel()
            found: object = await made(self, *asked, **named)
            return found

        monkeypatch.setattr(Withdrawal, f"_{how}", step)
        if how == "erase":
            await kept.experiences.erase(ids=ids("a"), tenant=ACME, **BY)
        else:
            await kept.experiences.mark(ids("a"), Standing.REVOKED, tenant=ACME, **BY)
        await anyio.lowlevel.checkpoint()

    assert scope.cancelled_caught
    assert [name for name, at in (await left(kept, *ALL)).items() if at == "active"] == ["z"]


async def test_what_is_put_aside_stays_tied_to_what_else_it_was_made_of(
    kept: Store, space: NamespaceId
) -> None:
    await wrote(kept, draft("a", space), draft("b", space))
    await wrote(kept, draft("his", space, writer=BOB, made_of=("a", "b")))

    await kept.experiences.erase(ids=ids("a"), tenant=ACME, only_of=ADA, **BY)
    put_aside = await left(kept, "his")
    await kept.experiences.erase(ids=ids("b"), tenant=ACME, **BY)

    assert put_aside == {"his": "quarantined"}
    assert await left(kept, "a", "b", "his") == {}
