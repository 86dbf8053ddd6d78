"""A store with something of everything in it, and whether a copy of it is the same."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from contracts.builders import AGENT, COST, SESSION, TENANT, budget, record, request, used
from sqlalchemy import select

from governor.ids import ArchiveId, CallId, ExperienceId
from memory_store.audit import Actor
from memory_store.backups.taking import Source
from memory_store.conservation import Conservation
from memory_store.engine import Durability
from memory_store.identities import Role
from memory_store.store import Store, open_store
from memory_store.tables import archives
from tests.memory_store.experiences.makers import draft, space_of, wrote

ADMIN = Actor(name="root")
LARGE = b"an experience of many words " * 400
KEYS = ("gate.key", "admin.token", "probes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a store holds, as far as anyone would miss it."""

    balances: tuple[tuple[str, int, int], ...]
    calls: int
    contents: tuple[bytes, ...]
    experience: bytes
    name: str


async def begin(store: Store, *, name: str = "Acme") -> None:
    await store.tenants.create(TENANT, name=name, by=ADMIN, now_ms=1)
    await store.principals.create(
        AGENT, tenant=TENANT, name="Ada", role=Role.AGENT, by=ADMIN, now_ms=1
    )
    await store.budgets.create(budget({COST: 10**9}), by=ADMIN, now_ms=1)


async def archived(store: Store, content: bytes, *, now_ms: int = 1) -> ArchiveId:
    entry = await store.archive.put(
        content,
        tenant=TENANT,
        agent=AGENT,
        session=SESSION,
        call_id=CallId("call_1"),
        media_type="text/plain",
        now_ms=now_ms,
    )
    return entry.archive_id


async def fill(store: Store, *, name: str = "Acme", calls: int = 20) -> None:
    """Have settled calls and one that runs, archived results, an experience and a large one."""
    await begin(store, name=name)
    for _ in range(calls):
        asked = request({COST: 30})
        await store.ledger.admit(asked)
        await store.ledger.settle(asked.reservation_id, used({COST: 25}), record(asked))
    await store.ledger.admit(request({COST: 50}))
    for number in range(3):
        await archived(store, f"result {number} of {name} ".encode() * 1_000)
    namespace = await space_of(store)
    await wrote(store, draft("small", namespace), draft("large", namespace, content=LARGE))


async def what_it_holds(store: Store) -> Held:
    """Return it, of a store whose books add up."""
    assert await store.reader.run(Conservation().breaches) == []
    views = await store.ledger.balances(tenant=TENANT, now_ms=2_000)
    calls = await store.calls.page(tenant=TENANT, limit=100)
    ids = await store.reader.run(lambda rows: rows.scalars(select(archives.c.archive_id)).all())
    contents = [
        (await store.archive.read(ArchiveId(one), tenant=TENANT, agent=AGENT)).content
        for one in ids
    ]
    large = await store.experiences.content(ExperienceId("exp_large"), tenant=TENANT)
    return Held(
        name=(await store.tenants.get(TENANT)).name,
        balances=tuple(sorted((view.budget_id, view.used, view.reserved) for view in views)),
        calls=len(calls.items),
        contents=tuple(sorted(contents)),
        experience=large.content,
    )


@asynccontextmanager
async def opened(state_dir: Path, url: str | None = None) -> AsyncIterator[Store]:
    """Yield a store; no test pulls the plug."""
    async with open_store(state_dir, url=url, durability=Durability.PROCESS) as store:
        yield store


async def filled(state_dir: Path, url: str | None = None, *, name: str = "Acme") -> Held:
    """Return what a new store in `state_dir` holds."""
    async with opened(state_dir, url) as store:
        await fill(store, name=name)
        held = await what_it_holds(store)
    (state_dir / "gate.key").write_bytes(name.encode())
    (state_dir / "probes").mkdir(exist_ok=True)
    (state_dir / "probes" / "slow.json").write_text(name)
    return held


async def held_in(state_dir: Path, url: str | None = None) -> Held:
    async with opened(state_dir, url) as store:
        return await what_it_holds(store)


def source_of(state_dir: Path, url: str | None = None) -> Source:
    return Source(state_dir=state_dir, url=url, keeps=KEYS)
