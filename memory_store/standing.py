"""How the budgets of a tenant stand, for people and for agents who ask."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain as one_after_another
from itertools import islice

from sqlalchemy import Connection, collate, func, select

from governor.account import BalanceKey, carve_budget
from governor.amounts import Unit
from governor.budget import Budget, BudgetKind
from governor.ids import BudgetId, PrincipalId, SessionId, TenantId
from governor.rate import Rate
from governor.scope import ScopeKind
from governor.window import Fixed, Lifetime
from memory_store.accounts import BalanceView
from memory_store.engine import is_shared
from memory_store.live_budgets import live_budgets
from memory_store.tables import balances, sessions

# One answer is for a page on a screen or a model's context, not for an export.
BALANCES_MAX = 1_000

# The widest scopes first: they are few, and stand for everybody.
RANKS = {kind: rank for rank, kind in enumerate(ScopeKind)}

# (subject, unit) -> settled, reserved, overrun
Used = Mapping[tuple[str, Unit], tuple[int, int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """How far a listing of balances came: `shown` units of one subject of one budget.

    Of sub-sessions, whose allowances are no budgets of their own, `shown` is of them all.
    """

    rank: int
    budget_id: str
    subject: str
    shown: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Which balances of a tenant are wanted: those of a scope, of a budget, after a place."""

    scope: ScopeKind | None = None
    budget_id: BudgetId | None = None
    after: Place | None = None
    limit: int = BALANCES_MAX

    def of(self, budgets: Sequence[Budget]) -> list[Budget]:
        """Return those of `budgets` that may be shown, the widest scopes first."""
        after = None if self.after is None else (self.after.rank, self.after.budget_id)
        return sorted(
            (
                budget
                for budget in budgets
                if self.budget_id in (None, budget.budget_id)
                and self.scope in (None, budget.scope)
                and (after is None or _order(budget) >= after)
            ),
            key=_order,
        )

    @property
    def carved_shown(self) -> int:
        """Return how many of the allowances of sub-sessions were shown; they come last."""
        if self.after is None or self.after.rank != RANKS[ScopeKind.SUB_SESSION]:
            return 0
        return self.after.shown

    def subjects_from(self, budget: Budget) -> str:
        """Return the first subject of a budget that may be shown."""
        after = self.after
        if after is None or _order(budget) != (after.rank, after.budget_id):
            return ""
        return after.subject

    def units_after(self, budget: Budget, subject: str) -> int:
        """Return how many units of a subject were shown before."""
        after = self.after
        if after is None or subject != self.subjects_from(budget):
            return 0
        return after.shown


WHOLE = Part()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """For whom the budgets are shown.

    `session` is the first of `chain`, which goes down to the session that asks.
    `own` are all sessions of `agent`.
    """

    agent: PrincipalId | None
    session: SessionId | None
    chain: Sequence[SessionId] = ()
    own: Collection[str] | None = None


def standing_balances(
    connection: Connection,
    *,
    tenant: TenantId,
    agent: PrincipalId | None,
    session: SessionId | None,
    now_ms: int,
    part: Part = WHOLE,
) -> tuple[BalanceView, ...]:
    """Return how the live budgets of `tenant` stand, as many as `part` says."""
    chain = () if session is None else _chain_of(connection, session)
    asked = Asked(
        agent=agent,
        session=chain[0] if chain else session,
        chain=chain,
        own=None if agent is None else _sessions_of(connection, agent),
    )
    shown = views(
        live_budgets(connection, tenant),
        lambda budget, starts: _used(
            connection,
            budget,
            starts,
            part.subjects_from(budget),
            among=_only(budget, asked),
            # One of them may have been shown in part.
            subjects_max=part.limit + 1,
        ),
        asked,
        now_ms,
        part,
    )
    carved = (
        view
        for sub_session in chain[1:]
        for view in _carve_views(connection, sub_session)
        if part.scope in (None, view.scope) and part.budget_id in (None, view.budget_id)
    )
    rest = islice(carved, part.carved_shown, None)
    return tuple(islice(one_after_another(shown, rest), part.limit))


