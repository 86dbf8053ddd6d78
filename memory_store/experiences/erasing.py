"""Experiences erased for good: rows, words, vectors, uses and blobs; the log keeps a tombstone."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, delete, select, update

from governor.experience.chain import LogEvent
from governor.experience.experience import Experience
from governor.ids import PrincipalId, TenantId
from memory_store.advisory import Duty, is_free
from memory_store.engine import driver_of
from memory_store.experiences.heads import Head, locked_head
from memory_store.experiences.marking import Forget, Marking, Order, derived_of, found_by_number
from memory_store.experiences.scrubbing import note_due, overwriting
from memory_store.experiences.tables import (
    experience_blobs,
    experience_links,
    experience_terms,
    experience_totals,
    experience_uses,
    experience_vectors,
    experiences,
)
from memory_store.statement import Driver, Statement, Value

ERASED_AT_ONCE = 128
# What the house writes of itself, it writes under such a name.
HOUSE_PREFIX = "house:"

_links = experience_links.c
_GONE = tuple(
    Statement(delete(table).where(column == bindparam("number")))
    for table, column in (
        (experiences, experiences.c.number),
        (experience_terms, experience_terms.c.number),
        (experience_vectors, experience_vectors.c.number),
        (experience_uses, experience_uses.c.number),
        (experience_links, _links.source),
        (experience_links, _links.target),
    )
)
_totals = experience_totals.c
_SHRINK = Statement(
    update(experience_totals)
    .where(
        _totals.tenant == bindparam("of_tenant"),
        _totals.namespace == bindparam("of_namespace"),
        _totals.lane == bindparam("of_lane"),
    )
    .values(
        items=_totals["items"] - bindparam("fewer"),
        content_bytes=_totals.content_bytes - bindparam("freed"),
    )
)
_blobs = experience_blobs.c
_BLOB = Statement(
    select(_blobs.name, _blobs.held_by).where(
        _blobs.tenant == bindparam("tenant"), _blobs.address == bindparam("address")
    )
)
_LET_GO = Statement(
    update(experience_blobs)
    .where(_blobs.tenant == bindparam("of_tenant"), _blobs.address == bindparam("of_address"))
    .values(held_by=bindparam("left"))
)
_BLOB_GONE = Statement(
    delete(experience_blobs).where(
        _blobs.tenant == bindparam("tenant"), _blobs.address == bindparam("address")
    )
)
_INLINE = Statement(
    select(experiences.c.number).where(
        experiences.c.number == bindparam("number"), experiences.c.content.is_(None)
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased:
    """How many are gone, the names of blobs that nobody holds, and what is to go next.

    `quarantined` are those that were put aside in place of going.
    """

    count: int
    blobs: tuple[str, ...]
    derived: tuple[int, ...]
    quarantined: int


def erase_numbers(
    connection: Connection,
    *,
    numbers: Sequence[int],
    order: Order,
    forgets: Sequence[Forget],
    only_of: PrincipalId | None,
) -> Erased:
    """Erase the experiences of those numbers; those that are gone are passed over.

    With `only_of` those of other agents are quarantined, unless they may instruct: these were
    vouched for. What the house itself made goes, for its words are those that it was made of.
    """
    driver = driver_of(connection)
    head = locked_head(driver, order.tenant)
    found = found_by_number(driver, order.tenant, numbers)
    going = [one for one in found if _goes(one, only_of)]
    staying = [one.number for one in found if not _goes(one, only_of)]
    derived = derived_of(driver, [one.number for one in going])
    marking = Marking(driver=driver, head=head, order=order)
    blobs = _erase(connection, going, marking=marking, forgets=forgets, is_withdrawn=True)
    # Read again: what had corrected one of them may be gone.
    quarantined = marking.put_aside(found_by_number(driver, order.tenant, staying))
    head.write(driver)
    return Erased(count=len(going), blobs=blobs, derived=derived, quarantined=quarantined)


def expire_numbers(
    connection: Connection, *, numbers: Sequence[int], order: Order, forgets: Sequence[Forget]
) -> Erased:
    """Erase what has had its time, and leave what was made of it, which has a time of its own."""
    driver = driver_of(connection)
    if not is_free(connection, Duty.RETENTION):
        return Erased(count=0, blobs=(), derived=(), quarantined=0)
    head = locked_head(driver, order.tenant)
    going = found_by_number(driver, order.tenant, numbers)
    marking = Marking(driver=driver, head=head, order=order)
    blobs = _erase(connection, going, marking=marking, forgets=forgets, is_withdrawn=False)
    head.write(driver)
    return Erased(count=len(going), blobs=blobs, derived=(), quarantined=0)


def _goes(experience: Experience, only_of: PrincipalId | None) -> bool:
    writer = experience.provenance.writer
    return only_of in (None, writer) or writer.startswith(HOUSE_PREFIX)


def _erase(
    connection: Connection,
    going: Sequence[Experience],
    *,
    marking: Marking,
    forgets: Sequence[Forget],
    is_withdrawn: bool,
) -> tuple[str, ...]:
    """Delete experiences and log that; return the names of the blobs that nobody holds.

    What is withdrawn corrects nothing any more; what has only had its time was none the less true.
    """
    driver, order = marking.driver, marking.order
    blobs = _let_go(driver, order.tenant, going)
    named = {one.experience_id: one for one in going}
    for one in going:
        if is_withdrawn and one.supersedes is not None:
            marking.restore(one, going=named)
    gone: list[dict[str, Value]] = [{"number": one.number} for one in going]
    if going:
        note_due(connection)
    with overwriting(connection):
        for statement in _GONE:
            statement.run_each(driver, gone)
    for one in going:
        _entomb(marking.head, one, order)
    _shrink(driver, order.tenant, going)
    if going:
        for forget in forgets:
            forget(connection, order.tenant, [one.experience_id for one in going])
    return blobs


def _entomb(head: Head, experience: Experience, order: Order) -> None:
    head.log(
        LogEvent.ERASED,
        experience_id=experience.experience_id,
        experience_number=experience.number,
        namespace=experience.namespace,
        standing=None,
        at_ms=order.now_ms,
        by=order.by,
        why=order.why,
    )


def _let_go(driver: Driver, tenant: TenantId, found: Sequence[Experience]) -> tuple[str, ...]:
    """Count fewer holders of each blob; return the names of those that nobody holds any more."""
    rows = _INLINE.rows_many(driver, [{"number": one.number} for one in found])
    in_blobs = {number for (number,) in rows}
    holders = Counter(one.address for one in found if one.number in in_blobs)
    freed = []
    for address, count in holders.items():
        this: dict[str, Value] = {"tenant": tenant, "address": address}
        row = _BLOB.row(driver, this)
        if row is None:
            continue
        name, held_by = row
        if held_by <= count:
            _BLOB_GONE.run(driver, this)
            freed.append(name)
        else:
            of_this: dict[str, Value] = {"of_tenant": tenant, "of_address": address}
            _LET_GO.run(driver, {**of_this, "left": held_by - count})
    return tuple(freed)


def _shrink(driver: Driver, tenant: TenantId, found: Sequence[Experience]) -> None:
    items, sizes = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for one in found:
        place = (one.namespace, one.lane.value)
        items[place] += 1
        sizes[place] += one.size_bytes
    rows: list[dict[str, Value]] = [
        {
            "of_tenant": tenant,
            "of_namespace": namespace,
            "of_lane": lane,
            "fewer": count,
            "freed": sizes[namespace, lane],
        }
        for (namespace, lane), count in items.items()
    ]
    _SHRINK.run_each(driver, rows)
