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
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine

from governor.errors import GovernorError
from memory_store.bookkeeping import Bookkeeping
from memory_store.crash_points import reached
from memory_store.engine import driver_of, is_passing, translated
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

    def __init__(self, engine: Engine, *, book: Bookkeeping) -> None:
        self._engine = engine
        self._book = book
        self._is_shared = engine.dialect.name == "postgresql"
        self._queue: queue.SimpleQueue[_Piece | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
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
            for pieces in self._apart(batch):
                self._store(pieces)
            reached("after_commit_before_ack")
            # Without a loop nobody waits any more; what was stored stays stored.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(_acknowledge, batch)
            reached("after_ack")

    def _next_batch(self) -> tuple[list[_Piece], bool]:
        """Return what waits, at least one piece, and whether more may come."""
        batch: list[_Piece] = []
        piece = self._queue.get()
        while piece is not None:
            batch.append(piece)
            if len(batch) == BATCH_MAX:
                return batch, True
            try:
                piece = self._queue.get_nowait()
            except queue.Empty:
                return batch, True
        return batch, False

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

    def _store(self, batch: list[_Piece], *, tries_left: int = TRIES_MAX - 1) -> None:
        """Run `batch` in one transaction and note on each piece what became of it."""
        stage = _Stage()
        try:
            with translated(), self._engine.begin() as connection:
                self._run(connection, batch)
                stage.is_committing = True
                reached("before_commit")
            self._book.turns.committed()
            for piece in batch:
                if piece.error is None:
                    piece.after_commit()
        except Exception as error:  # noqa: BLE001 - the top of the writer's thread
            self._book.forget()
            is_of_all = stage.is_committing or isinstance(error, StoreUnavailableError)
            if tries_left and not stage.is_committing and is_passing(error):
                self._store(batch, tries_left=tries_left - 1)
            elif is_of_all:
                _fail(batch, error)
            elif len(batch) == 1:
                batch[0].error = error
            else:
                # Before COMMIT it is known that nothing happened; after it, nobody knows.
                for piece in batch:
                    piece.error = None
                    self._store([piece])

    def _run(self, connection: Connection, batch: list[_Piece]) -> None:
        """Run every piece and write what they decided."""
        book = self._book
        book.begin(connection)
        driver = driver_of(connection)
        if self._is_shared:
            book.take_turns([piece.about for piece in batch if piece.about is not None])
        for piece in batch:
            if piece.may_be_dropped and piece.future.cancelled():
                continue
            if piece.about is None:
                self._run_alone(connection, driver, piece)
                continue
            try:
                piece.result = piece.work(book)
            except REFUSALS as error:
                piece.error = error
        reached("pieces_run")
        book.flush()
        if self._is_shared:
            book.count_turns()
        book.trim()

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
    """How far a transaction got."""

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
