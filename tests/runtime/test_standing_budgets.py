"""A budget of the file that is not in force, or binds nobody, is told at the start."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from governor.amounts import Amounts, Unit
from governor.budget import Budget, Mode
from governor.ids import BudgetId
from governor.scope import ScopeKind
from governor.window import Fixed, Lifetime
from memory_store.audit import Actor
from memory_store.engine import Durability
from memory_store.glancing import glance_at_store
from memory_store.store import Store, open_store
from runtime.first_start import prepare
from runtime.standing_budgets import doubts_about, names_in
from runtime.token_files import AGENT, TENANT

pytestmark = pytest.mark.anyio

NOW_MS = 1_700_000_000_000
ROOT = Actor(name="root")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(tmp_path, durability=Durability.PROCESS) as opened:
        yield opened


def a_budget(scope: ScopeKind = ScopeKind.AGENT, subject: str | None = None) -> Budget:
    return Budget(
        budget_id=BudgetId("b"),
        tenant=TENANT,
        scope=scope,
        subject=subject,
        limits=Amounts({Unit.TOOL_CALLS: 5}),
        window=Lifetime(),
    )


async def started(store: Store, state: Path, budget: Budget) -> None:
    await prepare(store, state_dir=state, budgets=(budget,), now_ms=NOW_MS)


async def told(store: Store, budget: Budget) -> list[str]:
    found = await store.glance(names_in([budget]))
    return [doubt.told for doubt in doubts_about([budget], found)]


async def test_a_budget_as_it_was_made_raises_no_doubt(store: Store, tmp_path: Path) -> None:
    budget = a_budget(subject=AGENT)

    await started(store, tmp_path, budget)

    assert await told(store, budget) == []


async def test_what_the_file_says_anew_of_a_budget_is_named(store: Store, tmp_path: Path) -> None:
    await started(store, tmp_path, a_budget())
    changed = replace(
        a_budget(),
        limits=Amounts({Unit.TOOL_CALLS: 9}),
        window=Fixed(60_000),
        mode=Mode.OBSERVE,
    )

    await started(store, tmp_path, changed)

    (said,) = await told(store, changed)
    assert said.startswith("what the file says of its limits, window, mode is not in force: ")
    assert "PUT /admin/v1/budgets/b" in said


async def test_a_retired_budget_does_not_come_back_in_silence(store: Store, tmp_path: Path) -> None:
    await started(store, tmp_path, a_budget())
    await store.budgets.delete(BudgetId("b"), by=ROOT, now_ms=NOW_MS)

    (said,) = await told(store, a_budget())

    assert said.startswith("was retired")


@pytest.mark.parametrize("scope", [ScopeKind.AGENT, ScopeKind.SESSION])
async def test_a_budget_for_nobody_is_told(store: Store, tmp_path: Path, scope: ScopeKind) -> None:
    budget = a_budget(scope, "ses_nosuch")

    await started(store, tmp_path, budget)

    (said,) = await told(store, budget)
    assert said.startswith("it guards nothing yet: 'ses_nosuch' is no ")


def test_before_the_first_start_there_is_one_agent() -> None:
    assert list(doubts_about([a_budget(subject=AGENT)], None)) == []

    (doubt,) = doubts_about([a_budget(subject="agnet")], None)
    assert "'agnet' is no principal" in doubt.told


async def test_a_store_is_read_beside_the_sidecar_that_uses_it(
    store: Store, tmp_path: Path
) -> None:
    await started(store, tmp_path, a_budget())

    found = glance_at_store(tmp_path, names_in([a_budget(subject=AGENT)]), url=None)

    assert found is not None
    assert (set(found.budgets), set(found.principals)) == ({"b"}, {AGENT})


async def test_a_store_is_read_after_its_sidecar_has_gone(tmp_path: Path) -> None:
    async with open_store(tmp_path, durability=Durability.PROCESS) as store:
        await started(store, tmp_path, a_budget())

    found = glance_at_store(tmp_path, names_in([a_budget()]), url=None)

    assert found is not None
    assert set(found.budgets) == {"b"}


def test_where_there_is_no_store_nothing_is_made(tmp_path: Path) -> None:
    assert glance_at_store(tmp_path, names_in([a_budget()]), url=None) is None
    assert list(tmp_path.iterdir()) == []
