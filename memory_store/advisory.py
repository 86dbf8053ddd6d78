"""Turns that sidecars on one PostgreSQL take at what only one of them may do at a time.

A turn lasts until its transaction ends, however it ends. On SQLite there is one sidecar and
one writer, so every turn is its own.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import TypeVar

from sqlalchemy import Connection, text

from memory_store.engine import is_shared

# Advisory locks are numbers that all programs of a database share: "flyb" in ASCII, so
# that another program's are not met by chance.
_FAMILY = 0x666C7962

T = TypeVar("T")

_WAIT = text("SELECT pg_advisory_xact_lock(:family, :duty)")
_TRY = text("SELECT pg_try_advisory_xact_lock(:family, :duty)")


class Duty(IntEnum):
    """What is done by one sidecar at a time."""

    SCHEMA = 1
    ADMINISTRATION = 2
    RETENTION = 3
    IDLE_SESSIONS = 4
    LEARNING = 5
    QUIET_WORK = 6
    NEARNESS = 7


def take_turn(connection: Connection, duty: Duty) -> None:
    """Return when nobody else is at `duty`."""
    if is_shared(connection):
        connection.execute(_WAIT, {"family": _FAMILY, "duty": duty.value})


def is_free(connection: Connection, duty: Duty) -> bool:
    """Tell whether nobody else is at `duty`, which is then this transaction's."""
    if not is_shared(connection):
        return True
    return bool(connection.execute(_TRY, {"family": _FAMILY, "duty": duty.value}).scalar())


def in_turn(duty: Duty, work: Callable[[Connection], T]) -> Callable[[Connection], T]:
    """Return `work` as it is done by one sidecar at a time."""

    def turn(connection: Connection) -> T:
        take_turn(connection, duty)
        return work(connection)

    return turn
