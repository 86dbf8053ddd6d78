"""A database of the first schema, with rows in every table, goes on under the present one."""

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from contracts.builders import COST, chain, used
from sqlalchemy import Engine, create_engine

from governor.account import BalanceKey
from governor.admission import AdmissionRequest
from governor.amounts import Amounts, Unit
from governor.call import CallRecord, CallStatus, Idempotency
from governor.denial import DenialReason, Denied
from governor.events import Replayed, Reserved
from governor.ids import BudgetId, CallId, ReservationId, SessionId, TenantId, TurnId
from governor.target import CallKind, CallTarget
from governor.window import Fixed, Lifetime
from memory_store.conservation import Conservation
from memory_store.postgresql_engine import server_url
from memory_store.schema import run_steps, steps_from
from memory_store.store import DATABASE_NAME, Store, migrate_store, open_store
from memory_store.tables import audit, sessions, turns

pytestmark = pytest.mark.anyio

FIRST = "20261121_01"
STEPS = steps_from(None, place="")
DAY_MS = 86_400_000
DAY = 10 * DAY_MS
NOW = DAY + 5_000
_ACME_COST = ("acme", "cost_microusd", 0)
_ADA_CALLS = ("ada", "tool_calls", DAY)
ACME, GLOBEX = TenantId("acme"), TenantId("globex")


def _budget(budget_id: str, tenant: str, limits: str, **more: object) -> dict[str, object]:
    standing = {"scope": "tenant", "subject": None, "window_ms": None, "is_quota": False}
    written = {"retired_at_ms": None, "created_at_ms": 1, "updated_at_ms": 1, "version": 1}
    named = {"budget_id": budget_id, "tenant": tenant, "limits": limits}
    return {**named, **standing, **written, **more}


def _balance(key: tuple[str, str, str, int], settled: int, reserved: int, overrun: int) -> Any:
    names = ("budget_id", "subject", "unit", "window_start_ms")
    amounts = {"settled": settled, "reserved": reserved, "overrun": overrun}
    return {**dict(zip(names, key, strict=True)), **amounts}


def _reservation(name: str, state: str, amount: str, **more: object) -> dict[str, object]:
    whose = {"tenant": "acme", "agent": "ada", "session": "ses_a", "turn": None}
    is_live = state in ("held", "forwarded")
    times = {"created_at_ms": NOW, "expires_at_ms": NOW + 60_000}
    key = {"idempotency_key": None, "payload_hash": None}
    return {
        "reservation_id": f"res_{name}", "call_id": f"call_{name}", "name": "files__read",
        **whose, "state": state, "estimate": amount, "amount": amount, **times,
        "ended_at_ms": None if is_live else NOW, **key, **more,
    }  # fmt: skip


def _line(name: str, key: tuple[str, str, str, int], amount: int) -> dict[str, object]:
    names = ("budget_id", "subject", "unit", "window_start_ms")
    where = dict(zip(names, key, strict=True))
    return {"reservation_id": f"res_{name}", "amount": amount, **where}


def _session(name: str, tenant: str, agent: str, **more: object) -> dict[str, object]:
    times = {"opened_at_ms": 1, "last_seen_at_ms": NOW, "closed_at_ms": None, "closed_by": None}
    return {"session_id": name, "tenant": tenant, "agent": agent, "name": "one", **times, **more}


def _call(name: str, tenant: str, agent: str, session: str, cost: int) -> dict[str, object]:
    nothing = dict.fromkeys(("input_tokens", "output_tokens", "turns", "wall_ms", "cpu_ms"), 0)
    empty = ("unmeasured", "memory_peak_bytes", "denial", "isolated", "result_bytes")
    return {
        "call_id": f"call_{name}", "kind": "tool", "name": "files__read", "tenant": tenant,
        "agent": agent, "session": session, "turn": None, "status": "ok", "started_at_ms": NOW,
        "ended_at_ms": NOW, "arguments": "{}", "backend": "files", "rule": "default",
        "policy_version": "1", "estimate": f'{{"cost_microusd":{cost}}}',
        "measured": f'{{"cost_microusd":{cost}}}', "detail": "", "archive_id": None,
        "cost_microusd": cost, "tool_calls": 1, **nothing, **dict.fromkeys(empty),
    }  # fmt: skip


def _person(name: str, tenant: str, role: str) -> dict[str, object]:
    times = {"created_at_ms": 1, "updated_at_ms": 1, "version": 1}
    return {"principal_id": name, "tenant": tenant, "name": name, "role": role,
            "disabled": False, **times}  # fmt: skip


def _token(name: str, of: str, revoked_at_ms: int | None) -> dict[str, object]:
    return {"token_id": name, "principal_id": of, "secret_hash": f"hash_{name}",
            "last_four": "abcd", "created_at_ms": 1, "expires_at_ms": None,
            "revoked_at_ms": revoked_at_ms}  # fmt: skip


def _event(kind: str, name: str) -> dict[str, object]:
    return {"kind": kind, "reservation_id": f"res_{name}", "at_ms": NOW, "charges": "[]"}


