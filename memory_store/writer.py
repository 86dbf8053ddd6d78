"""The one writer: a thread that stores many callers' work in one transaction.

An fsync costs more than all the work of a batch, so callers share it: whatever waits when
the thread looks is run in one transaction, and nobody is told "stored" before COMMIT has
returned. Ledger pieces are decided in memory and written together at the end; any other
piece runs its own statements in a savepoint. When the writing of several pieces fails on
what one of them holds, each is run again in a transaction of its own, so that it alone fails.
"""

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import Connection, Engine

from governor.errors import GovernorError
from memory_store.bookkeeping import Bookkeeping
from memory_store.crash_points import reached
from memory_store.engine import (
    Durability,
    commit_then_sync,
    driver_of,
    is_of_a_row,
    is_passing,
    translated,
)
from memory_store.errors import (
    AlreadyExistsError,
    LedgerBreachError,
    NotFoundError,
    SessionEndedError,
    SessionOwnerError,
    StoreOverloadedError,
    StoreUnavailableError,
)
from memory_store.statement import Driver
from memory_store.turns import About

WAITING_MAX = 4096
# An admission that is refused can be asked for again; a settlement that is refused is a call
# charged too little, to the gain of whoever filled the queue. So the last quarter is kept
# for work that is owed.
NOT_OWED_MAX = WAITING_MAX * 3 // 4
BATCH_MAX = 256
# Where so many came together in the last batch, more are on their way: what a transaction costs
# by itself, and what it costs two threads to take turns, is shared by all that come in a moment.
BUSY_PIECES = 4
GATHER_SECONDS = 0.0005
# How often a transaction is begun that others stood in the way of.
TRIES_MAX = 3

# What a piece of the ledger raises before it has changed anything.
REFUSALS = (
    GovernorError,
    AlreadyExistsError,
    LedgerBreachError,
    NotFoundError,
    SessionEndedError,
    SessionOwnerError,
)

T = TypeVar("T")


def _nothing() -> None:
    """Do nothing after COMMIT."""


@dataclass(slots=True, kw_only=True)
class _Piece:
    """One caller's work and what became of it."""

    work: Callable[[Any], Any]
    about: About | None
    """What a piece of the ledger is about; None of any other."""
    after_commit: Callable[[], None]
    may_be_dropped: bool
    future: asyncio.Future[Any]
    result: Any = None
    error: Exception | None = None


