"""The archive's rows: which entries there are, and how many bytes each tenant has in them."""

from collections import Counter
from collections.abc import Collection
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, Select, bindparam, delete, select, update
from sqlalchemy.dialects.postgresql import insert

from governor.ids import ArchiveId, CallId, PrincipalId, SessionId, TenantId
from memory_store.advisory import Duty, is_free
from memory_store.tables import archive_totals, archives

# How many entries one transaction removes, so that nobody behind it waits for long.
REMOVED_AT_ONCE = 256

_ENTRIES = select(archives.c.archive_id, archives.c.tenant, archives.c.size_bytes)
_new_total = insert(archive_totals)
_GROW = _new_total.on_conflict_do_update(
    index_elements=["tenant"],
    set_={"total_bytes": archive_totals.c.total_bytes + _new_total.excluded.total_bytes},
)
_SHRINK = (
    update(archive_totals)
    .where(archive_totals.c.tenant == bindparam("of_tenant"))
    .values(total_bytes=archive_totals.c.total_bytes - bindparam("freed_bytes"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveRow:
    """One entry, column by column."""

    archive_id: ArchiveId
    tenant: TenantId
    agent: PrincipalId
    session: SessionId
    call_id: CallId
    sha256: str
    size_bytes: int
    media_type: str
    created_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """An entry whose row is no more, so that its file may go."""

    archive_id: ArchiveId
    tenant: TenantId
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """What one attempt to store an entry did; if it did not store it, the next one may."""

    is_stored: bool
    evicted: tuple[Removed, ...]


def place(connection: Connection, *, row: ArchiveRow, bytes_max: int) -> Placement:
    """Store `row` if it fits beside its tenant's entries, of which the oldest ones give way.

    At most `REMOVED_AT_ONCE` of them do. If that is too little room nothing is stored, and
    the next attempt goes on from there.
    """
    assert row.size_bytes <= bytes_max, "no eviction makes room for this"
    excess_bytes = _locked_total_bytes(connection, row.tenant) + row.size_bytes - bytes_max
    evicted = _oldest_above(connection, row.tenant, excess_bytes) if excess_bytes > 0 else ()
    _remove(connection, evicted)
    is_stored = sum(entry.size_bytes for entry in evicted) >= excess_bytes
    if is_stored:
        connection.execute(insert(archives), asdict(row))
        connection.execute(_GROW, {"tenant": row.tenant, "total_bytes": row.size_bytes})
    return Placement(is_stored=is_stored, evicted=evicted)


def remove_before(connection: Connection, *, before_ms: int) -> tuple[Removed, ...]:
    """Remove the oldest entries that are older than `before_ms`, at most `REMOVED_AT_ONCE`."""
    if not is_free(connection, Duty.RETENTION):
        return ()
    old = _oldest(connection, _ENTRIES.where(archives.c.created_at_ms < before_ms))
    _remove(connection, old)
    return old


def _locked_total_bytes(connection: Connection, tenant: TenantId) -> int:
    """Return what the tenant's entries have, with nobody else adding one until the end."""
    connection.execute(_GROW, {"tenant": tenant, "total_bytes": 0})
    return total_bytes(connection, tenant)


def total_bytes(connection: Connection, tenant: TenantId) -> int:
    """Return how many bytes the tenant's entries have together."""
    query = select(archive_totals.c.total_bytes).where(archive_totals.c.tenant == tenant)
    return connection.execute(query).scalar() or 0


def known_among(connection: Connection, names: Collection[str]) -> frozenset[str]:
    """Return those of `names` that are the ids of entries."""
    query = select(archives.c.archive_id).where(archives.c.archive_id.in_(names))
    return frozenset(connection.execute(query).scalars())


def _oldest_above(
    connection: Connection, tenant: TenantId, excess_bytes: int
) -> tuple[Removed, ...]:
    """Return the tenant's oldest entries, as few as have `excess_bytes` together."""
    oldest = _oldest(connection, _ENTRIES.where(archives.c.tenant == tenant))
    freed_bytes = 0
    for count, entry in enumerate(oldest, start=1):
        freed_bytes += entry.size_bytes
        if freed_bytes >= excess_bytes:
            return oldest[:count]
    return oldest


def _oldest(connection: Connection, query: Select[tuple[str, str, int]]) -> tuple[Removed, ...]:
    rows = connection.execute(query.order_by(archives.c.created_at_ms).limit(REMOVED_AT_ONCE))
    return tuple(
        Removed(
            archive_id=ArchiveId(row.archive_id),
            tenant=TenantId(row.tenant),
            size_bytes=row.size_bytes,
        )
        for row in rows
    )


def _remove(connection: Connection, entries: Collection[Removed]) -> None:
    if not entries:
        return
    ids = [entry.archive_id for entry in entries]
    connection.execute(delete(archives).where(archives.c.archive_id.in_(ids)))
    freed_bytes: Counter[TenantId] = Counter()
    for entry in entries:
        freed_bytes[entry.tenant] += entry.size_bytes
    connection.execute(
        _SHRINK,
        [{"of_tenant": tenant, "freed_bytes": freed} for tenant, freed in freed_bytes.items()],
    )