def standing_of_sessions(
    connection: Connection, tenant: TenantId, wanted: Collection[SessionId], *, now_ms: int
) -> Iterator[BalanceView]:
    """Yield how the budgets of sessions stand for each that is wanted."""
    for budget in live_budgets(connection, tenant) if wanted else ():
        if budget.scope is not ScopeKind.SESSION:
            continue
        used = _counting(
            budget,
            lambda budget, starts: _used(connection, budget, starts, "", among=wanted),
            now_ms,
        )
        for session in sorted(wanted):
            if budget.subject in (None, session):
                yield from views_of(budget, session, used, now_ms)


def views(
    budgets: Sequence[Budget],
    used_by: Callable[[Budget, Collection[int]], Used],
    asked: Asked,
    now_ms: int,
    part: Part = WHOLE,
) -> Iterator[BalanceView]:
    """Yield how each of `budgets` stands; `used_by` adds up its accounts in some windows."""
    for budget in part.of(budgets):
        used = _counting(budget, used_by, now_ms)
        first = part.subjects_from(budget)
        for subject in subjects_shown(budget, used, asked):
            if subject >= first:
                own = views_of(budget, subject, used, now_ms)
                yield from islice(own, part.units_after(budget, subject), None)


def _order(budget: Budget) -> tuple[int, str]:
    return RANKS[budget.scope], budget.budget_id


def _counting(
    budget: Budget, used_by: Callable[[Budget, Collection[int]], Used], now_ms: int
) -> Used:
    """Return what counts at `now_ms`; each unit of a rate has a scale of its own."""
    units_by_starts: dict[tuple[int, ...], set[Unit]] = {}
    for unit, _ in budget.limits:
        units_by_starts.setdefault(budget.starts_ms(unit, now_ms), set()).add(unit)
    return {
        place: amounts
        for starts, units in units_by_starts.items()
        for place, amounts in used_by(budget, starts).items()
        if place[1] in units
    }


def _only(budget: Budget, asked: Asked) -> Collection[str] | None:
    """Return who can be shown at all for `budget`, None where that is whoever has used it."""
    if budget.subject is not None:
        return (budget.subject,)
    wanted = _wanted(budget, asked)
    if wanted is not None:
        return (wanted,)
    return asked.own if budget.scope is ScopeKind.SESSION else None


def _wanted(budget: Budget, asked: Asked) -> str | None:
    """Return for whom of the budget's scope it is asked, None for all."""
    return {
        ScopeKind.TENANT: budget.tenant,
        ScopeKind.AGENT: asked.agent,
        ScopeKind.SESSION: asked.session,
    }[budget.scope]


def subjects_shown(budget: Budget, used: Used, asked: Asked) -> tuple[str, ...]:
    """Return for whom `budget` is shown."""
    if budget.scope is ScopeKind.SESSION and budget.subject in asked.chain:
        return (str(budget.subject),)
    wanted = _wanted(budget, asked)
    if wanted is not None:
        return (wanted,) if budget.subject in (None, wanted) else ()
    found = {subject for subject, _ in used} if budget.subject is None else {budget.subject}
    if budget.scope is ScopeKind.SESSION and asked.own is not None:
        found &= set(asked.own)
    return tuple(sorted(found))


def views_of(budget: Budget, subject: str, used: Used, now_ms: int) -> Iterator[BalanceView]:
    """Yield how each unit of `budget` stands for `subject`."""
    for unit, limit in budget.limits:
        settled, reserved, overrun = used.get((subject, unit), (0, 0, 0))
        rate = None
        if budget.kind is BudgetKind.RATE:
            assert isinstance(budget.window, Fixed), "a rate has a fixed window"
            burst = budget.burst or limit
            rate = Rate(limit=limit, every_ms=budget.window.length_ms, burst=burst)
            settled = burst - rate.level(settled, now_ms)
        yield BalanceView(
            budget_id=budget.budget_id,
            scope=budget.scope,
            subject=subject,
            unit=unit,
            limit=limit,
            used=settled,
            reserved=reserved,
            overrun=overrun,
            window=budget.window,
            resets_at_ms=(
                None if budget.kind is BudgetKind.RATE else budget.window.resets_at_ms(now_ms)
            ),
            is_quota=budget.is_quota,
            kind=budget.kind,
            mode=budget.mode,
            every_ms=None if rate is None else rate.every_ms,
            burst=None if rate is None else rate.burst,
        )


