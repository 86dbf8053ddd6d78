"""One write of experiences: what is checked, numbered, logged and stored in one transaction."""

import secrets
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, insert, select, update

from governor.experience.quota import Exceeded
from governor.ids import TenantId
from memory_store.engine import driver_of
from memory_store.experiences.batch import Batch
from memory_store.experiences.drafts import ReadyDraft
from memory_store.experiences.heads import locked_head
from memory_store.experiences.known import Met, fresh_of, identity
from memory_store.experiences.room import Tallies, check_room, grow
from memory_store.experiences.tables import experience_blobs
from memory_store.experiences.values import WriteLimits, Written
from memory_store.statement import Driver, Statement, Value

_SALT_BYTES = 16


class BlobsMissingError(Exception):
    """Contents that have to be stored before the rows that name them."""

    def __init__(self, addresses: frozenset[str]) -> None:
        super().__init__()
        self.addresses = addresses


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What a write did; of the blobs it was offered, `kept` are those that rows name now."""

    results: tuple[Written | Exceeded, ...]
    kept: tuple[str, ...]


_blobs = experience_blobs.c
HOLD = Statement(
    update(experience_blobs)
    .where(_blobs.tenant == bindparam("of_tenant"), _blobs.address == bindparam("of_address"))
    .values(held_by=_blobs.held_by + bindparam("more"))
)
_PUT_BLOB = Statement(
    insert(experience_blobs).values({c.name: bindparam(c.name) for c in experience_blobs.columns})
)


def blobs_missing(
    connection: Connection, *, tenant: TenantId, addresses: Sequence[str]
) -> frozenset[str]:
    """Return those of `addresses` that are in no blob of the tenant yet."""
    query = select(_blobs.address).where(_blobs.tenant == tenant, _blobs.address.in_(addresses))
    return frozenset(addresses).difference(connection.scalars(query))


def store(
    connection: Connection,
    *,
    drafts: Sequence[ReadyDraft],
    limits: WriteLimits,
    offered: Mapping[str, str],
) -> Stored:
    """Store drafts of one tenant; `offered` are the names of blobs by their addresses.

    Raises:
        BlobsMissingError: a content is in no blob yet; nothing was stored.
        StoreError: a draft cannot be kept; nothing was stored.
    """
    driver = driver_of(connection)
    head = locked_head(driver, drafts[0].experience.tenant)
    known = Met.read(driver, head.tenant, drafts)
    tallies = Tallies(tenant=head.tenant, limits=limits)
    fresh, exceeded = tallies.admitted(driver, fresh_of(drafts, known))
    kept = _held_blobs(driver, head.tenant, fresh, offered)
    batch = Batch(head=head, known=known)
    for number, draft in zip(numbers_after(driver, len(fresh)), fresh, strict=True):
        batch.take(draft, number=number, salt=secrets.token_bytes(_SALT_BYTES))
    check_room(driver, batch, limits)
    batch.write(driver)
    grow(driver, batch)
    tallies.write(driver)
    return Stored(
        results=tuple(
            exceeded.get(identity(draft.experience)) or known.written(draft) for draft in drafts
        ),
        kept=tuple(kept),
    )


def numbers_after(driver: Driver, count: int) -> list[int]:
    """Return that many numbers that no experience has or had, in their order."""
    if isinstance(driver, sqlite3.Connection):
        row = driver.execute("SELECT seq FROM sqlite_sequence WHERE name = 'experiences'")
        (last,) = row.fetchone() or (0,)
        return list(range(last + 1, last + count + 1))
    rows = driver.execute(
        "SELECT nextval('experiences_number_seq') FROM generate_series(1, %s)", (count,)
    )
    return [number for (number,) in rows.fetchall()]


def _held_blobs(
    driver: Driver, tenant: TenantId, drafts: Sequence[ReadyDraft], offered: Mapping[str, str]
) -> frozenset[str]:
    """Count who holds each blob, and return the names of those of `offered` that are now kept.

    Raises:
        BlobsMissingError: a content is in no blob yet.
    """
    holders = Counter(draft.experience.address for draft in drafts if draft.is_blob)
    sizes = {draft.experience.address: draft.experience.size_bytes for draft in drafts}
    taken: list[dict[str, Value]] = []
    kept, missing = set(), set()
    for address, count in holders.items():
        held: dict[str, Value] = {"of_tenant": tenant, "of_address": address, "more": count}
        if HOLD.run(driver, held):
            continue
        if address not in offered:
            missing.add(address)
            continue
        named = {"tenant": tenant, "address": address, "name": offered[address]}
        taken.append({**named, "size_bytes": sizes[address], "held_by": count})
        kept.add(offered[address])
    if missing:
        raise BlobsMissingError(frozenset(missing))
    _PUT_BLOB.run_each(driver, taken)
    return frozenset(kept)
