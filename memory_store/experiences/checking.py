"""The books of a tenant's experiences looked through: what is kept against what was logged.

The log is read page by page beside the writer; each page is one state of the database. A row may
be newer than the entries read so far, so what seems wrong with a standing, or missing, is asked
again at the end, when the log has been read to where it then ended.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sqlalchemy import Connection, and_, func, select

from governor.experience.chain import LogEntry, LogEvent, breaks_in, digest_of, first_hash
from governor.experience.kinds import Standing
from governor.experience.signing import claim_of, holds
from governor.ids import ExperienceId, TenantId
from memory_store.engine import driver_of
from memory_store.errors import ArchiveCorruptError, ExperienceCorruptError, StoreUnavailableError
from memory_store.experiences.blobs import Blobs
from memory_store.experiences.browsing import intact, log_since
from memory_store.experiences.heads import Head, read_head
from memory_store.experiences.rows import HEAD, Kept, bytes_of, kept_of
from memory_store.experiences.tables import (
    experience_blobs,
    experience_log,
    experience_namespaces,
    experience_terms,
    experience_totals,
    experience_withdrawals,
    experiences,
)
from memory_store.experiences.ties import untied
from memory_store.experiences.values import Looked, Problem
from memory_store.reader import Reader

PROBLEMS_MAX = 1_000
ENTRIES_AT_ONCE = 500

_rows = experiences.c


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A row with its content, if it stands there, the blob's name, and whether it has words."""

    kept: Kept
    content: bytes | None
    blob: str | None
    has_terms: bool


@dataclass(slots=True, kw_only=True)
class _State:
    """How far the log has been read, and what is to be asked again when it ends.

    `missing` were written and have no row; `written` stand elsewhere than they were written to;
    `marked` were marked since, to where.
    """

    tenant: TenantId
    number: int
    hash: str
    entries: int = 0
    experiences: int = 0
    missing: dict[int, ExperienceId] = field(default_factory=dict)
    written: dict[int, Standing | None] = field(default_factory=dict)
    marked: dict[int, Standing | None] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def add(self, what: str, experience_id: ExperienceId | None = None) -> None:
        """Take a problem, as long as there are not too many."""
        if len(self.problems) <= PROBLEMS_MAX:
            self.problems.append(Problem(what=what, experience_id=experience_id))

    def take(self, page: "_Page") -> None:
        """Take the next entries of the log, with the rows that are there for them."""
        entries, found = page.entries, page.found
        for experience_id in page.unreadable:
            self.add("its row cannot be read", experience_id)
        for experience_id in page.untied:
            self.add("it is not tied to what it names, so it does not go with it", experience_id)
        for what in breaks_in(entries, after_number=self.number, after_hash=self.hash):
            self.add(what)
        self.number, self.hash = entries[-1].number, entries[-1].hash
        self.entries += len(entries)
        for entry in entries:
            self._follow(entry, found.get(entry.experience_number))

    def _follow(self, entry: LogEntry, found: _Found | None) -> None:
        number = entry.experience_number
        match entry.event:
            case LogEvent.WRITTEN:
                if found is None:
                    self.missing[number] = entry.experience_id
                    return
                self.experiences += 1
                if found.kept.experience.standing is not entry.standing:
                    self.written[number] = entry.standing
            case LogEvent.MARKED:
                self.marked[number] = entry.standing
            case LogEvent.ERASED:
                self.missing.pop(number, None)
                self.written.pop(number, None)
                self.marked.pop(number, None)
                if found is not None:
                    self.add("it was erased and is there", entry.experience_id)