def carve_view(key: BalanceKey, limit: int, amounts: tuple[int, int, int]) -> BalanceView:
    """Return how one unit of a sub-session's allowance stands."""
    settled, reserved, overrun = amounts
    return BalanceView(
        budget_id=key.budget_id,
        scope=ScopeKind.SUB_SESSION,
        subject=key.subject,
        unit=key.unit,
        limit=limit,
        used=settled,
        reserved=reserved,
        overrun=overrun,
        window=Lifetime(),
        resets_at_ms=None,
        is_quota=False,
    )


def _carve_views(connection: Connection, session: SessionId) -> Iterator[BalanceView]:
    text = connection.scalar(select(sessions.c.carve).where(sessions.c.session_id == session))
    rows = connection.execute(
        select(balances.c.unit, balances.c.settled, balances.c.reserved, balances.c.overrun).where(
            balances.c.budget_id == carve_budget(session)
        )
    )
    used = {Unit(unit): (settled, reserved, over) for unit, settled, reserved, over in rows}
    for name, limit in json.loads(text or "{}").items():
        key = BalanceKey(carve_budget(session), session, Unit(name), 0)
        yield carve_view(key, limit, used.get(Unit(name), (0, 0, 0)))


def _chain_of(connection: Connection, session: SessionId) -> tuple[SessionId, ...]:
    """Return the session and those above it, the first one first."""
    chain = [session]
    while True:
        parent = connection.scalar(
            select(sessions.c.parent).where(sessions.c.session_id == chain[0])
        )
        if parent is None or parent in chain:
            return tuple(chain)
        chain.insert(0, SessionId(parent))


def _sessions_of(connection: Connection, agent: PrincipalId) -> frozenset[str]:
    """Return the sessions of `agent`, the latest of them if there are very many."""
    return frozenset(
        connection.scalars(
            select(sessions.c.session_id)
            .where(sessions.c.agent == agent)
            .order_by(sessions.c.last_seen_at_ms.desc())
            .limit(BALANCES_MAX)
        )
    )


def _used(
    connection: Connection,
    budget: Budget,
    starts: Collection[int],
    first: str,
    *,
    among: Collection[str] | None = None,
    subjects_max: int = BALANCES_MAX,
) -> Used:
    """Return what `budget` has in the windows that began at `starts`, account by account.

    The accounts are those of subjects from `first` on, in the order in which they are listed,
    and of those in `among` alone where it is given: of `subjects_max` of them at the least,
    where there are so many.
    """
    units = [unit for unit, _ in budget.limits]
    # As Python compares, whatever the language of the database is.
    is_c = is_shared(connection)
    subject = collate(balances.c.subject, "C") if is_c else balances.c.subject
    rows = connection.execute(
        select(
            balances.c.subject,
            balances.c.unit,
            func.sum(balances.c.settled),
            func.sum(balances.c.reserved),
            func.sum(balances.c.overrun),
        )
        .where(
            balances.c.budget_id == budget.budget_id,
            balances.c.window_start_ms.in_(starts),
            balances.c.unit.in_(units),
            subject >= first,
            *(() if among is None else (balances.c.subject.in_(among),)),
        )
        .group_by(balances.c.subject, balances.c.unit)
        .order_by(subject)
        .limit(subjects_max * len(units))
    )
    return {
        (subject, Unit(unit)): (int(settled), int(reserved), int(overrun))
        for subject, unit, settled, reserved, overrun in rows
    }
