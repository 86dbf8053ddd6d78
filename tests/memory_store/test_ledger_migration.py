"""A database with rows of the first revision, taken to the ledger by account numbers."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from contracts.builders import AGENT, COST, TENANT, record, request, used
from sqlalchemy import create_engine

from governor.amounts import Unit
from governor.ids import CallId, ReservationId, TenantId
from memory_store.conservation import Conservation
from memory_store.schema import migrations_folder
from memory_store.store import DATABASE_NAME, open_store

pytestmark = pytest.mark.anyio

ROWS = """
INSERT INTO tenants VALUES ('acme', 'Acme', 0, 1, 1, 1), ('zoo', 'Zoo', 0, 1, 1, 1);
INSERT INTO principals VALUES ('ada', 'acme', 'Ada', 'agent', 0, 1, 1, 1);
INSERT INTO budgets VALUES
 ('b1', 'acme', 'tenant', NULL, '{"cost_microusd":100,"turns":9}', NULL, 0, NULL, 1, 1, 1),
 ('old', 'acme', 'agent', NULL, '{"cost_microusd":100}', 1000, 0, 5, 1, 1, 2),
 ('quota:zoo', 'zoo', 'tenant', NULL, '{"cost_microusd":100}', NULL, 1, NULL, 1, 1, 1);
INSERT INTO balances VALUES
 ('b1', 'acme', 'cost_microusd', 0, 20, 30, 4), ('b1', 'acme', 'turns', 0, 1, 1, 0),
 ('old', 'ada', 'cost_microusd', 1000, 0, 10, 0),
 ('gone', 'acme', 'cost_microusd', 0, 7, 0, 0),
 ('quota:zoo', 'zoo', 'cost_microusd', 0, 55, 0, 0);
INSERT INTO sessions VALUES ('ses_one', 'acme', 'ada', 'one', 1, 1, NULL, NULL);
INSERT INTO reservations VALUES
 ('r_held', 'c_held', 'files__read', 'acme', 'ada', 'ses_one', 't1', 'held',
  '{"cost_microusd":10}', '{"cost_microusd":10,"turns":1}', 1000, 9000, NULL, 'k1', 'h1'),
 ('r_sent', 'c_sent', 'gpt', 'acme', 'ada', 'ses_one', 't1', 'forwarded',
  '{"cost_microusd":20,"input_tokens":5}', '{"cost_microusd":20,"input_tokens":5}',
  1000, 9000, NULL, NULL, NULL),
 ('r_done', 'c_done', 'files__read', 'acme', 'ada', 'ses_one', NULL, 'settled',
  '{"cost_microusd":20}', '{"cost_microusd":20}', 1000, 9000, 1500, NULL, NULL);
INSERT INTO reservation_lines VALUES
 ('r_held', 'b1', 'acme', 'cost_microusd', 0, 10), ('r_held', 'b1', 'acme', 'turns', 0, 1),
 ('r_held', 'old', 'ada', 'cost_microusd', 1000, 10),
 ('r_sent', 'b1', 'acme', 'cost_microusd', 0, 20),
 ('r_sent', 'b1', 'acme', 'turns', 0, 0),
 ('r_done', 'b1', 'acme', 'cost_microusd', 0, 20);
INSERT INTO turns VALUES ('ses_one', 't1', 'r_held');
"""


def _at_the_first_revision(state_dir: Path) -> None:
    state_dir.mkdir(mode=0o700)
    database = state_dir / DATABASE_NAME
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()))
    engine = create_engine(f"sqlite:///{database}")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "20261121_01")
    engine.dispose()
    with closing(sqlite3.connect(database)) as rows:
        rows.executescript(ROWS)


async def test_what_was_held_and_charged_is_carried_over(state_dir: Path) -> None:
    _at_the_first_revision(state_dir)

    async with open_store(state_dir) as store:
        # Also where the budget of an account is gone.
        assert await store.reader.run(Conservation().breaches) == []
        sent = request({COST: 20, Unit.INPUT_TOKENS: 5})
        ending = replace(record(sent), call_id=CallId("c_sent"))
        await store.ledger.settle(ReservationId("r_sent"), used({COST: 25}), ending)
        await store.ledger.expire_due(now_ms=9_001)

        assert await store.reader.run(Conservation().breaches) == []
        views = await store.ledger.balances(tenant=TENANT, agent=AGENT, now_ms=9_001)
        zoo = await store.ledger.balances(tenant=TenantId("zoo"), now_ms=9_001)

    stand = {view.unit: (view.used, view.reserved, view.overrun) for view in views}
    # The turn of a call that never left stays charged.
    assert stand == {COST: (45, 0, 9), Unit.TURNS: (2, 0, 0)}
    assert [view.used for view in zoo] == [55]