class ExperienceCheck:
    """Looks through the experiences of a tenant, beside everything else."""

    def __init__(self, *, reader: Reader, blobs: Blobs) -> None:
        self._reader = reader
        self._blobs = blobs

    async def look(self, tenant: TenantId, *, with_blobs: bool = True) -> Looked:
        """Return what does not add up: in the log, in the rows, in the contents, in the sums.

        Raises:
            StoreUnavailableError: the database cannot be read.
        """
        state = _State(tenant=tenant, number=0, hash=first_hash(tenant))
        while True:
            page = await self._reader.run(partial(_page, tenant=tenant, number=state.number))
            if not page.entries:
                break
            state.take(page)
            for entry in page.entries:
                if entry.event is LogEvent.WRITTEN and entry.experience_number in page.found:
                    one = page.found[entry.experience_number]
                    _look_at(one, entry, page.head, state)
                    if with_blobs:
                        await self._look_into(one, state)
        await self._reader.run(partial(_finish, state=state))
        return Looked(
            entries=state.entries,
            experiences=state.experiences,
            problems=tuple(state.problems[:PROBLEMS_MAX]),
            is_cut=len(state.problems) > PROBLEMS_MAX,
        )

    async def _look_into(self, one: _Found, state: _State) -> None:
        """Compare a blob with its address."""
        experience = one.kept.experience
        if one.content is not None or one.blob is None:
            return
        try:
            await self._blobs.read(experience.tenant, one.blob, address=experience.address)
        except (ArchiveCorruptError, StoreUnavailableError):
            # It may have been erased since the page was read.
            query = select(_rows.number).where(_rows.number == experience.number)
            if await self._reader.run(lambda connection: connection.scalar(query)) is not None:
                state.add("its content is missing or not what was written", _id(one))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    """Entries of the log and the rows that they are about, as of one instant."""

    head: Head | None
    entries: tuple[LogEntry, ...]
    found: Mapping[int, _Found]
    unreadable: tuple[ExperienceId, ...]
    untied: tuple[ExperienceId, ...]


def _page(connection: Connection, *, tenant: TenantId, number: int) -> _Page:
    with _reading_all(connection):
        return _page_of(connection, tenant=tenant, number=number)


@contextmanager
def _reading_all(connection: Connection) -> Iterator[None]:
    """Have text that is none read as far as it goes: it is then not what was logged."""
    driver = driver_of(connection)
    if not isinstance(driver, sqlite3.Connection):
        yield
        return
    driver.text_factory = lambda read: read.decode("utf-8", "replace")
    try:
        yield
    finally:
        driver.text_factory = str


def _page_of(connection: Connection, *, tenant: TenantId, number: int) -> _Page:
    driver = driver_of(connection)
    entries = log_since(driver, tenant, number=number, most=ENTRIES_AT_ONCE)
    numbers = {one.experience_number for one in entries if one.event is not LogEvent.MARKED}
    query = (
        select(*HEAD, _rows.content, experience_blobs.c.name, experience_terms.c.number)
        .outerjoin_from(
            experiences,
            experience_blobs,
            and_(
                experience_blobs.c.tenant == _rows.tenant,
                experience_blobs.c.address == _rows.address,
            ),
        )
        .outerjoin(experience_terms, experience_terms.c.number == _rows.number)
        .where(_rows.number.in_(numbers), _rows.tenant == tenant)
    )
    found, unreadable = {}, []
    for row in connection.execute(query):
        try:
            one = _found(row)
        except ExperienceCorruptError:
            unreadable.append(row.experience_id)
        else:
            found[one.kept.experience.number] = one
    return _Page(
        head=read_head(driver, tenant),
        entries=entries,
        found=found,
        unreadable=tuple(unreadable),
        untied=untied(connection, [one.kept.experience for one in found.values()], tenant),
    )


def _found(row: Sequence[Any]) -> _Found:
    *head, content, blob, terms = row
    return _Found(
        kept=kept_of(head),
        content=None if content is None else bytes_of(content),
        blob=blob,
        has_terms=terms is not None,
    )


def _look_at(one: _Found, entry: LogEntry, head: Head | None, state: _State) -> None:
    """Compare a row with the entry that says that it was written."""
    kept, stated = one.kept, one.kept.stated
    if head is None:
        state.add("the tenant has no key", _id(one))
        return
    if (kept.entry_number, kept.entry_hash) != (entry.number, entry.hash):
        state.add("it names another entry of the log", _id(one))
    if digest_of(stated, secret=head.secret, salt=kept.salt) != entry.digest:
        state.add("it is not what was logged", _id(one))
    if not holds(claim_of(stated), stated.signature, key=head.secret):
        state.add("its signature does not hold, so its lane is not proven", _id(one))
    if not one.has_terms:
        state.add("its words are missing, so it is not found by them", _id(one))
    if one.content is None and one.blob is None:
        state.add("its content is missing or not what was written", _id(one))
    if one.content is not None:
        try:
            intact(one.content, stated.address)
        except ExperienceCorruptError:
            state.add("its content is missing or not what was written", _id(one))


def _finish(connection: Connection, *, state: _State) -> None:
    """Read the log to its end, and compare what is kept in all, as of one instant."""
    while (page := _page(connection, tenant=state.tenant, number=state.number)).entries:
        state.take(page)
    if page.head is not None and (page.head.number, page.head.hash) != (state.number, state.hash):
        state.add("the log does not end where it is said to")
    _missing(connection, state)
    _standings(connection, state)
    _unlogged(connection, state)
    _sums(connection, state)
    _blobs(connection, state)
    _leftovers(connection, state)
    _misplaced(connection, state)


