"""One write of experiences: what is checked, numbered, logged and stored in one transaction."""

import secrets
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from governor.experience.chain import LogEvent, digest_of
from governor.experience.experience import Experience
from governor.experience.kinds import Standing, TrustLane
from governor.ids import CallId, ExperienceId, NamespaceId, PrincipalId, TenantId
from memory_store.engine import driver_of
from memory_store.errors import (
    AlreadyExistsError,
    ExperienceNotFoundError,
    ExperienceQuotaError,
    ExperienceRevokedError,
    ExperienceSupersededError,
    NamespaceNotFoundError,
)
from memory_store.experiences.drafts import Prepared
from memory_store.experiences.heads import Head, locked_head
from memory_store.experiences.rows import columns_of
from memory_store.experiences.tables import (
    experience_blobs,
    experience_links,
    experience_namespaces,
    experience_terms,
    experience_totals,
    experience_vectors,
    experiences,
)
from memory_store.experiences.values import Relation, WriteLimits, Written
from memory_store.statement import Driver, Statement, Value

_SALT_BYTES = 16


class BlobsMissingError(Exception):
    """Contents that have to be stored before the rows that name them."""

    def __init__(self, addresses: frozenset[str]) -> None:
        super().__init__()
        self.addresses = addresses


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What a write did; of the blobs it was offered, `unused` are named by no row."""

    written: tuple[Written, ...]
    unused: tuple[str, ...]


def _inserted(table: Any) -> Statement:
    return Statement(insert(table).values({c.name: bindparam(c.name) for c in table.columns}))


_rows = experiences.c
_PUT = _inserted(experiences)
_PUT_TERMS = _inserted(experience_terms)
_PUT_VECTOR = _inserted(experience_vectors)
_PUT_LINK = _inserted(experience_links)
_STANDS = (
    _rows.number,
    _rows.experience_id,
    _rows.tenant,
    _rows.namespace,
    _rows.writer,
    _rows.call_id,
    _rows.address,
    _rows.size_bytes,
    _rows.entry_number,
    _rows.standing,
    _rows.superseded_by,
)
_ROW_NAMES = tuple(column.name for column in _STANDS)
_BY_ID = Statement(
    select(*_STANDS).where(
        _rows.tenant == bindparam("tenant"), _rows.experience_id == bindparam("experience_id")
    )
)
# By the call alone: a call writes little, and SQLite would rather follow the index of writers.
_BY_CALL = Statement(
    select(*_STANDS).where(
        _rows.call_id == bindparam("call_id"), _rows.address == bindparam("address")
    )
)
_spaces = experience_namespaces.c
_SPACE = Statement(
    select(_spaces.namespace, _spaces.bytes_max).where(
        _spaces.namespace == bindparam("namespace"), _spaces.tenant == bindparam("tenant")
    )
)
_totals = experience_totals.c
_TOTALS = Statement(
    select(_totals.namespace, _totals.lane, _totals["items"], _totals.content_bytes).where(
        _totals.tenant == bindparam("tenant")
    )
)
_new_total = upsert(experience_totals)
GROW = Statement(
    _new_total.values(
        {c.name: bindparam(c.name) for c in experience_totals.columns}
    ).on_conflict_do_update(
        index_elements=["tenant", "namespace", "lane"],
        set_={
            "items": _totals["items"] + _new_total.excluded["items"],
            "content_bytes": _totals.content_bytes + _new_total.excluded.content_bytes,
        },
    )
)
_blobs = experience_blobs.c
HOLD = Statement(
    update(experience_blobs)
    .where(_blobs.tenant == bindparam("of_tenant"), _blobs.address == bindparam("of_address"))
    .values(held_by=_blobs.held_by + bindparam("more"))
)
_PUT_BLOB = _inserted(experience_blobs)
SUPERSEDE = Statement(
    update(experiences)
    .where(_rows.number == bindparam("of_number"))
    .values(
        standing=bindparam("standing"),
        superseded_by=bindparam("by"),
        superseded_at_ms=bindparam("at_ms"),
        superseded_from_ms=bindparam("from_ms"),
    )
)


def store(
    connection: Connection,
    *,
    drafts: Sequence[Prepared],
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
    known = _Known.read(driver, head.tenant, drafts)
    fresh = _fresh(drafts, known)
    blobs = _held_blobs(driver, head.tenant, fresh, offered)
    batch = _Batch(head=head, known=known)
    numbers = numbers_after(driver, len(fresh))
    for number, draft in zip(numbers, fresh, strict=True):
        batch.take(draft, number=number, salt=secrets.token_bytes(_SALT_BYTES))
    _check_room(driver, head.tenant, batch, limits)
    batch.write(driver)
    written = tuple(known.written(draft) for draft in drafts)
    unused = tuple(name for name in offered.values() if name not in blobs)
    return Stored(written=written, unused=unused)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """What a write has to know of an experience that is there."""

    number: int
    experience_id: ExperienceId
    tenant: TenantId
    namespace: NamespaceId
    writer: PrincipalId
    call_id: CallId | None
    address: str
    size_bytes: int
    entry_number: int
    standing: str
    superseded_by: ExperienceId | None


_CallKey = tuple[str, str, str, str]


def _call_key(experience: Experience) -> _CallKey | None:
    """Return what makes two writes one: the call, what it wrote, who did, and where to."""
    provenance = experience.provenance
    if provenance.call_id is None:
        return None
    return (provenance.call_id, experience.address, experience.namespace, provenance.writer)


@dataclass(slots=True, kw_only=True)
class _Known:
    """The experiences that a write meets: what it repeats, corrects, and is made of."""

    tenant: TenantId
    spaces: dict[str, int | None]
    _by_id: dict[str, _Row] = field(default_factory=dict)
    _by_call: dict[_CallKey, _Row] = field(default_factory=dict)
    _new: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, driver: Driver, tenant: TenantId, drafts: Sequence[Prepared]) -> "_Known":
        """Return what `drafts` meet."""
        drawn = [draft.experience for draft in drafts]
        ids = {one.experience_id for one in drawn}
        ids.update(one.supersedes for one in drawn if one.supersedes is not None)
        ids.update(source for one in drawn for source in one.provenance.derived_from)
        calls = {key[:2] for one in drawn if (key := _call_key(one)) is not None}
        rows = _BY_ID.rows_many(driver, [{"tenant": tenant, "experience_id": one} for one in ids])
        rows += _BY_CALL.rows_many(
            driver, [{"call_id": call_id, "address": address} for call_id, address in calls]
        )
        spaces = {one.namespace for one in drawn}
        found = _SPACE.rows_many(driver, [{"namespace": one, "tenant": tenant} for one in spaces])
        known = cls(tenant=tenant, spaces={row[0]: row[1] for row in found})
        for row in rows:
            known.add(_Row(**dict(zip(_ROW_NAMES, row, strict=True))), is_new=False)
        return known

    def add(self, row: _Row, *, is_new: bool) -> None:
        """Take in an experience that is there."""
        self._by_id[row.experience_id] = row
        if row.tenant == self.tenant and row.call_id is not None:
            self._by_call[row.call_id, row.address, row.namespace, row.writer] = row
        if is_new:
            self._new.add(row.experience_id)

    def get(self, experience_id: ExperienceId, namespace: NamespaceId | None = None) -> _Row:
        """Return an experience of the tenant, in that namespace if one is named.

        Raises:
            ExperienceNotFoundError: it has no such one there.
        """
        row = self._by_id.get(experience_id)
        if row is None or row.tenant != self.tenant or namespace not in (None, row.namespace):
            raise ExperienceNotFoundError
        return row

    def repeated(self, experience: Experience) -> _Row | None:
        """Return what `experience` repeats.

        Raises:
            AlreadyExistsError: the id is that of something else.
        """
        row = self._by_id.get(experience.experience_id)
        if row is None:
            key = _call_key(experience)
            return None if key is None else self._by_call.get(key)
        told = (row.tenant, row.namespace, row.writer, row.address)
        asked = (self.tenant, experience.namespace, experience.provenance.writer)
        if told != (*asked, experience.address):
            raise AlreadyExistsError
        return row

    def written(self, draft: Prepared) -> Written:
        """Return what became of a draft."""
        row = self.repeated(draft.experience)
        assert row is not None, "it is written by now"
        return Written(
            experience_id=row.experience_id,
            number=row.number,
            address=row.address,
            size_bytes=row.size_bytes,
            entry_number=row.entry_number,
            is_new=row.experience_id in self._new
            and row.experience_id == draft.experience.experience_id,
        )


def _fresh(drafts: Sequence[Prepared], known: _Known) -> list[Prepared]:
    """Return those of `drafts` that repeat neither what is there nor one another."""
    found: dict[object, Prepared] = {}
    ids: dict[str, Prepared] = {}
    for draft in drafts:
        experience = draft.experience
        same = ids.setdefault(experience.experience_id, draft)
        if same.experience.address != experience.address:
            raise AlreadyExistsError
        if known.repeated(experience) is None:
            found.setdefault(_call_key(experience) or experience.experience_id, draft)
    return list(found.values())


@dataclass(slots=True, kw_only=True)
class _Batch:
    """What one write has decided, to be written at its end."""

    head: Head
    known: _Known
    items: Counter[tuple[NamespaceId, TrustLane]] = field(default_factory=Counter)
    sizes: Counter[tuple[NamespaceId, TrustLane]] = field(default_factory=Counter)
    _rows: list[dict[str, Any]] = field(default_factory=list)
    _terms: list[dict[str, Any]] = field(default_factory=list)
    _vectors: list[dict[str, Any]] = field(default_factory=list)
    _links: list[dict[str, Any]] = field(default_factory=list)
    _superseded: list[dict[str, Any]] = field(default_factory=list)

    def take(self, draft: Prepared, *, number: int, salt: bytes) -> None:
        """Log a draft under its number."""
        experience = replace(draft.experience, number=number)
        if experience.namespace not in self.known.spaces:
            raise NamespaceNotFoundError
        entry = self.head.log(
            LogEvent.WRITTEN,
            experience_id=experience.experience_id,
            experience_number=number,
            namespace=experience.namespace,
            standing=experience.standing,
            at_ms=experience.learned_at_ms,
            digest=digest_of(experience, secret=self.head.secret, salt=salt),
        )
        content = None if draft.is_blob else draft.content
        row = columns_of(experience, traits=draft.traits, salt=salt, content=content)
        self._rows.append({**row, "entry_number": entry.number, "entry_hash": entry.hash})
        self._index(draft, number)
        self._link(experience)
        self.items[experience.namespace, experience.lane] += 1
        self.sizes[experience.namespace, experience.lane] += experience.size_bytes
        self.known.add(_row_of(experience, entry.number), is_new=True)

    def _index(self, draft: Prepared, number: int) -> None:
        namespace = draft.experience.namespace
        self._terms.append({"number": number, "namespace": namespace, "terms": draft.terms})
        if draft.vector is not None:
            axes = len(draft.vector) // 2
            self._vectors.append({"number": number, "axes": axes, "vector": draft.vector})

    def _link(self, experience: Experience) -> None:
        for source_id in experience.provenance.derived_from:
            source = self.known.get(source_id)
            # Or what was withdrawn would come back in the words of another.
            if source.standing == Standing.REVOKED.value:
                raise ExperienceRevokedError
            self._tie(experience, source, Relation.DERIVED_FROM)
        if experience.supersedes is None:
            return
        corrected = self.known.get(experience.supersedes, experience.namespace)
        self._tie(experience, corrected, Relation.SUPERSEDES)
        # What nobody vouches for yet corrects nothing; it does when it is promoted.
        if experience.standing is not Standing.ACTIVE:
            return
        if corrected.superseded_by is not None:
            raise ExperienceSupersededError
        self._supersede(corrected, experience)

    def _tie(self, experience: Experience, to: _Row, relation: Relation) -> None:
        ends = {"source": experience.number, "target": to.number}
        self._links.append({**ends, "relation": relation.value})

    def _supersede(self, corrected: _Row, by: Experience) -> None:
        self._superseded.append(
            {
                "of_number": corrected.number,
                "by": by.experience_id,
                "at_ms": by.learned_at_ms,
                "from_ms": by.valid_from_ms,
                "standing": superseded_standing(corrected.standing),
            }
        )
        self.known.add(replace(corrected, superseded_by=by.experience_id), is_new=False)
        self.head.log(
            LogEvent.MARKED,
            experience_id=corrected.experience_id,
            experience_number=corrected.number,
            namespace=corrected.namespace,
            standing=Standing(superseded_standing(corrected.standing)),
            at_ms=by.learned_at_ms,
            by=by.provenance.writer,
            why=f"corrected by {by.experience_id}",
        )

    def write(self, driver: Driver) -> None:
        """Write all of it."""
        _PUT.run_each(driver, self._rows)
        _PUT_TERMS.run_each(driver, self._terms)
        _PUT_VECTOR.run_each(driver, self._vectors)
        _PUT_LINK.run_each(driver, self._links)
        SUPERSEDE.run_each(driver, self._superseded)
        self.head.write(driver)
        grown: list[dict[str, Value]] = [
            {
                "tenant": self.head.tenant,
                "namespace": namespace,
                "lane": lane.value,
                "items": count,
                "content_bytes": self.sizes[namespace, lane],
            }
            for (namespace, lane), count in self.items.items()
        ]
        GROW.run_each(driver, grown)


def superseded_standing(standing: str) -> str:
    """Return where an experience stands once it is corrected: what was withdrawn stays so."""
    withdrawn = (Standing.REVOKED.value, Standing.QUARANTINED.value)
    return standing if standing in withdrawn else Standing.SUPERSEDED.value


def _row_of(experience: Experience, entry_number: int) -> _Row:
    return _Row(
        number=experience.number,
        experience_id=experience.experience_id,
        tenant=experience.tenant,
        namespace=experience.namespace,
        writer=experience.provenance.writer,
        call_id=experience.provenance.call_id,
        address=experience.address,
        size_bytes=experience.size_bytes,
        entry_number=entry_number,
        standing=experience.standing.value,
        superseded_by=None,
    )


def _held_blobs(
    driver: Driver, tenant: TenantId, drafts: Sequence[Prepared], offered: Mapping[str, str]
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


def _check_room(driver: Driver, tenant: TenantId, batch: _Batch, limits: WriteLimits) -> None:
    """Return if what is written fits.

    Raises:
        ExperienceQuotaError: a limit of the tenant, a lane or a namespace would be passed.
    """
    spaces = {space: batch.known.spaces[space] for space, _ in batch.items}
    if not _is_limited(limits) and not any(most is not None for most in spaces.values()):
        return
    items, sizes = Counter(batch.items), Counter(batch.sizes)
    for namespace, lane, count, size in _TOTALS.rows(driver, {"tenant": tenant}):
        items[namespace, TrustLane(lane)] += count
        sizes[namespace, TrustLane(lane)] += size
    for what, kept, most in _measures(items, sizes, limits, spaces):
        if most is not None and kept > most:
            message = f"{what} would hold {kept} of at most {most}; {_ROOM}"
            raise ExperienceQuotaError(message)


_ROOM = "erase some of what is kept there or have the limit raised"
_Counts = Mapping[tuple[NamespaceId, TrustLane], int]


def _is_limited(limits: WriteLimits) -> bool:
    return bool(
        limits.lane_bytes_max
        or limits.lane_items_max
        or limits.tenant_bytes_max is not None
        or limits.tenant_items_max is not None
    )


def _measures(
    items: _Counts, sizes: _Counts, limits: WriteLimits, spaces: Mapping[NamespaceId, int | None]
) -> Iterator[tuple[str, int, int | None]]:
    """Yield what is measured, in words, how much is kept, and how much may be."""
    yield "the tenant's items", sum(items.values()), limits.tenant_items_max
    yield "the tenant's bytes", sum(sizes.values()), limits.tenant_bytes_max
    for lane, most in limits.lane_items_max:
        yield f"items of lane {lane.value}", _of_lane(items, lane), most
    for lane, most in limits.lane_bytes_max:
        yield f"bytes of lane {lane.value}", _of_lane(sizes, lane), most
    for space, bytes_max in spaces.items():
        kept = sum(size for (namespace, _), size in sizes.items() if namespace == space)
        yield "the namespace's bytes", kept, bytes_max


def _of_lane(counts: _Counts, lane: TrustLane) -> int:
    return sum(count for (_, counted), count in counts.items() if counted is lane)
