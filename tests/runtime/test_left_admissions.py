"""Admissions that commit for nobody, over the real store."""

import threading
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from governor.call import CallStatus
from memory_store import writer
from memory_store.errors import StoreUnavailableError
from tests.runtime.office import Office, opener, reason_of

pytestmark = pytest.mark.anyio


def asks_nobody(office: Office) -> None:
    policy = office.house.policy
    rule = replace(policy.rules[0], approval=None)
    office.house.policy = replace(policy, rules=(rule,))


@pytest.mark.requirement("cancel.before-leaving-is-released")
async def test_what_commits_for_a_client_that_has_gone_is_held_and_charged_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_committing, may_commit = threading.Event(), threading.Event()

    def stand_before_commit(point: str) -> None:
        if point == "before_commit" and not is_committing.is_set():
            is_committing.set()
            assert may_commit.wait(60)

    with anyio.fail_after(60):
        async with opener(tmp_path / "state")() as office:
            asks_nobody(office)
            monkeypatch.setattr(writer, "reached", stand_before_commit)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(office.call)
                assert await anyio.to_thread.run_sync(is_committing.wait, 60)
                tasks.cancel_scope.cancel()
                may_commit.set()

            assert (await office.held(), await office.used()) == (0, 0)
            (kept,) = (await office.store.calls.page()).items
            assert kept.record.status is CallStatus.CANCELLED
            assert office.house.backend.ran == []
            assert await office.store.ledger.expire_due(now_ms=2**60, all_live=True) == ()


@pytest.mark.requirement("cancel.before-leaving-is-released")
async def test_what_commits_without_an_answer_is_held_and_charged_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opener(tmp_path / "state")() as office:
        asks_nobody(office)
        admit = office.store.ledger.admit

        async def lose_the_answer(request: object) -> None:
            await admit(request)
            raise StoreUnavailableError

        monkeypatch.setattr(office.store.ledger, "admit", lose_the_answer)
        result = await office.call()

        assert reason_of(result) == "ledger_unavailable"
        assert (await office.held(), await office.used()) == (0, 0)
        (kept,) = (await office.store.calls.page()).items
        assert kept.record.status is CallStatus.DENIED