ROWS: dict[str, list[dict[str, Any]]] = {
    "tenants": [
        {"tenant_id": name, "name": name, "disabled": False, "created_at_ms": 1,
         "updated_at_ms": 1, "version": 1}
        for name in ("acme", "globex")
    ],
    "principals": [
        _person("ada", "acme", "agent"),
        _person("root", "acme", "admin"),
        _person("gil", "globex", "agent"),
    ],
    "tokens": [_token("tok_live", "ada", None), _token("tok_revoked", "gil", 5)],
    "budgets": [
        _budget("b_all", "acme", '{"cost_microusd":1000}'),
        _budget("b_day", "acme", '{"tool_calls":10}', scope="agent", window_ms=DAY_MS),
        _budget("b_quota", "acme", '{"cost_microusd":5000}', is_quota=True),
        _budget("b_retired", "acme", '{"cost_microusd":100}', retired_at_ms=NOW),
        _budget("b_other", "globex", '{"cost_microusd":500}', scope="session", subject="ses_g"),
    ],
    "balances": [
        _balance(("b_all", "acme", "cost_microusd", 0), 130, 70, 10),
        _balance(("b_day", "ada", "tool_calls", DAY - DAY_MS), 9, 0, 0),
        _balance(("b_day", "ada", "tool_calls", DAY), 2, 2, 0),
        _balance(("b_quota", "acme", "cost_microusd", 0), 130, 70, 0),
        _balance(("b_retired", "acme", "cost_microusd", 0), 5, 40, 0),
        _balance(("b_other", "ses_g", "cost_microusd", 0), 20, 0, 0),
    ],
    "reservations": [
        _reservation("held", "held", '{"cost_microusd":30,"tool_calls":1,"turns":1}',
                     turn="t1", idempotency_key="k1", payload_hash="h1"),
        _reservation("sent", "forwarded", '{"cost_microusd":40,"tool_calls":1}'),
        _reservation("done", "settled", '{"cost_microusd":120,"tool_calls":1}'),
        _reservation("freed", "released", '{"cost_microusd":7}'),
        _reservation("late", "expired", '{"cost_microusd":10}'),
        _reservation("other", "settled", '{"input_tokens":3}', tenant="globex", agent="gil",
                     session="ses_g", turn="t9"),
    ],
    "reservation_lines": [
        *(_line("held", (name, *_ACME_COST), 30) for name in ("b_all", "b_quota")),
        _line("held", ("b_day", *_ADA_CALLS), 1),
        *(_line("sent", (name, *_ACME_COST), 40)
          for name in ("b_all", "b_quota", "b_retired")),
        _line("sent", ("b_day", *_ADA_CALLS), 1),
        _line("done", ("b_all", *_ACME_COST), 120),
        _line("other", ("b_other", "ses_g", "cost_microusd", 0), 20),
    ],
    "events": [
        *(_event("reserved", name) for name in ("held", "sent", "done", "freed", "late", "other")),
        _event("settled", "done"), _event("released", "freed"), _event("expired", "late"),
        _event("settled", "other"),
    ],
    "sessions": [
        _session("ses_a", "acme", "ada"),
        _session("ses_shut", "acme", "ada", closed_at_ms=NOW, closed_by="root"),
        _session("ses_g", "globex", "gil"),
    ],
    "turns": [
        {"session_id": "ses_a", "turn": "t1", "reservation_id": "res_held"},
        {"session_id": "ses_g", "turn": "t9", "reservation_id": "res_other"},
    ],
    "calls": [
        _call("done", "acme", "ada", "ses_a", 120),
        _call("freed", "acme", "ada", "ses_a", 0),
        _call("late", "acme", "ada", "ses_a", 10),
        _call("other", "globex", "gil", "ses_g", 20),
    ],
    "archives": [
        {"archive_id": "arc_1", "tenant": "acme", "agent": "ada", "session": "ses_a",
         "call_id": "call_done", "sha256": "0" * 64, "size_bytes": 12,
         "media_type": "text/plain", "created_at_ms": NOW},
    ],
    "archive_totals": [{"tenant": "acme", "total_bytes": 12}],
    "audit": [
        {"at_ms": 1, "actor": "root", "action": "tenant.create", "target": "acme",
         "before": None, "after": "{}"},
    ],
}  # fmt: skip


def _write_first(engine: Engine) -> None:
    with engine.begin() as connection:
        run_steps(connection, STEPS[:1])
        found = sa.MetaData()
        found.reflect(connection)
        assert set(found.tables) - {"alembic_version"} == set(ROWS), "rows for every table"
        for name, rows in ROWS.items():
            connection.execute(sa.insert(found.tables[name]), rows)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest) -> str | None:
    """Return where a database is that has no tables yet: None in the state directory."""
    if request.param == "sqlite":
        return None
    url: str = request.getfixturevalue("empty_database")
    return url


