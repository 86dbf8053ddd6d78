"""The experiences that a write meets: what it repeats, what it corrects, what it is made of."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import bindparam, select

from governor.experience.experience import Experience
from governor.experience.kinds import Standing
from governor.ids import CallId, ExperienceId, NamespaceId, PrincipalId, TenantId
from memory_store.errors import AlreadyExistsError, ExperienceNotFoundError
from memory_store.experiences.drafts import ReadyDraft
from memory_store.experiences.tables import experience_namespaces, experiences
from memory_store.experiences.values import Written
from memory_store.statement import Driver, Statement

_rows = experiences.c
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


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRow:
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
    standing: Standing
    superseded_by: ExperienceId | None


CallKey = tuple[str, str, str, str]


def call_key(experience: Experience) -> CallKey | None:
    """Return what makes two writes one: the call, what it wrote, who did, and where to."""
    provenance = experience.provenance
    if provenance.call_id is None:
        return None
    return (provenance.call_id, experience.address, experience.namespace, provenance.writer)


@dataclass(slots=True, kw_only=True)
class Met:
    """The experiences that a write meets: what it repeats, corrects, and is made of."""

    tenant: TenantId
    spaces: dict[str, int | None]
    _by_id: dict[str, KnownRow] = field(default_factory=dict)
    _by_call: dict[CallKey, KnownRow] = field(default_factory=dict)
    _new: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, driver: Driver, tenant: TenantId, drafts: Sequence[ReadyDraft]) -> "Met":
        """Return what `drafts` meet."""
        drawn = [draft.experience for draft in drafts]
        ids = {one.experience_id for one in drawn}
        ids.update(one.supersedes for one in drawn if one.supersedes is not None)
        ids.update(source for one in drawn for source in one.provenance.derived_from)
        calls = {key[:2] for one in drawn if (key := call_key(one)) is not None}
        rows = _BY_ID.rows_many(driver, [{"tenant": tenant, "experience_id": one} for one in ids])
        rows += _BY_CALL.rows_many(
            driver, [{"call_id": call_id, "address": address} for call_id, address in calls]
        )
        spaces = {one.namespace for one in drawn}
        found = _SPACE.rows_many(driver, [{"namespace": one, "tenant": tenant} for one in spaces])
        known = cls(tenant=tenant, spaces={row[0]: row[1] for row in found})
        # A call id may stand in an export that another tenant took in: that is not met here.
        for row in map(_read, rows):
            if row.tenant == tenant:
                known.add(row, is_new=False)
        return known

    def add(self, row: KnownRow, *, is_new: bool) -> None:
        """Take in an experience that is there."""
        self._by_id[row.experience_id] = row
        if row.call_id is not None:
            self._by_call[row.call_id, row.address, row.namespace, row.writer] = row
        if is_new:
            self._new.add(row.experience_id)

    def get(self, experience_id: ExperienceId, namespace: NamespaceId | None = None) -> KnownRow:
        """Return an experience of the tenant, in that namespace if one is named.

        Raises:
            ExperienceNotFoundError: it has no such one there.
        """
        row = self.find(experience_id, namespace)
        if row is None:
            raise ExperienceNotFoundError
        return row

    def find(
        self, experience_id: ExperienceId, namespace: NamespaceId | None = None
    ) -> KnownRow | None:
        """Return an experience of the tenant if it is there, in that namespace if one is named."""
        row = self._by_id.get(experience_id)
        return None if row is None or namespace not in (None, row.namespace) else row

    def repeated(self, experience: Experience) -> KnownRow | None:
        """Return what `experience` repeats.

        Raises:
            AlreadyExistsError: the id is that of something else.
        """
        row = self._by_id.get(experience.experience_id)
        if row is None:
            key = call_key(experience)
            return None if key is None else self._by_call.get(key)
        told = (row.namespace, row.writer, row.address)
        if told != (experience.namespace, experience.provenance.writer, experience.address):
            raise AlreadyExistsError
        return row

    def written(self, draft: ReadyDraft) -> Written:
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


def identity(experience: Experience) -> object:
    """Return what makes two drafts the same write."""
    return call_key(experience) or experience.experience_id


def fresh_of(drafts: Sequence[ReadyDraft], known: Met) -> list[ReadyDraft]:
    """Return those of `drafts` that repeat neither what is there nor one another."""
    found: dict[object, ReadyDraft] = {}
    ids: dict[str, ReadyDraft] = {}
    for draft in drafts:
        experience = draft.experience
        same = ids.setdefault(experience.experience_id, draft)
        if same.experience.address != experience.address:
            raise AlreadyExistsError
        if known.repeated(experience) is None:
            found.setdefault(identity(experience), draft)
    return list(found.values())


def _read(row: Sequence[Any]) -> KnownRow:
    named = dict(zip(_ROW_NAMES, row, strict=True))
    return KnownRow(**{**named, "standing": Standing(named["standing"])})


def row_of(experience: Experience, entry_number: int) -> KnownRow:
    """Return what is known of an experience that was just written."""
    return KnownRow(
        number=experience.number,
        experience_id=experience.experience_id,
        tenant=experience.tenant,
        namespace=experience.namespace,
        writer=experience.provenance.writer,
        call_id=experience.provenance.call_id,
        address=experience.address,
        size_bytes=experience.size_bytes,
        entry_number=entry_number,
        standing=experience.standing,
        superseded_by=None,
    )
