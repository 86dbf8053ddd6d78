import pytest
from contracts.builders import AGENT, COST, SESSION, TENANT, budget, request
from sqlalchemy import Connection, func, select, text

from governor.amounts import Amounts
from governor.ids import BudgetId
from memory_store.audit import Actor
from memory_store.errors import StoreUnavailableError, VersionConflictError
from memory_store.identities import Role
from memory_store.store import Store
from memory_store.tables import audit

pytestmark = pytest.mark.anyio

ADMIN = Actor(name="root")


async def _actions(store: Store) -> list[tuple[str, str]]:
    page = await store.audit.page(limit=200)
    return [(entry.action, entry.target) for entry in reversed(page.items)]


async def test_every_change_leaves_its_row(store: Store) -> None:
    token = await store.principals.issue_token(AGENT, expires_at_ms=None, by=ADMIN, now_ms=2)
    new = await store.principals.rotate_token(
        token.token_id, expires_at_ms=None, by=ADMIN, now_ms=3
    )
    await store.principals.put(
        AGENT, name="Ada L.", role=Role.ADMIN, expected_version=1, by=ADMIN, now_ms=4
    )
    await store.budgets.create(budget({COST: 10}), by=ADMIN, now_ms=5)
    await store.budgets.put(budget({COST: 20}), expected_version=1, by=ADMIN, now_ms=6)
    await store.budgets.delete(BudgetId("b1"), by=ADMIN, now_ms=7)
    await store.budgets.put_quota(TENANT, limits=Amounts({COST: 9}), by=ADMIN, now_ms=8)
    await store.ledger.admit(request({COST: 1}))
    await store.sessions.close(SESSION, by=ADMIN, now_ms=9)
    await store.tenants.disable(TENANT, by=ADMIN, now_ms=10)

    assert await _actions(store) == [
        ("tenant.create", TENANT),
        ("principal.create", AGENT),
        ("token.issue", token.token_id),
        ("token.revoke", token.token_id),
        ("token.issue", new.token_id),
        ("principal.put", AGENT),
        ("budget.create", "b1"),
        ("budget.put", "b1"),
        ("budget.delete", "b1"),
        ("quota.put", "quota:acme"),
        ("session.close", SESSION),
        ("tenant.put", TENANT),
    ]


async def test_a_row_says_who_when_and_what_was_before_and_after(store: Store) -> None:
    await store.tenants.put(
        TENANT, name="Acme Ltd", expected_version=1, by=Actor(name="eve"), now_ms=77
    )

    (entry,) = (await store.audit.page(limit=1)).items

    assert (entry.actor, entry.at_ms) == ("eve", 77)
    assert entry.before is not None
    assert entry.after is not None
    assert (entry.before["name"], entry.after["name"]) == ("Acme", "Acme Ltd")
    assert (entry.before["version"], entry.after["version"]) == (1, 2)


async def test_a_refused_change_leaves_no_row(store: Store) -> None:
    before = await _actions(store)

    with pytest.raises(VersionConflictError):
        await store.tenants.put(TENANT, name="x", expected_version=9, by=ADMIN, now_ms=2)

    assert await _actions(store) == before


def _refuse_audit_rows(connection: Connection) -> None:
    in_dialect = {
        "sqlite": "CREATE TRIGGER no_audit BEFORE INSERT ON audit "
        "BEGIN SELECT RAISE(ABORT, 'the log is full'); END",
        "postgresql": "ALTER TABLE audit ADD CONSTRAINT no_audit CHECK (false) NOT VALID",
    }
    connection.execute(text(in_dialect[connection.dialect.name])).close()


async def test_a_change_whose_row_cannot_be_written_does_not_happen(
    store: Store,
) -> None:
    await store.writer.run(_refuse_audit_rows)

    with pytest.raises(StoreUnavailableError):
        await store.budgets.create(budget({COST: 10}), by=ADMIN, now_ms=5)

    assert (await store.budgets.page()).items == ()


async def test_rows_are_paged_from_the_latest(store: Store) -> None:
    for number in range(5):
        await store.tenants.put(
            TENANT, name=f"n{number}", expected_version=None, by=ADMIN, now_ms=number
        )

    first = await store.audit.page(limit=3)
    second = await store.audit.page(limit=3, cursor=first.next)

    assert [entry.at_ms for entry in first.items] == [4, 3, 2]
    assert [entry.at_ms for entry in second.items][:2] == [1, 0]
    total = await store.reader.run(
        lambda connection: connection.scalar(select(func.count()).select_from(audit))
    )
    assert total == 7


async def test_changes_are_found_by_who_made_them_of_what_kind_and_of_what(store: Store) -> None:
    await store.budgets.create(budget({COST: 10}), by=ADMIN, now_ms=5)
    await store.budgets.put(budget({COST: 20}), expected_version=1, by=Actor(name="eve"), now_ms=6)
    await store.budgets.put_quota(TENANT, limits=Amounts({COST: 90}), by=ADMIN, now_ms=8)

    async def found(**wanted: str) -> list[str]:
        return [entry.action for entry in (await store.audit.page(**wanted)).items]

    assert await found(action="budget") == ["budget.put", "budget.create"]
    assert await found(action="budget.put") == ["budget.put"]
    assert await found(actor="eve") == ["budget.put"]
    assert await found(target="b1", actor="root") == ["budget.create"]
    assert await found(action="b%") == []
