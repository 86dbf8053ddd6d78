"""The facts as they stand in the store's tables: the one place here that knows the tables."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from proof.facts import Entry, Facts, Hold, Key, Moved, Standing
from sqlalchemy import Connection, select, text

from memory_store.store import Store
from memory_store.tables import balances, budgets, calls, journal, reservations, sessions

_NO_HASH = "0" * 64
_CARVE = "sub_session"
# What stands behind a line's numbers: a rate, or what is drawn from a carve.
_RATE, _DRAW = "r", "d"


async def read_facts(store: Store, tenant: str | None = None) -> Facts:
    return await store.reader.run(lambda connection: facts_in(connection, tenant))


def facts_in(connection: Connection, tenant: str | None = None) -> Facts:
    """Return the books in one snapshot, or those of one tenant.

    What is written in them is parsed here, not by the code that wrote it.
    """
    held, booked = select(reservations), select(journal).order_by(journal.c.seq)
    standing = select(balances)
    if tenant is not None:
        held = held.where(reservations.c.tenant == tenant)
        booked = booked.where(journal.c.tenant == tenant)
        of_tenant = select(budgets.c.budget_id).where(budgets.c.tenant == tenant)
        standing = standing.where(balances.c.budget_id.in_(of_tenant))
    elif connection.dialect.name == "sqlite":
        assert connection.execute(text("PRAGMA foreign_key_check")).all() == []
    rows = connection.execute(standing).mappings().all()
    keys = {
        row["account_id"]: Key(
            row["budget_id"], row["subject"], row["unit"], row["window_start_ms"]
        )
        for row in rows
    }
    holds = [_hold(row, keys) for row in connection.execute(held).mappings()]
    rates: set[Key] = set()
    entries: list[Entry] = []
    broken: list[str] = []
    numbers: dict[str, list[int]] = {}
    heads: dict[str, str] = {}
    for row in connection.execute(booked).mappings():
        whose, number = row["tenant"], row["number"]
        numbers.setdefault(whose, []).append(number)
        before = heads.get(whose, _NO_HASH)
        linked = f"{before}\n{whose}\n{number}\n{row['at_ms']}\n{row['entries']}"
        if hashlib.sha256(linked.encode()).hexdigest() != row["hash"]:
            broken.append(f"{whose} {number}")
        heads[whose] = row["hash"]
        entries += [_entry(line, keys, rates) for line in row["entries"].split("\n")]
    return Facts(
        accounts={
            keys[row["account_id"]]: Standing(row["settled"], row["reserved"], row["overrun"])
            for row in rows
        },
        holds=holds,
        entries=entries,
        numbers=numbers,
        broken_links=broken,
        unrecorded=list(_unrecorded(connection, tenant)),
        has_no_fold=frozenset(rates),
        parents=_parents(connection),
    )


def _hold(row: Mapping[str, Any], keys: dict[int, Key]) -> Hold:
    lines = []
    for part in row["lines"].split():
        account, amount, *suffix = part.split(":")
        if not suffix or suffix[0][0] not in (_RATE, _DRAW):
            lines.append((keys[int(account)], int(amount)))
    return Hold(
        reservation_id=row["reservation_id"],
        state=row["state"],
        expires_at_ms=row["expires_at_ms"],
        agent=row["agent"],
        key=row["idempotency_key"],
        is_carve=row["kind"] == _CARVE,
        lines=tuple(lines),
    )


def _entry(line: str, keys: dict[int, Key], rates: set[Key]) -> Entry:
    kind, reservation_id, *parts = line.split(" ")
    moves = []
    for part in parts:
        account, *figures = part.split(":")
        key = keys[int(account)]
        suffix = figures.pop() if not figures[-1].lstrip("-").isdigit() else ""
        if suffix.startswith(_RATE):
            rates.add(key)
        freed = int(figures[0])
        if kind == "held":
            moves.append(Moved(key, 0 if suffix.startswith(_DRAW) else freed, 0))
        else:
            moves.append(Moved(key, freed, int(figures[1])))
    return Entry(kind, reservation_id, tuple(moves))


def _unrecorded(connection: Connection, tenant: str | None) -> Iterator[str]:
    unrecorded = (
        select(reservations.c.reservation_id)
        .outerjoin(calls, calls.c.call_id == reservations.c.call_id)
        .where(
            reservations.c.ended_at_ms.is_not(None),
            reservations.c.kind != _CARVE,
            calls.c.call_id.is_(None),
        )
    )
    if tenant is not None:
        unrecorded = unrecorded.where(reservations.c.tenant == tenant)
    yield from connection.scalars(unrecorded)


def _parents(connection: Connection) -> dict[str, str]:
    parents: dict[str, str] = {}
    seen = select(sessions.c.session_id, sessions.c.agent, sessions.c.tenant, sessions.c.parent)
    for session, agent, tenant, parent in connection.execute(seen):
        parents[session] = agent if parent is None else parent
        parents[agent] = tenant
    return parents
