"""Stores that earlier releases wrote go on under this one, and back."""

import gzip
import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from contracts.builders import COST, TENANT, record, request, used
from upgrade.releases import LAST, RELEASES, STORES, command_on, has_code, unpack
from upgrade.rolling import rolled_over

from governor.admission import AdmissionRequest
from governor.amounts import Unit
from governor.events import Replayed, Reserved
from governor.ids import CallId, ExperienceId, ReservationId
from memory_store.conservation import Conservation
from memory_store.engine import Durability
from memory_store.schema import steps_from
from memory_store.sqlite_schema import backup_path
from memory_store.store import DATABASE_NAME, open_store

HEAD = steps_from(None, place="")[-1].revision
needs_history = pytest.mark.skipif(
    not has_code(LAST), reason="the checkout has no history, so the earlier release cannot be run"
)


def _placed(revision: str, state_dir: Path) -> dict[str, Any]:
    """Put the store of a release there; return what it said of it."""
    state_dir.mkdir(mode=0o700)
    database = gzip.decompress((STORES / f"{revision}.db.gz").read_bytes())
    (state_dir / DATABASE_NAME).write_bytes(database)
    said: dict[str, Any] = json.loads((STORES / f"{revision}.json").read_text())
    return said


def _later(estimate: Mapping[Unit, int], *, key: tuple[str, str] | None = None) -> AdmissionRequest:
    """Return a request whose ids the earlier release did not use."""
    asked = request(estimate, key=key)
    return replace(
        asked,
        reservation_id=ReservationId(f"later_{asked.reservation_id}"),
        call_id=CallId(f"later_{asked.call_id}"),
    )


@pytest.mark.anyio
@pytest.mark.requirement("upgrade.from-every-release")
@pytest.mark.parametrize("revision", RELEASES)
async def test_a_store_of_an_earlier_release_goes_on(revision: str, tmp_path: Path) -> None:
    before = _placed(revision, tmp_path / "state")

    async with open_store(tmp_path / "state", durability=Durability.PROCESS) as store:
        assert await store.reader.run(Conservation().breaches) == []
        views = await store.ledger.balances(tenant=TENANT, now_ms=2_000)
        found = sorted([view.unit.value, view.used, view.reserved] for view in views)
        assert found == before["balances"]
        assert await store.principals.authenticate(before["secret"], now_ms=2) is not None
        again = _later({COST: 30, Unit.TOOL_CALLS: 1}, key=("key-0", "hash"))
        assert isinstance(await store.ledger.admit(again), Replayed)
        if before["experience"] is not None:
            kept = await store.experiences.content(ExperienceId("exp_old"), tenant=TENANT)
            assert kept.content.decode() == before["experience"]
        # A call that the earlier release let go is ended by this one.
        sent = request({COST: 50, Unit.TOOL_CALLS: 1})
        usage = used({COST: 40, Unit.TOOL_CALLS: 1})
        ending = replace(record(sent, usage=usage), call_id=CallId(before["held_call"]))
        await store.ledger.settle(ReservationId(before["held"]), usage, ending)
        assert isinstance(await store.ledger.admit(_later({COST: 1})), Reserved)
        assert await store.reader.run(Conservation().breaches) == []

    aside = backup_path(tmp_path / "state" / DATABASE_NAME, revision)
    assert aside.exists() is (revision != HEAD)


@needs_history
@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.requirement("upgrade.can-be-undone")
def test_an_upgrade_is_undone_with_the_copy_that_it_made(tmp_path: Path) -> None:
    revision = "20261122_11"
    state_dir, code = tmp_path / "state", tmp_path / "code"
    _placed(revision, state_dir)
    unpack(revision, code)
    shutil.copytree(state_dir, tmp_path / "upgraded")
    _upgraded(tmp_path / "upgraded")

    refused = _worked(code, tmp_path / "upgraded")
    database = tmp_path / "upgraded" / DATABASE_NAME
    for name in (f"{DATABASE_NAME}-wal", f"{DATABASE_NAME}-shm"):
        database.with_name(name).unlink(missing_ok=True)
    backup_path(database, revision).replace(database)
    gone_back = _worked(code, tmp_path / "upgraded")

    assert refused.returncode != 0
    assert "does not know" in refused.stderr
    assert gone_back.returncode == 0, gone_back.stderr


@needs_history
@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.requirement("upgrade.rolls")
def test_the_last_release_works_on_while_this_one_joins(
    tmp_path: Path, empty_database: str
) -> None:
    calls = rolled_over(LAST, empty_database, tmp_path)

    assert min(calls.values()) > 0


def _upgraded(state_dir: Path) -> None:
    async def main() -> None:
        async with open_store(state_dir):
            """It is migrated."""

    anyio.run(main)


def _worked(code: Path, state_dir: Path) -> subprocess.CompletedProcess[str]:
    words, environment = command_on(code, "work", str(state_dir))
    return subprocess.run(
        words,
        env=environment,
        cwd=code,
        input="",
        check=False,
        capture_output=True,
        text=True,
        timeout=200,
    )
