"""Experiences carried out of a store as lines, and taken into one from there."""

import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from sqlalchemy import Connection, and_, bindparam, literal_column, select

from governor.experience.chain import LogEvent
from governor.experience.experience import Draft, Experience
from governor.experience.kinds import Standing, TrustLane
from governor.experience.quota import Exceeded
from governor.experience.signing import Claim, claim_of_draft, holds
from governor.ids import ExperienceId, NamespaceId, PrincipalId, TenantId
from memory_store.engine import driver_of
from memory_store.errors import (
    AlreadyExistsError,
    ArchiveCorruptError,
    ExperienceCorruptError,
    InvalidExperienceError,
    StoreError,
    StoreOverloadedError,
    StoreUnavailableError,
)
from memory_store.experiences.blobs import Blobs
from memory_store.experiences.book import LIMITS, ExperienceBook
from memory_store.experiences.browsing import intact
from memory_store.experiences.drafts import LISTED_MAX, address_of
from memory_store.experiences.heads import read_head
from memory_store.experiences.keeping import HOUSE
from memory_store.experiences.lines import Carried, carried_of, line_of
from memory_store.experiences.namespaces import NamespaceBook
from memory_store.experiences.rows import HEAD, bytes_of, kept_of
from memory_store.experiences.tables import (
    experience_blobs,
    experience_log,
    experience_namespaces,
    experience_terms,
    experience_vectors,
    experiences,
)
from memory_store.experiences.values import Indexed, Superseded, WriteLimits
from memory_store.reader import Reader
from memory_store.statement import Driver, Statement, Value