class Writer:
    """Runs pieces of work, one after the other, on the only writing connection.

    `book` is what the pieces of the ledger work on; it is told to forget whenever something
    that was done is undone, so that nothing is remembered that did not happen.
    """

    def __init__(self, engine: Engine, *, book: Bookkeeping, durability: Durability) -> None:
        self._engine = engine
        self._durability = durability
        self._book = book
        self._is_shared = engine.dialect.name == "postgresql"
        self._queue: queue.SimpleQueue[_Piece | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._own: Connection | None = None
        self._held_over: _Piece | None = None
        self._is_busy = False
        self._is_closing = False
        self._thread = threading.Thread(target=self._drain, name="flyball-writer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop_taking(self) -> None:
        """Refuse further work; what waits is still stored."""
        self._is_closing = True

    def join(self) -> None:
        """Block until everything that waits is stored and the thread has ended."""
        self._queue.put(None)
        self._thread.join()

    async def run(
        self,
        work: Callable[[Connection], T],
        *,
        after_commit: Callable[[], None] = _nothing,
        may_be_dropped: bool = False,
        is_owed: bool = False,
    ) -> T:
        """Return what `work` returned, once it is committed.

        `after_commit` is then called in the writer's thread, before anybody is told. Work
        that `may_be_dropped` is not begun when its caller is gone by its turn; all other
        work is done whether its caller still waits or not, because a settlement must not
        be lost with the client that caused it. Work that `is_owed`, the end or the record of
        what was begun, is refused only when the queue is full; all other work earlier.

        Raises:
            StoreOverloadedError: too much waits already; nothing was done.
            StoreUnavailableError: the database refused or failed; nothing was stored.
        """
        return await self.submit(
            work, after_commit=after_commit, may_be_dropped=may_be_dropped, is_owed=is_owed
        )

    async def book(
        self,
        work: Callable[[Bookkeeping], T],
        *,
        about: About,
        may_be_dropped: bool = False,
        is_owed: bool = False,
    ) -> T:
        """Return what `work` decided on the ledger, once it is committed.

        `about` says whose books it needs. The other arguments and the errors are those of
        `run`. Work that raises must not have changed anything before.
        """
        decided: asyncio.Future[T] = self._put(
            _Piece(
                work=work,
                about=about,
                after_commit=_nothing,
                may_be_dropped=may_be_dropped,
                future=self._loop.create_future(),
            ),
            is_owed=is_owed,
        )
        return await decided

    def submit(
        self,
        work: Callable[[Connection], T],
        *,
        after_commit: Callable[[], None] = _nothing,
        may_be_dropped: bool = False,
        is_owed: bool = False,
    ) -> asyncio.Future[T]:
        """Return the future of `work`; to be called on the loop that the writer was made on.

        Raises:
            StoreOverloadedError: too much waits already; nothing was done.
            StoreUnavailableError: the store is closing.
        """
        return self._put(
            _Piece(
                work=work,
                about=None,
                after_commit=after_commit,
                may_be_dropped=may_be_dropped,
                future=self._loop.create_future(),
            ),
            is_owed=is_owed,
        )

    def _put(self, piece: _Piece, *, is_owed: bool) -> asyncio.Future[Any]:
        if self._is_closing:
            message = "the store is closing"
            raise StoreUnavailableError(message)
        # Only the loop's thread puts, so what is counted here can only have become less.
        if self._queue.qsize() >= (WAITING_MAX if is_owed else NOT_OWED_MAX):
            raise StoreOverloadedError
        self._queue.put(piece)
        return piece.future

    def _drain(self) -> None:
        is_open = True
        while is_open:
            batch, is_open = self._next_batch()
            if not batch:
                continue
            reached("batch_taken")
            groups = self._apart(batch)
            for pieces in groups:
                self._store(pieces, may_grow=pieces is groups[-1])
            reached("after_commit_before_ack")
            done = [piece for pieces in groups for piece in pieces]
            # Without a loop nobody waits any more; what was stored stays stored.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(_acknowledge, done)
            reached("after_ack")
        if self._own is not None:
            self._own.close()

    def _next_batch(self) -> tuple[list[_Piece], bool]:
        """Return what waits, at least one piece, and whether more may come."""
        batch: list[_Piece] = []
        piece, self._held_over = self._held_over or self._queue.get(), None
        # A server's way there and back is wait enough.
        if self._is_busy and not self._is_shared:
            time.sleep(GATHER_SECONDS)
        while piece is not None:
            batch.append(piece)
            if len(batch) == BATCH_MAX:
                break
            try:
                piece = self._queue.get_nowait()
            except queue.Empty:
                break
        self._is_busy = len(batch) >= BUSY_PIECES
        return batch, piece is not None

    def _apart(self, batch: list[_Piece]) -> list[list[_Piece]]:
        """Return the pieces of `batch` as each transaction is to have them.

        Where other sidecars wait for the same rows, a piece that brings its own statements
        has a transaction of its own: what it locks, and in which order, nobody else knows.
        """
        if not self._is_shared:
            return [batch]
        by_kind = groupby(batch, key=lambda piece: piece.about is not None)
        groups = [(is_booking, list(pieces)) for is_booking, pieces in by_kind]
        return [
            pieces
            for is_booking, group in groups
            for pieces in ([group] if is_booking else [[piece] for piece in group])
        ]

    def _store(
        self,
        batch: list[_Piece],
        *,
        tries_left: int = TRIES_MAX - 1,
        may_grow: bool = False,
        in_one_trip: bool = True,
    ) -> None:
        """Run `batch` in one transaction and note on each piece what became of it.

        One that `may_grow` takes along what comes while it waits for its turn. Writing
        `in_one_trip` does not tell which piece an error is about.
        """
        stage = _Stage(in_one_trip=in_one_trip and self._is_shared and batch[0].about is not None)
        try:
            with translated(), self._begun() as connection:
                self._run(connection, batch, stage, may_grow=may_grow)
            self._book.turns.committed()
            for piece in batch:
                if piece.error is None:
                    piece.after_commit()
        except Exception as error:  # noqa: BLE001 - the top of the writer's thread
            self._book.forget()
            is_of_all = stage.is_committing or isinstance(error, StoreUnavailableError)
            # Before COMMIT it is known that nothing happened; after it, nobody knows.
            if tries_left and not stage.is_committing and is_passing(error):
                self._store(batch, tries_left=tries_left - 1)
            elif stage.in_one_trip and not stage.is_committing and is_of_a_row(error):
                self._store_each(batch)
            elif is_of_all:
                _fail(batch, error)
            elif len(batch) == 1:
                batch[0].error = error
            else:
                self._store_each(batch)

    @contextmanager
    def _begun(self) -> Iterator[Connection]:
        """Open a transaction that commits at the end of the block."""
        if self._is_shared:
            # Of a server's connections the pool has to know whether they still are any.
            with self._engine.begin() as connection:
                yield connection
            return
        # Taken from the pool and given back, it costs as much as a small batch.
        connection, self._own = self._own or self._engine.connect(), None
        try:
            with connection.begin():
                yield connection
        except BaseException:
            connection.close()  # which undoes whatever a failing COMMIT has left open
            raise
        self._own = connection

    def _store_each(self, batch: list[_Piece]) -> None:
        for piece in batch:
            piece.error = None
            self._store([piece], in_one_trip=False)

    def _run(
        self, connection: Connection, batch: list[_Piece], stage: "_Stage", *, may_grow: bool
    ) -> None:
        """Run every piece, write what they decided, and commit it where that is not left."""
        book = self._book
        book.begin(connection)
        driver = driver_of(connection)
        if self._is_shared:
            self._take_turns(batch, may_grow=may_grow)
        self._decide(connection, driver, batch)
        if stage.in_one_trip:
            assert isinstance(driver, psycopg.Connection)
            self._write_in_one_trip(driver, stage)
            return
        book.flush()
        if self._is_shared:
            book.count_turns()
        book.trim()
        stage.is_committing = True
        reached("before_commit")

    def _take_turns(self, batch: list[_Piece], *, may_grow: bool) -> None:
        """Wait for the turns that `batch` needs, and take along what came meanwhile."""
        book = self._book
        abouts = [piece.about for piece in batch if piece.about is not None]
        book.take_turns(abouts)
        while may_grow and self._held_over is None and len(batch) < BATCH_MAX:
            try:
                piece = self._queue.get_nowait()
            except queue.Empty:
                break
            if piece is None:
                self._queue.put(None)
                break
            if piece.about is None or not book.has_turn_of(piece.about):
                self._held_over = piece
                break
            batch.append(piece)
            abouts.append(piece.about)
        book.read_for(abouts)

    def _write_in_one_trip(self, driver: psycopg.Connection[Any], stage: "_Stage") -> None:
        """Write what was decided and commit it, and wait for the server once."""
        book = self._book
        try:
            with driver.pipeline():
                book.flush()
                book.count_turns()
                stage.is_committing = True
                reached("before_commit")
                commit_then_sync(driver, self._durability)
        except psycopg.Error:
            if driver.info.transaction_status is TransactionStatus.INERROR:
                # The server skipped what came after the error, COMMIT with it.
                stage.is_committing = False
            raise
        self._book.trim()

    def _decide(self, connection: Connection, driver: Driver, batch: list[_Piece]) -> None:
        for piece in batch:
            if piece.may_be_dropped and piece.future.cancelled():
                continue
            if piece.about is None:
                self._run_alone(connection, driver, piece)
                continue
            try:
                piece.result = piece.work(self._book)
            except REFUSALS as error:
                piece.error = error
        reached("pieces_run")

    def _run_alone(self, connection: Connection, driver: Driver, piece: _Piece) -> None:
        """Run a piece that brings its own statements."""
        # It may read what was decided before it.
        self._book.flush()
        driver.execute("SAVEPOINT piece")
        try:
            with translated():
                piece.result = piece.work(connection)
        except Exception as error:  # noqa: BLE001 - the caller's own error, raised to them
            piece.error = error
            # On some errors (a full disk) SQLite ends the whole transaction by itself;
            # then this statement fails too and, rightly, everybody's piece with it.
            driver.execute("ROLLBACK TO piece")
            self._book.forget()
        driver.execute("RELEASE piece")


@dataclass(slots=True)
class _Stage:
    """How a transaction is written, and how far it got."""

    in_one_trip: bool
    is_committing: bool = False


def _fail(batch: list[_Piece], error: Exception) -> None:
    """Note on each piece of `batch` that nothing of it was stored."""
    for piece in batch:
        failure = StoreUnavailableError()
        failure.__cause__ = error
        piece.error = failure


def _acknowledge(batch: list[_Piece]) -> None:
    """Tell those who still wait; runs on the loop."""
    for piece in batch:
        if piece.future.done():
            continue
        if piece.error is None:
            piece.future.set_result(piece.result)
        else:
            piece.future.set_exception(piece.error)