def _missing(connection: Connection, state: _State) -> None:
    query = select(_rows.number).where(_rows.number.in_(list(state.missing)[:PROBLEMS_MAX]))
    # Told of already, as those that cannot be read.
    there = frozenset(connection.scalars(query))
    for number, experience_id in state.missing.items():
        if number not in there:
            state.add(f"it was written as number {number} and is not there", experience_id)


def _standings(connection: Connection, state: _State) -> None:
    meant = {**state.written, **state.marked}
    numbers = list(meant)
    for start in range(0, len(numbers), ENTRIES_AT_ONCE):
        query = select(_rows.number, _rows.experience_id, _rows.standing).where(
            _rows.number.in_(numbers[start : start + ENTRIES_AT_ONCE])
        )
        for number, experience_id, standing in connection.execute(query):
            if Standing(standing) is not meant[number]:
                state.add(f"it is {standing}, which nobody logged", experience_id)


def _unlogged(connection: Connection, state: _State) -> None:
    log = experience_log.c
    query = (
        select(_rows.experience_id)
        .outerjoin_from(
            experiences,
            experience_log,
            and_(
                log.tenant == _rows.tenant,
                log.number == _rows.entry_number,
                log.experience_number == _rows.number,
            ),
        )
        .where(_rows.tenant == state.tenant, log.number.is_(None))
        .limit(PROBLEMS_MAX)
    )
    for experience_id in connection.scalars(query):
        state.add("nobody logged that it was written", experience_id)


def _sums(connection: Connection, state: _State) -> None:
    totals = experience_totals.c
    counted = connection.execute(
        select(_rows.namespace, _rows.lane, func.count(), func.sum(_rows.size_bytes))
        .where(_rows.tenant == state.tenant)
        .group_by(_rows.namespace, _rows.lane)
    )
    noted = connection.execute(
        select(totals.namespace, totals.lane, totals["items"], totals.content_bytes).where(
            totals.tenant == state.tenant, totals["items"] > 0
        )
    )
    there = {(row[0], row[1]): (int(row[2]), int(row[3])) for row in counted}
    said = {(row[0], row[1]): (row[2], row[3]) for row in noted}
    for place in sorted(there.keys() | said.keys()):
        if there.get(place) != said.get(place):
            state.add(f"lane {place[1]} of {place[0]} holds something else than is counted")


def _blobs(connection: Connection, state: _State) -> None:
    blobs = experience_blobs.c
    holders = connection.execute(
        select(_rows.address, func.count())
        .where(_rows.tenant == state.tenant, _rows.content.is_(None))
        .group_by(_rows.address)
    )
    noted = connection.execute(
        select(blobs.address, blobs.held_by).where(blobs.tenant == state.tenant)
    )
    there = {row[0]: row[1] for row in holders}
    said = {row[0]: row[1] for row in noted}
    for address in sorted(there.keys() | said.keys()):
        if there.get(address) != said.get(address):
            state.add(f"content {address} is held by others than is counted")


def _leftovers(connection: Connection, state: _State) -> None:
    pending = experience_withdrawals.c
    query = (
        select(_rows.experience_id)
        .join_from(experiences, experience_withdrawals, pending.number == _rows.number)
        .where(_rows.tenant == state.tenant)
        .distinct()
        .limit(PROBLEMS_MAX)
    )
    for experience_id in connection.scalars(query):
        state.add("what it was made of is withdrawn; the next purge goes on with it", experience_id)


def _misplaced(connection: Connection, state: _State) -> None:
    spaces, terms = experience_namespaces.c, experience_terms.c
    is_here = (spaces.namespace == _rows.namespace) & (spaces.tenant == _rows.tenant)
    by_nobody = (_rows.standing == Standing.SUPERSEDED.value) & _rows.superseded_by.is_(None)
    told = (
        ("nothing says what superseded it", by_nobody),
        ("its namespace is not there", spaces.namespace.is_(None)),
        ("its words stand in another namespace", terms.namespace != _rows.namespace),
    )
    for what, clause in told:
        query = (
            select(_rows.experience_id)
            .outerjoin_from(experiences, experience_namespaces, is_here)
            .outerjoin(experience_terms, terms.number == _rows.number)
            .where(_rows.tenant == state.tenant, clause)
            .limit(PROBLEMS_MAX)
        )
        for experience_id in connection.scalars(query):
            state.add(what, experience_id)


def _id(one: _Found) -> ExperienceId:
    return one.kept.experience.experience_id
