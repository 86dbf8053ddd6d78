from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.account import BalanceKey
from governor.amounts import NOTHING, Amounts, Unit
from governor.budget import Budget, accounts_for
from governor.errors import InvalidBudgetError
from governor.ids import BudgetId, PrincipalId, SessionId, TenantId
from governor.scope import Scope, ScopeChain, ScopeKind
from governor.target import TargetMatch
from governor.window import Lifetime
from tests.governor.makers import CHAIN, FIXED_HOUR, TARGET, TENANT, balance, budget

BUDGET_SCOPES = (ScopeKind.TENANT, ScopeKind.AGENT, ScopeKind.SESSION)


def keys_for(budgets: Iterable[Budget], chain: ScopeChain, now_ms: int) -> list[BalanceKey]:
    return [account.key for account in accounts_for(budgets, chain, TARGET, now_ms)]


def test_a_chain_runs_from_the_tenant_down_to_the_session() -> None:
    assert tuple(CHAIN) == (
        Scope(kind=ScopeKind.TENANT, subject="acme"),
        Scope(kind=ScopeKind.AGENT, subject="ada"),
        Scope(kind=ScopeKind.SESSION, subject="ada/one"),
    )
    assert all(CHAIN.subject_of(scope.kind) == scope.subject for scope in CHAIN)


def test_a_budget_that_limits_nothing_is_refused() -> None:
    with pytest.raises(InvalidBudgetError, match="limits"):
        Budget(
            budget_id=BudgetId("empty"),
            tenant=TENANT,
            scope=ScopeKind.TENANT,
            subject=None,
            limits=NOTHING,
            window=Lifetime(),
        )


def test_turns_of_some_calls_alone_cannot_be_counted() -> None:
    with pytest.raises(InvalidBudgetError, match=r"limits\.turns"):
        Budget(
            budget_id=BudgetId("some"),
            tenant=TENANT,
            scope=ScopeKind.TENANT,
            subject=None,
            limits=Amounts({Unit.TURNS: 3}),
            window=Lifetime(),
            match=TargetMatch(tool="git__*"),
        )


def test_a_tenant_budget_for_someone_else_is_refused() -> None:
    with pytest.raises(InvalidBudgetError, match="subject"):
        budget(scope=ScopeKind.TENANT, subject="globex")


@pytest.mark.parametrize(
    ("scope", "subject", "governs"),
    [
        (ScopeKind.TENANT, None, True),
        (ScopeKind.TENANT, "acme", True),
        (ScopeKind.AGENT, None, True),
        (ScopeKind.AGENT, "ada", True),
        (ScopeKind.AGENT, "bob", False),
        (ScopeKind.AGENT, "acme", False),
        (ScopeKind.SESSION, None, True),
        (ScopeKind.SESSION, "ada/one", True),
        (ScopeKind.SESSION, "ada/two", False),
    ],
)
def test_a_budget_governs_its_subject_or_each_of_its_kind(
    scope: ScopeKind, subject: str | None, *, governs: bool
) -> None:
    assert budget(scope=scope, subject=subject).governs(CHAIN) is governs


def test_a_budget_never_governs_another_tenant() -> None:
    stranger = budget(tenant=TenantId("globex"), scope=ScopeKind.AGENT)

    assert not stranger.governs(CHAIN)


def test_a_budget_of_each_agent_keeps_one_account_per_agent() -> None:
    each = budget("each", scope=ScopeKind.AGENT)
    bob = ScopeChain(tenant=TENANT, agent=PrincipalId("bob"), session=SessionId("bob/one"))

    (ours,), (theirs,) = keys_for([each], CHAIN, 0), keys_for([each], bob, 0)

    assert (ours.subject, theirs.subject) == ("ada", "bob")


def test_accounts_open_at_the_start_of_their_own_window() -> None:
    hourly = budget("hourly", window=FIXED_HOUR)
    forever = budget("forever")

    keys = keys_for([hourly, forever], CHAIN, FIXED_HOUR.length_ms + 5)

    assert {key.budget_id: key.window_start_ms for key in keys} == {
        "hourly": FIXED_HOUR.length_ms,
        "forever": 0,
    }


@given(st.permutations([(name, scope) for name in "abc" for scope in BUDGET_SCOPES]))
def test_accounts_come_in_one_order_however_the_budgets_do(
    order: list[tuple[str, ScopeKind]],
) -> None:
    """Two reservations that lock in one order can never wait for each other."""
    budgets = [
        budget(f"{name}-{scope}", scope=scope, turns=1, tool_calls=1, cost_microusd=1)
        for name, scope in order
    ]

    keys = keys_for(budgets, CHAIN, 0)

    in_order = [(key.budget_id, key.subject, key.unit) for key in keys]
    assert in_order == sorted(in_order)
    assert len(keys) == len(order) * 3


@given(
    limit=st.integers(0, 100),
    settled=st.integers(0, 120),
    reserved=st.integers(0, 100),
    amount=st.integers(0, 120),
)
def test_a_balance_affords_exactly_what_remains(
    limit: int, settled: int, reserved: int, amount: int
) -> None:
    account = balance(limit=limit, settled=settled, reserved=reserved)

    assert account.affords(amount, 0) is (settled + reserved + amount <= limit)
    assert account.remaining == limit - settled - reserved
