"""Which budgets random histories are given, and how an administrator would set them."""

from hypothesis import strategies as st
from proof.reference_rules import Kind, Rule
from proof.values import budget_of, units_of

from governor.budget import Budget, BudgetKind
from governor.scope import ScopeKind
from governor.window import Fixed, Lifetime, Sliding, Window

_level = st.integers(0, 2)
_units = st.sampled_from(["cost_microusd", "cost_microusd", "tool_calls", "turns"])
# What stands beside the plain allowances, which every history has.
OTHERS = st.one_of(
    st.builds(
        Rule,
        level=_level,
        limits=st.dictionaries(_units, st.integers(3, 40), min_size=1),
        kind=st.just(Kind.RATE),
        window_ms=st.sampled_from([70, 200, 400]),
        burst=st.none() | st.integers(1, 40),
    ),
    st.builds(
        Rule,
        level=_level,
        limits=st.fixed_dictionaries({"tool_calls": st.integers(1, 4)}),
        kind=st.just(Kind.SLOTS),
    ),
    st.builds(
        Rule,
        level=_level,
        limits=st.dictionaries(_units, st.integers(1, 20), min_size=1),
        window_ms=st.sampled_from([60, 120, 600]),
        parts=st.integers(1, 4),
    ),
)

_SCOPES = (ScopeKind.TENANT, ScopeKind.AGENT, ScopeKind.SESSION)
_KINDS = {
    Kind.ALLOWANCE: BudgetKind.ALLOWANCE,
    Kind.RATE: BudgetKind.RATE,
    Kind.SLOTS: BudgetKind.CONCURRENCY,
}


def as_set(rule: Rule, name: str, tenant: str) -> Budget:
    """Return the budget that the ledger is to know for `rule`."""
    return budget_of(
        name,
        tenant,
        _SCOPES[rule.level],
        units_of(rule.limits),
        window=_window(rule),
        kind=_KINDS[rule.kind],
        burst=rule.burst,
    )


def _window(rule: Rule) -> Window:
    if rule.window_ms is None:
        return Lifetime()
    if rule.parts is None:
        return Fixed(rule.window_ms)
    return Sliding(length_ms=rule.window_ms, buckets=rule.parts)
