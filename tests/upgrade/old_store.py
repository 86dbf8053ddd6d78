"""What an earlier release stores and does; this runs on its code, with its own builders.

    old_store.py write STATE [URL]     a store with something of everything
    old_store.py work STATE [URL]      calls, until the input ends

What `write` prints is what whoever reads the store has to find there; `work` says how many calls
it made, at least one.
"""

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from contracts.builders import AGENT, COST, SESSION, TENANT, budget, record, request, used

from governor.amounts import Unit
from governor.events import Reserved
from governor.ids import CallId, ReservationId
from memory_store.audit import Actor
from memory_store.identities import Role
from memory_store.store import open_store

ADMIN = Actor(name="root")


def say(line: str) -> None:
    """Tell whoever started this."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def write(state_dir: Path, url: str | None) -> None:
    """Fill a new store, and say what is in it."""
    async with open_store(state_dir, url=url) as store:
        await store.tenants.create(TENANT, name="Acme", by=ADMIN, now_ms=1)
        await store.principals.create(
            AGENT, tenant=TENANT, name="Ada", role=Role.AGENT, by=ADMIN, now_ms=1
        )
        token = await store.principals.issue_token(AGENT, expires_at_ms=None, by=ADMIN, now_ms=1)
        limits = {COST: 10**9, Unit.TOOL_CALLS: 10**6}
        await store.budgets.create(budget(limits), by=ADMIN, now_ms=1)
        for number in range(40):
            asked = request({COST: 30, Unit.TOOL_CALLS: 1}, key=(f"key-{number}", "hash"))
            await store.ledger.admit(asked)
            usage = used({COST: 25, Unit.TOOL_CALLS: 1})
            await store.ledger.settle(asked.reservation_id, usage, record(asked, usage=usage))
        held = request({COST: 50, Unit.TOOL_CALLS: 1})
        await store.ledger.admit(held)
        await store.ledger.forward(held.reservation_id)
        entry = await store.archive.put(
            b"a result of before",
            tenant=TENANT,
            agent=AGENT,
            session=SESSION,
            call_id=CallId("call_1"),
            media_type="text/plain",
            now_ms=1,
        )
        told: dict[str, Any] = {
            "secret": token.secret,
            "archive_id": entry.archive_id,
            "held": held.reservation_id,
            "held_call": held.call_id,
            "experience": await _experience(store),
            "balances": sorted(
                [view.unit.value, view.used, view.reserved]
                for view in await store.ledger.balances(tenant=TENANT, now_ms=2_000)
            ),
        }
    say(json.dumps(told))


async def _experience(store: Any) -> str | None:
    """Return the content of an experience, None where there was no memory yet."""
    if not hasattr(store, "experiences"):
        return None
    makers = importlib.import_module("tests.memory_store.experiences.makers")
    await makers.wrote(store, makers.draft("old", await makers.space_of(store)))
    return "what old is about"


async def work(state_dir: Path, url: str | None) -> None:
    """Make calls until the input ends; say how many they were, none of which failed."""
    async with open_store(state_dir, url=url) as store:
        say("ready")
        is_told, calls = anyio.Event(), 0

        async def listen() -> None:
            await anyio.to_thread.run_sync(sys.stdin.read)
            is_told.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            while not (calls and is_told.is_set()):
                asked = request({COST: 3, Unit.TOOL_CALLS: 1})
                # Of another name than those of the process beside it.
                asked = replace(
                    asked,
                    reservation_id=ReservationId(f"{state_dir.name}_{asked.reservation_id}"),
                    call_id=CallId(f"{state_dir.name}_{asked.call_id}"),
                )
                assert isinstance(await store.ledger.admit(asked), Reserved)
                usage = used({COST: 2, Unit.TOOL_CALLS: 1})
                await store.ledger.settle(asked.reservation_id, usage, record(asked, usage=usage))
                calls += 1
    say(json.dumps({"calls": calls}))


if __name__ == "__main__":
    what, where, *address = sys.argv[1:]
    if what == "write":
        anyio.run(write, Path(where), address[0] if address else None)
    else:
        anyio.run(work, Path(where), address[0] if address else None)
