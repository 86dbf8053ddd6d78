"""The store: one state directory, opened, wired and closed as a whole."""

import os
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
from sqlalchemy import URL, Engine, text

from memory_store import postgresql_engine, postgresql_schema, sqlite_engine, sqlite_schema
from memory_store.approvals import ApprovalBook
from memory_store.archive import FILES_AT_ONCE, TENANT_BYTES_MAX, Archive, Contents
from memory_store.archive_blobs import ArchiveBlobs
from memory_store.archive_files import ArchiveFiles
from memory_store.audit import AuditLog
from memory_store.bookkeeping import Bookkeeping
from memory_store.budgets import BudgetBook
from memory_store.calls import CallLog
from memory_store.conservation import Conservation
from memory_store.engine import Durability, translated
from memory_store.errors import LedgerBreachError, StoreUnavailableError
from memory_store.experiences.blobs import PREFIX, Blobs
from memory_store.experiences.book import ExperienceBook
from memory_store.experiences.namespaces import NamespaceBook
from memory_store.experiences.tables import experience_contents
from memory_store.experiences.upkeep import Upkeep, upkeep_of
from memory_store.flows import FlowBook
from memory_store.glance import Found, Names, look_up
from memory_store.identities import SHARED_PROOF_MS, Identities
from memory_store.lately import Lately, Whose, look_back
from memory_store.ledger import SqlLedger
from memory_store.lessons.cases import CaseBook
from memory_store.lessons.ended import EndedSessions
from memory_store.lessons.forgetting import forget_experiences
from memory_store.lessons.links import LinkBook
from memory_store.lessons.playbooks import PlaybookBook
from memory_store.lessons.questions import QuestionBook
from memory_store.live_budgets import LiveBudgets
from memory_store.lock import exclusive
from memory_store.manifests import ManifestBook
from memory_store.memory_choices import ChoiceLog
from memory_store.notices import NoticeBook
from memory_store.past_calls import PastCalls
from memory_store.postgresql_engine import server_url
from memory_store.prices import PriceBook
from memory_store.principals import PrincipalBook
from memory_store.productivity import ProductivityBook
from memory_store.reader import Reader
from memory_store.restored import finish_restore
from memory_store.retention import Retention
from memory_store.router_log import RouterLog
from memory_store.router_models import RouterShelf
from memory_store.schema import Migrated
from memory_store.search import nearness, words
from memory_store.search.nearness_keeper import NearnessKeeper
from memory_store.search.search import WORDS_ALONE, ExperienceSearch, FoundBy, keeper_of
from memory_store.search.word_check import unfound
from memory_store.sessions import SessionBook
from memory_store.tenants import TenantBook
from memory_store.timeline import TimelineBook
from memory_store.turn_book import TurnBook
from memory_store.visits import VisitBook
from memory_store.works import WorkBook
from memory_store.writer import Writer

