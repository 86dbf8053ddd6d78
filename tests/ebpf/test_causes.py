"""Whose limit it was, decided from counts alone."""

import pytest

from ebpf.command import EndCause, Level, Victim
from ebpf.domains.causes import MemoryEvidence, counted_refusals, memory_cause, pids_level

CALL, SESSION, TENANT, MACHINE = Level


def evidence(
    kills: int | None, *counts: int | None, chosen_by: Level | None = None
) -> MemoryEvidence:
    victim = None if chosen_by is None else Victim(pid=1, comm="hog", level=chosen_by)
    return MemoryEvidence(
        kills=kills, shortages=dict(zip(Level, counts, strict=True)), victim=victim
    )


@pytest.mark.parametrize(
    ("counted", "expected"),
    [
        # A limit was short, and killed nobody of this call.
        (evidence(0, 0, 0, 0, 0), None),
        (evidence(0, 0, 3, 0, 0), None),
        # Nobody could count the kills: that they were none is not known, nor that there were.
        (evidence(None, 0, 0, 0, 0), None),
        (evidence(1, 1, 0, 0, 0), EndCause.MEMORY),
        # Its own limit kills inside the call; a wider one may have killed others meanwhile.
        (evidence(1, 1, 2, 0, 0), EndCause.MEMORY),
        (evidence(1, 0, 1, 0, 0), EndCause.SESSION_MEMORY),
        (evidence(1, 0, 0, 1, 0), EndCause.TENANT_MEMORY),
        (evidence(1, 0, 0, 0, 1), EndCause.HOST_MEMORY),
        # No limit was short, so the machine was.
        (evidence(1, 0, 0, 0, 0), EndCause.HOST_MEMORY),
        # Two wider limits were short: it may have been either.
        (evidence(1, 0, 1, 1, 0), EndCause.UNKNOWN),
        (evidence(1, 0, 1, 0, 1), EndCause.UNKNOWN),
        # One of them could not be read: it may have been that one.
        (evidence(1, None, 0, 0, 0), EndCause.UNKNOWN),
        (evidence(1, 0, 1, None, 0), EndCause.UNKNOWN),
        # The kernel's own word settles what the counts leave open.
        (evidence(1, 0, 1, 1, 0, chosen_by=TENANT), EndCause.TENANT_MEMORY),
        (evidence(1, None, None, None, None, chosen_by=CALL), EndCause.MEMORY),
        (evidence(0, 0, 0, 0, 0, chosen_by=CALL), None),
    ],
)
def test_whose_memory_was_short(counted: MemoryEvidence, expected: EndCause | None) -> None:
    assert memory_cause(counted) is expected


@pytest.mark.parametrize(
    ("refusals", "full", "expected"),
    [
        (0, {CALL: True}, None),
        (None, {CALL: True}, None),
        (1, {CALL: True, SESSION: False, TENANT: False}, CALL),
        (1, {CALL: False, SESSION: True, TENANT: False}, SESSION),
        (1, {CALL: False, SESSION: False, TENANT: True}, TENANT),
        (1, {CALL: True, SESSION: True, TENANT: False}, None),
        (1, {CALL: None, SESSION: False, TENANT: False}, None),
        (1, {CALL: False, SESSION: False, TENANT: False}, MACHINE),
    ],
)
def test_whose_limit_on_processes_was_reached(
    refusals: int | None, full: dict[Level, bool | None], expected: Level | None
) -> None:
    assert pids_level(refusals=refusals, full=full) is expected


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({CALL: 0, SESSION: 0, TENANT: 0}, (0, None)),
        ({CALL: 3, SESSION: 9, TENANT: 0}, (3, CALL)),
        ({CALL: 0, SESSION: 2, TENANT: 5}, (2, SESSION)),
        ({CALL: 0, TENANT: 5}, (5, TENANT)),
        ({CALL: None, SESSION: 2, TENANT: 0}, None),
    ],
)
def test_forks_that_each_level_counts_by_itself_are_those_of_the_narrowest(
    counts: dict[Level, int | None], expected: tuple[int, Level | None] | None
) -> None:
    assert counted_refusals(counts) == expected
