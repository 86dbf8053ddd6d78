"""What is kept of a tenant's experiences in all, compared with its log and with what is counted."""

from collections.abc import Callable

from sqlalchemy import Connection, and_, exc, func, select, text

from memory_store.engine import driver_of, is_shared
from memory_store.experiences.check_pages import ENTRIES_AT_ONCE
from memory_store.experiences.check_state import PROBLEMS_MAX, CheckState
from memory_store.experiences.rows import undecoded
from memory_store.experiences.tables import (
    experience_blobs,
    experience_log,
    experience_totals,
    experience_withdrawals,
    experiences,
)

_rows = experiences.c


def compare_all(connection: Connection, state: CheckState) -> None:
    """Compare what is kept in all, once the log has been read to its end."""
    steps: tuple[tuple[Callable[[Connection, CheckState], None], str], ...] = (
        (_missing, "what is missing"),
        (_standings, "where experiences stand"),
        (_unlogged, "what nobody logged"),
        (_sums, "how much each lane holds"),
        (_blobs, "who holds which content"),
        (_leftovers, "what erased ones have left behind"),
        (_numbering, "which number is the next"),
    )
    with undecoded(driver_of(connection)):
        for step, what in steps:
            try:
                step(connection, state)
            except (TypeError, ValueError):
                state.add(f"{what} cannot be compared: a row holds what belongs in no such column")
            except exc.OperationalError as error:
                # Sums of what is no size of anything leave 64 bits.
                if "integer overflow" not in str(error.orig):
                    raise
                state.add(f"{what} cannot be compared: a size is too large to be one")


def _missing(connection: Connection, state: CheckState) -> None:
    query = select(_rows.number).where(_rows.number.in_(list(state.missing)[:PROBLEMS_MAX]))
    # Told of already, as those that cannot be read.
    there = frozenset(connection.scalars(query))
    for number, experience_id in state.missing.items():
        if number not in there:
            state.add(f"it was written as number {number} and is not there", experience_id)


def _standings(connection: Connection, state: CheckState) -> None:
    meant = {**state.written, **state.marked}
    numbers = list(meant)
    for start in range(0, len(numbers), ENTRIES_AT_ONCE):
        query = select(_rows.number, _rows.experience_id, _rows.standing).where(
            _rows.number.in_(numbers[start : start + ENTRIES_AT_ONCE])
        )
        for number, experience_id, standing in connection.execute(query):
            there = meant[number]
            if there is None or standing != there.value:
                state.add(f"it is {standing}, which nobody logged", experience_id)


def _unlogged(connection: Connection, state: CheckState) -> None:
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


def _sums(connection: Connection, state: CheckState) -> None:
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


def _blobs(connection: Connection, state: CheckState) -> None:
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


def _leftovers(connection: Connection, state: CheckState) -> None:
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


def _numbering(connection: Connection, state: CheckState) -> None:
    """Tell of numbers that would be given out twice; a server counts outside of its tables."""
    if is_shared(connection):
        return
    last = select(func.max(experience_log.c.experience_number))
    given = text("SELECT max(seq) FROM sqlite_sequence WHERE name = 'experiences'")
    if (connection.scalar(last) or 0) > (connection.scalar(given) or 0):
        state.add("numbers of experiences would be given out twice; restore a backup")
