"""The store: one state directory, opened, wired and closed as a whole."""

import os
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
from sqlalchemy import Engine, text

from memory_store.approvals import ApprovalBook
from memory_store.archive import TENANT_BYTES_MAX, Archive
from memory_store.audit import AuditLog
from memory_store.bookkeeping import Bookkeeping
from memory_store.budgets import BudgetBook
from memory_store.calls import CallLog
from memory_store.conservation import Conservation
from memory_store.engine import Durability, reading_engine, writing_engine
from memory_store.errors import LedgerBreachError, StoreUnavailableError
from memory_store.identities import Identities
from memory_store.ledger import SqlLedger
from memory_store.live_budgets import LiveBudgets
from memory_store.lock import exclusive
from memory_store.notices import NoticeBook
from memory_store.principals import PrincipalBook
from memory_store.reader import Reader
from memory_store.retention import Retention
from memory_store.schema import upgrade
from memory_store.sessions import SessionBook
from memory_store.tenants import TenantBook
from memory_store.writer import Writer

DATABASE_NAME = "flyball.db"
ARCHIVE_NAME = "archive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Everything durable, by what it is about."""

    ledger: SqlLedger
    sessions: SessionBook
    calls: CallLog
    approvals: ApprovalBook
    budgets: BudgetBook
    tenants: TenantBook
    principals: PrincipalBook
    archive: Archive
    retention: Retention
    audit: AuditLog
    notices: NoticeBook
    writer: Writer
    reader: Reader
    bookkeeping: Bookkeeping
    conservation: Conservation

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


@asynccontextmanager
async def open_store(
    state_dir: Path,
    *,
    durability: Durability = Durability.POWER,
    archive_bytes_max_per_tenant: int = TENANT_BYTES_MAX,
) -> AsyncIterator[Store]:
    """Yield the store in `state_dir`, which is made if it is not there.

    Raises:
        StateDirectoryBusyError: another sidecar uses the directory.
        SchemaMismatchError: another version of Flyball made the database.
        StoreUnavailableError: the directory cannot be used, or the database not be opened.
    """
    # Opening blocks the loop, a migration even for long; nothing is served before it.
    with _opened(state_dir, durability) as (writing, reading):
        live = LiveBudgets()
        identities = Identities()
        bookkeeping = Bookkeeping(live)
        writer = Writer(writing, book=bookkeeping)
        reader = Reader(reading)
        archive = Archive(
            state_dir / ARCHIVE_NAME,
            writer=writer,
            reader=reader,
            tenant_bytes_max=archive_bytes_max_per_tenant,
        )
        writer.start()
        try:
            yield Store(
                ledger=SqlLedger(writer=writer, reader=reader),
                sessions=SessionBook(writer=writer, reader=reader),
                calls=CallLog(writer=writer, reader=reader),
                approvals=ApprovalBook(writer=writer, reader=reader),
                budgets=BudgetBook(writer=writer, reader=reader, live=live),
                tenants=TenantBook(writer=writer, reader=reader, identities=identities),
                principals=PrincipalBook(writer=writer, reader=reader, identities=identities),
                archive=archive,
                retention=Retention(writer=writer, reader=reader, archive=archive),
                audit=AuditLog(reader=reader),
                notices=NoticeBook(writer=writer, reader=reader),
                writer=writer,
                reader=reader,
                bookkeeping=bookkeeping,
                conservation=Conservation(),
            )
        finally:
            writer.stop_taking()
            # What was accepted is stored, however this ends; no thread may be left with a
            # connection that is about to be closed.
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(writer.join)
                await reader.close()


@contextmanager
def _opened(state_dir: Path, durability: Durability) -> Iterator[tuple[Engine, Engine]]:
    """Yield the writing and the reading engine on a database of the present schema."""
    _make_private(state_dir)
    database = state_dir / DATABASE_NAME
    with exclusive(state_dir):
        # SQLite gives its other files the mode of this one.
        os.close(os.open(database, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        writing = writing_engine(database, durability)
        reading = reading_engine(database)
        try:
            upgrade(writing, database)
            yield writing, reading
        finally:
            reading.dispose()
            writing.dispose()


def _make_private(state_dir: Path) -> None:
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