DATABASE_NAME = "flyball.db"
ARCHIVE_NAME = "archive"
EXPERIENCES_NAME = "experiences"


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Everything durable, by what it is about."""

    ledger: SqlLedger
    sessions: SessionBook
    turns: TurnBook
    productivity: ProductivityBook
    calls: CallLog
    past_calls: PastCalls
    timelines: TimelineBook
    approvals: ApprovalBook
    budgets: BudgetBook
    tenants: TenantBook
    principals: PrincipalBook
    archive: Archive
    retention: Retention
    audit: AuditLog
    notices: NoticeBook
    prices: PriceBook
    flows: FlowBook
    manifests: ManifestBook
    works: WorkBook
    router_log: RouterLog
    router_shelf: RouterShelf
    experiences: ExperienceBook
    namespaces: NamespaceBook
    experience_search: ExperienceSearch
    upkeep: Upkeep
    cases: CaseBook
    playbooks: PlaybookBook
    questions: QuestionBook
    ended: EndedSessions
    links: LinkBook
    choices: ChoiceLog
    visits: VisitBook
    writer: Writer
    reader: Reader
    bookkeeping: Bookkeeping
    conservation: Conservation
    is_shared: bool
    """Whether other sidecars are at work on the same database."""

    async def breaches(self) -> list[str]:
        """Return what does not add up in the books, and admit nothing more if anything does.

        Calls that run are still settled. Only a start, after somebody has looked, ends that.

        Raises:
            StoreUnavailableError: the books cannot be read.
        """
        found = await self.reader.run(self.conservation.breaches)
        if found:
            self.bookkeeping.breach = f"the books do not add up: {'; '.join(found)}"
        return found

    async def glance(self, names: Names) -> Found:
        """Return what there is under `names`.

        Raises:
            StoreUnavailableError: the database cannot be read.
        """
        return await self.reader.run(lambda connection: look_up(connection, names))

    async def lately(self, whose: Whose, *, since_ms: int, now_ms: int, fullest: int) -> Lately:
        """Return what happened since `since_ms`, and the `fullest` accounts of budgets.

        Raises:
            StoreUnavailableError: the database cannot be read.
        """
        return await self.reader.run(
            lambda connection: look_back(
                connection, whose, since_ms=since_ms, now_ms=now_ms, fullest=fullest
            )
        )

    async def check(self) -> None:
        """Return if the database can be written and read.

        Raises:
            StoreUnavailableError: it cannot.
            StoreOverloadedError: too much waits to be written.
        """
        if self.bookkeeping.breach is not None:
            raise LedgerBreachError(self.bookkeeping.breach)
        probe = text("SELECT 1")
        await self.writer.run(lambda connection: connection.execute(probe).close())
        await self.reader.run(lambda connection: connection.execute(probe).close())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ground:
    """What a store stands on: its connections, and where large contents are.

    `contents` are the archive's, `evidence` those of experiences.
    """

    writing: Engine
    reading: Engine
    contents: Contents
    evidence: Contents
    is_shared: bool
    indexing: Engine | None = None
    """What fills the indexes of pgvector, where the database has it."""


@asynccontextmanager
async def open_store(
    state_dir: Path,
    *,
    url: str | None = None,
    durability: Durability = Durability.POWER,
    archive_bytes_max_per_tenant: int = TENANT_BYTES_MAX,
    finding: FoundBy = WORDS_ALONE,
) -> AsyncIterator[Store]:
    """Yield the store in `state_dir`, which is made if it is not there.

    With the `url` of a PostgreSQL server everything durable is there instead, shared with
    other sidecars, each of which has a state directory of its own.

    Raises:
        StateDirectoryBusyError: another sidecar uses the directory.
        SchemaMismatchError: another version of Flyball made the database.
        StoreUnavailableError: the directory cannot be used, or the database not be opened.
    """
    make_private(state_dir)
    # Opening blocks the loop, a migration even for long; nothing is served before it.
    opened = _opened(state_dir, durability) if url is None else _connected(url, durability)
    with exclusive(state_dir), _restored(state_dir), opened as ground:
        live = LiveBudgets()
        bookkeeping = Bookkeeping(live)
        writer = Writer(ground.writing, book=bookkeeping, durability=durability)
        keeper = keeper_of(ground.indexing, finding)
        store = _books_on(
            ground,
            writer=writer,
            bookkeeping=bookkeeping,
            live=live,
            archive_bytes_max_per_tenant=archive_bytes_max_per_tenant,
            finding=finding,
            keeper=keeper,
        )
        writer.start()
        if keeper is not None:
            keeper.start()
        try:
            yield store
        finally:
            writer.stop_taking()
            # What was accepted is stored, however this ends; no thread may be left with a
            # connection that is about to be closed.
            with anyio.CancelScope(shield=True):
                if keeper is not None:
                    await anyio.to_thread.run_sync(keeper.close)
                await anyio.to_thread.run_sync(writer.join)
                await store.reader.close()


def _books_on(
    ground: _Ground,
    *,
    writer: Writer,
    bookkeeping: Bookkeeping,
    live: LiveBudgets,
    archive_bytes_max_per_tenant: int,
    finding: FoundBy,
    keeper: NearnessKeeper | None,
) -> Store:
    """Return the books of a store that stands on `ground`."""
    identities = Identities(remembered_ms=SHARED_PROOF_MS if ground.is_shared else None)
    reader = Reader(ground.reading)
    archive = Archive(
        ground.contents,
        writer=writer,
        reader=reader,
        tenant_bytes_max=archive_bytes_max_per_tenant,
    )
    experiences = _experiences_on(ground, writer=writer, reader=reader)
    namespaces = NamespaceBook(writer=writer, reader=reader)
    upkeep = upkeep_of(experiences, namespaces, unfound=unfound)
    return Store(
        ledger=SqlLedger(writer=writer, reader=reader),
        sessions=SessionBook(writer=writer, reader=reader),
        turns=TurnBook(writer=writer, reader=reader),
        productivity=ProductivityBook(reader=reader),
        calls=CallLog(writer=writer, reader=reader),
        past_calls=PastCalls(reader=reader),
        timelines=TimelineBook(reader=reader),
        approvals=ApprovalBook(writer=writer, reader=reader),
        budgets=BudgetBook(writer=writer, reader=reader, live=live),
        tenants=TenantBook(writer=writer, reader=reader, identities=identities),
        principals=PrincipalBook(writer=writer, reader=reader, identities=identities),
        archive=archive,
        retention=Retention(
            writer=writer, reader=reader, archive=archive, experiences=upkeep.retention
        ),
        audit=AuditLog(reader=reader, writer=writer),
        notices=NoticeBook(writer=writer, reader=reader),
        prices=PriceBook(writer=writer, reader=reader),
        flows=FlowBook(writer=writer, reader=reader),
        manifests=ManifestBook(writer=writer, reader=reader),
        works=WorkBook(writer=writer, reader=reader),
        router_log=RouterLog(writer=writer, reader=reader),
        router_shelf=RouterShelf(writer=writer, reader=reader),
        experiences=experiences,
        namespaces=namespaces,
        cases=CaseBook(writer=writer, reader=reader),
        playbooks=PlaybookBook(writer=writer, reader=reader),
        questions=QuestionBook(writer=writer, reader=reader),
        ended=EndedSessions(reader=reader),
        links=LinkBook(writer=writer, reader=reader),
        experience_search=ExperienceSearch(
            reader=reader, writer=writer, finding=finding, keeper=keeper
        ),
        upkeep=upkeep,
        choices=ChoiceLog(writer=writer, reader=reader),
        visits=VisitBook(writer=writer, reader=reader),
        writer=writer,
        reader=reader,
        bookkeeping=bookkeeping,
        conservation=Conservation(),
        is_shared=ground.is_shared,
    )


def _experiences_on(ground: _Ground, *, writer: Writer, reader: Reader) -> ExperienceBook:
    return ExperienceBook(
        writer=writer,
        reader=reader,
        blobs=Blobs(ground.evidence),
        forgets=(forget_experiences,),
        scrubs=(words.scrub,),
    )


def migrate_store(
    state_dir: Path, *, url: str | None = None, with_post: bool = False, only_look: bool = False
) -> Migrated:
    """Return what became of the schema of the store in `state_dir`, or at `url`.

    Raises:
        StateDirectoryBusyError: a sidecar uses the directory.
        SchemaMismatchError: a newer or another program made the database.
        StoreUnavailableError: the directory cannot be used, or the database not be opened.
    """
    if url is not None:
        with _server_engine(server_url(url), Durability.POWER) as writing:
            if only_look:
                return postgresql_schema.pending(writing)
            return postgresql_schema.migrate(writing, with_post=with_post)
    make_private(state_dir)
    database = state_dir / DATABASE_NAME
    with (
        exclusive(state_dir),
        _restored(state_dir),
        _file_engine(database, Durability.POWER) as writing,
    ):
        if only_look:
            return sqlite_schema.pending(writing, database)
        return sqlite_schema.upgrade(writing, database)


@contextmanager
def _restored(state_dir: Path) -> Iterator[None]:
    """Go on once what a restore made ready, and a crash left there, is in place."""
    try:
        finish_restore(state_dir)
    except (OSError, ValueError, KeyError) as error:
        message = f"what was restored into {state_dir} cannot be put in place; restore it again"
        raise StoreUnavailableError(message) from error
    yield


@contextmanager
def _opened(state_dir: Path, durability: Durability) -> Iterator[_Ground]:
    """Yield the database file in `state_dir`, of the present schema."""
    database = state_dir / DATABASE_NAME
    with _file_engine(database, durability) as writing:
        reading = sqlite_engine.reading_engine(database)
        try:
            sqlite_schema.upgrade(writing, database)
            contents = ArchiveFiles(state_dir / ARCHIVE_NAME)
            evidence = ArchiveFiles(state_dir / EXPERIENCES_NAME, prefix=PREFIX)
            yield _Ground(
                writing=writing,
                reading=reading,
                contents=contents,
                evidence=evidence,
                is_shared=False,
            )
        finally:
            reading.dispose()


@contextmanager
def _file_engine(database: Path, durability: Durability) -> Iterator[Engine]:
    try:
        # SQLite gives its other files the mode of this one.
        os.close(os.open(database, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        message = f"{database} cannot be opened"
        raise StoreUnavailableError(message) from error
    writing = sqlite_engine.writing_engine(database, durability)
    try:
        yield writing
    finally:
        writing.dispose()


@contextmanager
def _connected(address: str, durability: Durability) -> Iterator[_Ground]:
    """Yield the database of a server, of the present schema."""
    url = server_url(address)
    with _server_engine(url, durability) as writing:
        postgresql_schema.prepare(writing)
        reading = postgresql_engine.reading_engine(url)
        # One may move megabytes for long, and the writer must not wait for it.
        moving = postgresql_engine.writing_engine(url, durability, connections=FILES_AT_ONCE)
        indexing = postgresql_engine.writing_engine(url, Durability.PROCESS)
        try:
            with translated(), reading.begin() as connection:
                has_index = nearness.version(connection) is not None
            yield _Ground(
                writing=writing,
                reading=reading,
                contents=ArchiveBlobs(moving),
                evidence=ArchiveBlobs(moving, table=experience_contents),
                is_shared=True,
                indexing=indexing if has_index else None,
            )
        finally:
            indexing.dispose()
            moving.dispose()
            reading.dispose()


@contextmanager
def _server_engine(url: URL, durability: Durability) -> Iterator[Engine]:
    writing = postgresql_engine.writing_engine(url, durability)
    try:
        try:
            with translated(), writing.connect() as connection:
                postgresql_engine.check_encoding(connection)
        except StoreUnavailableError as error:
            raise postgresql_engine.unreachable(url, error) from None
        yield writing
    finally:
        writing.dispose()


def make_private(state_dir: Path) -> None:
    """Make the state directory, or close an existing one to everybody else.

    Raises:
        StoreUnavailableError: it is none, is shared, or cannot be made or closed.
    """
    problem = "cannot be made"
    try:
        try:
            state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        except FileExistsError as error:
            message = f"the state directory {state_dir} is a file; name a directory"
            raise StoreUnavailableError(message) from error
        problem = "is open to others and cannot be closed to them"
        mode = state_dir.stat().st_mode
        if mode & stat.S_ISVTX:
            message = f"{state_dir} is shared by others; name a directory inside it"
            raise StoreUnavailableError(message)
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            state_dir.chmod(stat.S_IRWXU)
    except OSError as error:
        message = f"the state directory {state_dir} {problem}"
        raise StoreUnavailableError(message) from error