def _migrated(state_dir: Path, place: str | None, *, by_way_of: str) -> None:
    """Make the first schema with its rows, and move it, with a stop at a later one."""
    state_dir.mkdir()
    at = f"sqlite:///{state_dir / DATABASE_NAME}" if place is None else server_url(place)
    engine = create_engine(at)
    _write_first(engine)
    stop = [step.revision for step in STEPS].index(by_way_of) + 1
    with engine.begin() as connection:
        run_steps(connection, STEPS[1:stop])
    engine.dispose()
    migrate_store(state_dir, url=place)


def _record(name: str, cost: int) -> CallRecord:
    return CallRecord(
        call_id=CallId(f"call_{name}"),
        kind=CallKind.TOOL,
        name="files__read",
        chain=chain(session="ses_a"),
        turn=None,
        status=CallStatus.OK,
        started_at_ms=NOW,
        ended_at_ms=NOW + 1,
        arguments="{}",
        backend="files",
        rule="default",
        policy_version="1",
        estimate=Amounts({COST: 40}),
        usage=used({COST: cost}),
    )


def _asked(name: str, session: str, **more: Any) -> AdmissionRequest:
    return AdmissionRequest(
        reservation_id=ReservationId(f"res_{name}"),
        call_id=CallId(f"call_{name}"),
        target=CallTarget(kind=CallKind.TOOL, name="files__read", upstream="files"),
        session_name="one",
        now_ms=NOW + 1,
        expires_at_ms=NOW + 60_000,
        **{"chain": chain(session=session), "estimate": Amounts({COST: 1}), "turn": None, **more},
    )


async def _standing(store: Store, tenant: TenantId = ACME) -> dict[str, tuple[int, ...]]:
    views = await store.ledger.balances(tenant=tenant, now_ms=NOW)
    return {view.budget_id: (view.limit, view.used, view.reserved, view.overrun) for view in views}


async def _breaches(store: Store) -> list[str]:
    return await store.reader.run(lambda connection: Conservation().breaches(connection))


async def _count(store: Store, table: sa.Table) -> int:
    counting = sa.select(sa.func.count()).select_from(table)
    return int(await store.reader.run(lambda connection: connection.execute(counting).scalar()))


@pytest.mark.requirement("store.migrated-with-rows")
@pytest.mark.parametrize("by_way_of", [step.revision for step in STEPS])
async def test_what_an_older_schema_held_stands_and_goes_on(
    state_dir: Path, place: str | None, by_way_of: str
) -> None:
    _migrated(state_dir, place, by_way_of=by_way_of)

    async with open_store(state_dir, url=place) as store:
        assert await _standing(store) == {
            "b_all": (1000, 130, 70, 10),
            "b_day": (10, 2, 2, 0),
            "b_quota": (5000, 130, 70, 0),
        }
        assert await _standing(store, GLOBEX) == {"b_other": (500, 20, 0, 0)}
        views = await store.ledger.balances(tenant=ACME, now_ms=NOW)
        windows = {view.budget_id: view.window for view in views}
        assert windows == {"b_all": Lifetime(), "b_day": Fixed(DAY_MS), "b_quota": Lifetime()}
        assert await _breaches(store) == []

        key = Idempotency(key="k1", payload_hash="h1")
        replayed = await store.ledger.admit(_asked("again", "ses_a", idempotency=key))
        assert isinstance(replayed, Replayed)
        assert replayed.original.reservation_id == "res_held"

        settled = await store.ledger.settle(
            ReservationId("res_sent"), used({COST: 50}), _record("sent", 50)
        )
        retired = BalanceKey(BudgetId("b_retired"), "acme", COST, 0)
        assert [one.charged for one in settled.charges if one.key == retired] == [50]
        await store.ledger.release(ReservationId("res_held"), _record("held", 0))

        assert await _standing(store) == {
            "b_all": (1000, 180, 0, 20),
            "b_day": (10, 3, 0, 0),
            "b_quota": (5000, 180, 0, 10),
        }
        assert await _breaches(store) == []


@pytest.mark.requirement("store.migrated-with-rows")
async def test_what_an_older_schema_held_still_governs(state_dir: Path, place: str | None) -> None:
    _migrated(state_dir, place, by_way_of=FIRST)

    async with open_store(state_dir, url=place) as store:
        shut = await store.ledger.admit(_asked("shut", "ses_shut"))
        dear = await store.ledger.admit(_asked("dear", "ses_a", estimate=Amounts({COST: 801})))
        gil = chain(tenant="globex", agent="gil", session="ses_g")
        again = await store.ledger.admit(_asked("turn", "ses_g", turn=TurnId("t9"), chain=gil))

        assert isinstance(shut, Denied)
        assert shut.reason is DenialReason.SESSION_CLOSED
        assert isinstance(dear, Denied)
        assert isinstance(again, Reserved)
        assert again.amount.of(Unit.TURNS) == 0
        bill = await store.calls.bill(SessionId("ses_a"))
        assert (bill.charged.of(COST), bill.calls_total) == (130, 3)
        assert {person.principal_id for person in (await store.principals.page()).items} == {
            "ada", "root", "gil"
        }  # fmt: skip
        assert [await _count(store, table) for table in (sessions, turns, audit)] == [3, 2, 1]
        assert await _breaches(store) == []