ROWS_AT_ONCE = 50
RENAMED_MAX = 100_000
FAULTS_MAX = 1_000
_rows, _log = experiences.c, experience_log.c
_AT_SUPERSEDED_FROM = [column.name for column in HEAD].index("superseded_from_ms")
# What had only had its time may come back; what somebody had erased may not.
_ERASED = Statement(
    select(_log.number).where(
        _log.tenant == bindparam("tenant"),
        _log.experience_id == bindparam("experience_id"),
        _log.event == literal_column(f"'{LogEvent.ERASED.value}'"),
        _log.by != literal_column(f"'{HOUSE}'"),
    )
)
_STANDS = Statement(
    select(_rows.standing).where(
        _rows.tenant == bindparam("tenant"), _rows.experience_id == bindparam("experience_id")
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """Where something that was carried in is put."""

    lane: TrustLane
    standing: Standing
    takes_effect: bool


Place = Callable[[Carried, bool], Put]
"""Decides where something is put, and is told whether this house had signed it as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownHere:
    """What a house knows of what is carried in: that it signed it, and why it may not come back."""

    is_signed: bool
    withdrawn: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A line that was not taken, and why."""

    line: int
    why: str


@dataclass(slots=True, kw_only=True)
class Taken:
    """What became of lines: taken, there already, taken under another id, and not taken.

    The first of the faults are kept, all are counted in `refused`.
    """

    new: int = 0
    known: int = 0
    renamed: int = 0
    refused: int = 0
    faults: list[Fault] = field(default_factory=list)

    def refuse(self, line: int, why: str) -> None:
        """Take note of a line that was not taken."""
        self.refused += 1
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(Fault(line=line, why=why))


class Transfer:
    """Carries the experiences of a tenant out of a store and into it."""

    def __init__(
        self, *, book: ExperienceBook, namespaces: NamespaceBook, reader: Reader, blobs: Blobs
    ) -> None:
        self._book = book
        self._namespaces = namespaces
        self._reader = reader
        self._blobs = blobs

    async def lines(
        self, tenant: TenantId, *, namespaces: Sequence[NamespaceId] = ()
    ) -> AsyncIterator[bytes]:
        """Yield a line for each experience, in the order in which they were written.

        With `namespaces`, for those in them only. What is erased while this runs is left out.

        Raises:
            ExperienceCorruptError: what is kept of one is not what was written.
            StoreUnavailableError: the disk or the database refused.
        """
        after = 0
        head = await self._reader.run(lambda connection: read_head(driver_of(connection), tenant))
        secret = b"" if head is None else head.secret
        while rows := await self._reader.run(
            partial(_carried_out, tenant=tenant, namespaces=namespaces, after=after)
        ):
            for row in rows:
                after = row.number
                line = await self._line(row.values, tenant, secret)
                if line is not None:
                    yield line

    async def take(
        self,
        lines: AsyncIterator[bytes],
        place: Place,
        *,
        tenant: TenantId,
        now_ms: int,
        limits: WriteLimits = LIMITS,
    ) -> Taken:
        """Return what became of `lines`, each of which is put where `place` says.

        A line that cannot be taken is left out and told of; the others are. One whose id is that
        of something else here is taken under a new one, and what is made of it says so.

        Raises:
            StoreUnavailableError: the disk or the database refused; take the lines again.
            StoreOverloadedError: too much waits to be written; take the lines again.
        """
        taken = Taken()
        intake = _Intake(transfer=self, tenant=tenant, now_ms=now_ms, limits=limits)
        number = 0
        async for line in lines:
            number += 1
            if not line.strip():
                continue
            try:
                await intake.take(carried_of(line), place, taken)
            except (StoreUnavailableError, StoreOverloadedError):
                raise
            except StoreError as error:
                taken.refuse(number, str(error))
        return taken

    async def standing_here(
        self, carried: Carried, *, tenant: TenantId, namespace: NamespaceId
    ) -> KnownHere:
        """Return what this house knows of what is carried, which is to be put into `namespace`."""
        return await self._reader.run(
            partial(_known, carried=carried, tenant=tenant, namespace=namespace)
        )

    async def withdrawn_here(self, draft: Draft) -> str:
        """Return why a draft may not come back into its tenant; empty if it may."""
        return await self._reader.run(
            lambda connection: _withdrawn(driver_of(connection), draft, draft.tenant)
        )

    async def space(
        self, name: str, *, tenant: TenantId, owner: PrincipalId | None, now_ms: int
    ) -> NamespaceId:
        """Return the namespace of that name, which is made if it is not there."""
        made = await self._namespaces.make(name, tenant=tenant, owner=owner, now_ms=now_ms)
        return made.namespace

    async def write(self, indexed: Indexed, limits: WriteLimits) -> bool:
        """Return whether a draft is new; it is stored, or was."""
        (result,) = await self._book.write((indexed,), limits=limits)
        if isinstance(result, Exceeded):
            message = (
                f"the writer's {result.unit} in lane {result.lane.value} are above the limit of "
                f"{result.limit}; there is room again at {result.resets_at_ms} ms"
            )
            raise InvalidExperienceError(message)
        return result.is_new

    async def _line(self, row: Sequence[Any], tenant: TenantId, secret: bytes) -> bytes | None:
        *head, content, blob, terms, vector, name, owner, superseded_by, corrects = row
        kept = kept_of(head)
        stated = kept.stated
        try:
            whole = (
                await self._blobs.read(tenant, blob or "", address=stated.address)
                if content is None
                else intact(bytes_of(content), stated.address)
            )
        except ArchiveCorruptError:
            query = select(_rows.number).where(_rows.number == stated.number)
            if await self._reader.run(lambda connection: connection.scalar(query)) is None:
                return None
            message = f"{stated.experience_id}: {ExperienceCorruptError.__doc__}"
            raise ExperienceCorruptError(message) from None
        return line_of(
            stated,
            content=whole,
            terms=terms or "",
            vector=None if vector is None else bytes_of(vector),
            traits=kept.traits,
            takes_effect=superseded_by == stated.experience_id,
            superseded=_superseded(stated, head, corrects),
            namespace=name,
            owner=PrincipalId(owner) if owner else None,
            secret=secret,
        )


@dataclass(slots=True, kw_only=True)
class _Intake:
    """What is taken in one go: the namespaces that were found, the ids that had to change."""

    transfer: Transfer
    tenant: TenantId
    now_ms: int
    limits: WriteLimits
    _spaces: dict[tuple[str, PrincipalId | None], NamespaceId] = field(default_factory=dict)
    _renamed: dict[str, ExperienceId] = field(default_factory=dict)

    async def take(self, carried: Carried, place: Place, taken: Taken) -> None:
        """Store what is carried where `place` says."""
        namespace = await self._space(carried)
        known = await self.transfer.standing_here(carried, tenant=self.tenant, namespace=namespace)
        if known.withdrawn:
            raise InvalidExperienceError(known.withdrawn)
        put = place(carried, known.is_signed)
        draft = replace(
            carried.indexed.draft,
            tenant=self.tenant,
            namespace=namespace,
            lane=put.lane,
            standing=put.standing,
            supersedes=self._here(carried.indexed.draft.supersedes),
            provenance=replace(
                carried.indexed.draft.provenance,
                derived_from=tuple(
                    self._renamed.get(one, one)
                    for one in carried.indexed.draft.provenance.derived_from
                ),
            ),
        )
        indexed = replace(carried.indexed, draft=draft, takes_effect=put.takes_effect)
        try:
            is_new = await self.transfer.write(indexed, self.limits)
        except AlreadyExistsError:
            is_new = await self._rename(carried, indexed)
            taken.renamed += 1
        taken.new += is_new
        taken.known += not is_new

    async def _rename(self, carried: Carried, indexed: Indexed) -> bool:
        """Return whether a draft is new under an id that is the same whenever it is taken."""
        if len(self._renamed) >= RENAMED_MAX:
            message = f"more than {RENAMED_MAX} ids are taken; take fewer lines at once"
            raise InvalidExperienceError(message)
        old = indexed.draft
        named = "\n".join((carried.origin, old.experience_id, address_of(old.content)))
        fresh = ExperienceId(f"exp_{hashlib.sha256(named.encode()).hexdigest()[:24]}")
        draft = replace(old, experience_id=fresh)
        withdrawn = await self.transfer.withdrawn_here(draft)
        if withdrawn:
            raise InvalidExperienceError(withdrawn)
        self._renamed[old.experience_id] = fresh
        return await self.transfer.write(replace(indexed, draft=draft), self.limits)

    async def _space(self, carried: Carried) -> NamespaceId:
        key = (carried.namespace, carried.owner)
        if key not in self._spaces:
            self._spaces[key] = await self.transfer.space(
                carried.namespace, tenant=self.tenant, owner=carried.owner, now_ms=self.now_ms
            )
        return self._spaces[key]

    def _here(self, experience_id: ExperienceId | None) -> ExperienceId | None:
        if experience_id is None:
            return None
        return self._renamed.get(experience_id, experience_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A row as it is carried out, and the number to go on from."""

    number: int
    values: tuple[Any, ...]


def _carried_out(
    connection: Connection, *, tenant: TenantId, namespaces: Sequence[NamespaceId], after: int
) -> list[_Row]:
    corrected, correction = experiences.alias(), experiences.alias()
    query = (
        select(
            *HEAD,
            _rows.content,
            experience_blobs.c.name,
            experience_terms.c.terms,
            experience_vectors.c.vector,
            experience_namespaces.c.name,
            experience_namespaces.c.owner,
            corrected.c.superseded_by,
            correction.c.supersedes,
        )
        .join_from(
            experiences,
            experience_namespaces,
            experience_namespaces.c.namespace == _rows.namespace,
        )
        .outerjoin(
            experience_blobs,
            and_(
                experience_blobs.c.tenant == _rows.tenant,
                experience_blobs.c.address == _rows.address,
            ),
        )
        .outerjoin(experience_terms, experience_terms.c.number == _rows.number)
        .outerjoin(experience_vectors, experience_vectors.c.number == _rows.number)
        .outerjoin(
            corrected,
            and_(
                corrected.c.tenant == _rows.tenant,
                corrected.c.experience_id == _rows.supersedes,
            ),
        )
        .outerjoin(
            correction,
            and_(
                correction.c.tenant == _rows.tenant,
                correction.c.experience_id == _rows.superseded_by,
            ),
        )
        .where(_rows.tenant == tenant, _rows.number > after)
        .order_by(_rows.number)
        .limit(ROWS_AT_ONCE)
    )
    if namespaces:
        query = query.where(_rows.namespace.in_(namespaces))
    return [_Row(number=row[0], values=tuple(row)) for row in connection.execute(query)]


def _known(
    connection: Connection, *, carried: Carried, tenant: TenantId, namespace: NamespaceId
) -> KnownHere:
    driver = driver_of(connection)
    withdrawn = _withdrawn(driver, carried.indexed.draft, tenant)
    head = read_head(driver, tenant)
    # Its name says where it goes, and nobody signed that.
    is_signed = (
        head is not None
        and namespace == carried.origin
        and carried.is_sealed(head.secret)
        and holds(_claim(carried, tenant), carried.signature, key=head.secret)
    )
    return KnownHere(is_signed=is_signed, withdrawn=withdrawn)


def _withdrawn(driver: Driver, draft: Draft, tenant: TenantId) -> str:
    """Return why a draft may not come back; empty if it may."""
    asked: dict[str, Value] = {"tenant": tenant, "experience_id": draft.experience_id}
    if _ERASED.row(driver, asked) is not None:
        return f"{draft.experience_id} was erased here, and does not come back"
    row = _STANDS.row(driver, asked)
    is_revoked = row is not None and row[0] == Standing.REVOKED.value
    if is_revoked and draft.standing is not Standing.REVOKED:
        return f"{draft.experience_id} was revoked here, and does not come back"
    if row is None:
        # Or what was erased would come back in the words of another.
        for source in draft.provenance.derived_from[:LISTED_MAX]:
            if _ERASED.row(driver, {"tenant": tenant, "experience_id": source}) is not None:
                return f"{source}, which it was made of, was erased here"
    return ""


def _superseded(stated: Experience, head: Sequence[Any], corrects: str | None) -> Superseded | None:
    """Return what superseded an experience, unless the line of that will say so."""
    if stated.superseded_by is None or corrects == stated.experience_id:
        return None
    from_ms = head[_AT_SUPERSEDED_FROM]
    return Superseded(
        by=stated.superseded_by,
        at_ms=stated.superseded_at_ms or stated.learned_at_ms,
        from_ms=stated.valid_from_ms if from_ms is None else from_ms,
    )


def _claim(carried: Carried, tenant: TenantId) -> Claim:
    draft = carried.indexed.draft
    signed = replace(draft, tenant=tenant, namespace=carried.origin)
    return claim_of_draft(signed, address=address_of(draft.content))
