import pytest
from contracts.builders import COST, TENANT, budget, request

from governor.amounts import Amounts, Unit
from governor.denial import Denied
from governor.errors import InvalidBudgetError
from governor.events import Reserved
from governor.ids import BudgetId, TenantId
from governor.window import Fixed
from memory_store.audit import Actor
from memory_store.budget_rows import WINDOW_SECONDS_MAX
from memory_store.errors import (
    AboveQuotaError,
    AlreadyExistsError,
    NotABudgetError,
    NotFoundError,
    VersionConflictError,
)
from memory_store.store import Store

pytestmark = pytest.mark.anyio

ADMIN = Actor(name="root")


async def _quota(store: Store, cost: int) -> None:
    await store.budgets.put_quota(TENANT, limits=Amounts({COST: cost}), by=ADMIN, now_ms=1)


async def test_a_budget_is_stored_as_it_was_given(store: Store) -> None:
    given = budget({COST: 10, Unit.TURNS: 3}, window=Fixed(60_000), subject=TENANT)

    created = await store.budgets.create(given, by=ADMIN, now_ms=7)

    assert created.budget == given
    assert (created.version, created.created_at_ms) == (1, 7)
    assert await store.budgets.get(given.budget_id) == created


async def test_a_change_governs_the_next_admission(store: Store) -> None:
    await store.budgets.create(budget({COST: 10}), by=ADMIN, now_ms=1)
    before = await store.ledger.admit(request({COST: 20}))

    changed = await store.budgets.put(budget({COST: 20}), expected_version=1, by=ADMIN, now_ms=2)

    assert isinstance(before, Denied)
    assert changed.version == 2
    assert isinstance(await store.ledger.admit(request({COST: 20})), Reserved)


async def test_a_change_for_an_older_version_is_refused(store: Store) -> None:
    await store.budgets.create(budget({COST: 10}), by=ADMIN, now_ms=1)
    await store.budgets.put(budget({COST: 20}), expected_version=1, by=ADMIN, now_ms=2)

    with pytest.raises(VersionConflictError):
        await store.budgets.put(budget({COST: 30}), expected_version=1, by=ADMIN, now_ms=3)
    with pytest.raises(VersionConflictError):
        await store.budgets.delete(BudgetId("b1"), expected_version=1, by=ADMIN, now_ms=3)


async def test_a_budget_above_the_quota_is_refused_with_the_figures(store: Store) -> None:
    await _quota(store, 100)

    with pytest.raises(AboveQuotaError) as above:
        await store.budgets.create(budget({COST: 101}), by=ADMIN, now_ms=2)

    assert (above.value.unit, above.value.limit, above.value.quota) == (COST, 101, 100)
    with pytest.raises(NotFoundError):
        await store.budgets.get(BudgetId("b1"))


async def test_a_budget_may_reach_the_quota_and_limit_what_it_does_not(store: Store) -> None:
    await _quota(store, 100)

    created = await store.budgets.create(budget({COST: 100, Unit.TURNS: 10**6}), by=ADMIN, now_ms=2)

    assert created.version == 1


async def test_a_quota_is_not_written_as_a_budget(store: Store) -> None:
    await _quota(store, 100)
    quota = (await store.budgets.get_quota(TENANT)).budget

    with pytest.raises(NotABudgetError):
        await store.budgets.put(quota, expected_version=None, by=ADMIN, now_ms=2)
    with pytest.raises(NotABudgetError):
        await store.budgets.delete(quota.budget_id, by=ADMIN, now_ms=2)


async def test_a_quota_can_be_lowered_below_the_budgets_and_then_rules(store: Store) -> None:
    await store.budgets.create(budget({COST: 100}), by=ADMIN, now_ms=1)

    await _quota(store, 50)

    decision = await store.ledger.admit(request({COST: 60}))
    assert isinstance(decision, Denied)
    assert decision.shortage is not None
    assert decision.shortage.budget_id == "quota:acme"


async def test_the_id_of_a_retired_budget_is_not_given_again(store: Store) -> None:
    await store.budgets.create(budget({COST: 10}), by=ADMIN, now_ms=1)
    await store.budgets.delete(BudgetId("b1"), by=ADMIN, now_ms=2)

    with pytest.raises(NotFoundError):
        await store.budgets.get(BudgetId("b1"))
    with pytest.raises(AlreadyExistsError):
        await store.budgets.create(budget({COST: 10}), by=ADMIN, now_ms=3)
    with pytest.raises(AlreadyExistsError):
        await store.budgets.put(budget({COST: 10}), expected_version=None, by=ADMIN, now_ms=3)
    assert (await store.budgets.page()).items == ()
    assert len((await store.budgets.page(with_retired=True)).items) == 1


async def test_the_budget_of_another_tenant_is_not_taken_over(store: Store) -> None:
    await store.tenants.create(TenantId("globex"), name="Globex", by=ADMIN, now_ms=1)
    await store.budgets.create(budget({COST: 10}), by=ADMIN, now_ms=1)

    with pytest.raises(AlreadyExistsError):
        await store.budgets.put(
            budget({COST: 10}, tenant="globex"), expected_version=None, by=ADMIN, now_ms=2
        )


async def test_a_budget_needs_its_tenant(store: Store) -> None:
    with pytest.raises(NotFoundError):
        await store.budgets.create(budget({COST: 1}, tenant="none"), by=ADMIN, now_ms=1)


async def test_a_change_of_something_that_is_not_there_is_an_error(store: Store) -> None:
    with pytest.raises(NotFoundError):
        await store.budgets.put(budget({COST: 1}), expected_version=3, by=ADMIN, now_ms=1)
    with pytest.raises(NotFoundError):
        await store.budgets.delete(BudgetId("b1"), by=ADMIN, now_ms=1)
    with pytest.raises(NotFoundError):
        await store.budgets.get_quota(TENANT)


async def test_budgets_are_paged_in_order(store: Store) -> None:
    for number in range(7):
        await store.budgets.create(budget({COST: 1}, budget_id=f"b{number}"), by=ADMIN, now_ms=1)

    found = []
    cursor = None
    while True:
        page = await store.budgets.page(tenant=TENANT, cursor=cursor, limit=3)
        found.append([view.budget.budget_id for view in page.items])
        cursor = page.next
        if cursor is None:
            break

    assert found == [["b0", "b1", "b2"], ["b3", "b4", "b5"], ["b6"]]


@pytest.mark.parametrize("seconds", [WINDOW_SECONDS_MAX + 1, 2**62])
async def test_a_window_that_outlives_everybody_is_refused(store: Store, seconds: int) -> None:
    endless = budget({COST: 1}, window=Fixed(seconds * 1000))

    for refused in (
        store.budgets.create(endless, by=ADMIN, now_ms=1),
        store.budgets.put(endless, expected_version=None, by=ADMIN, now_ms=1),
        store.budgets.put_quota(
            TENANT, limits=endless.limits, window=endless.window, by=ADMIN, now_ms=1
        ),
    ):
        with pytest.raises(InvalidBudgetError, match=r"^window\.every_s: "):
            await refused

    assert (await store.budgets.page()).items == ()


async def test_a_window_of_ten_years_is_kept(store: Store) -> None:
    longest = budget({COST: 1}, window=Fixed(WINDOW_SECONDS_MAX * 1000))

    view = await store.budgets.create(longest, by=ADMIN, now_ms=1)

    assert view.budget == longest
