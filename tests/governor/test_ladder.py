"""Which rung a command stands on, by what is seen of it: every sight on every rung."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.errors import InvalidPolicyError
from governor.ladder import (
    ANSWERS,
    STEPS,
    Act,
    LadderTerms,
    Look,
    Rung,
    Sight,
    Standing,
    answered,
    stepped,
)

TERMS = LadderTerms()
LIMIT = 1_000
HIGH = 800
EVERY_MS = 100


def look(at_ms: int = 0, **seen: int | bool | None) -> Look:
    calm = Look(at_ms=at_ms, used_bytes=10, limit_bytes=LIMIT, high_bytes=HIGH, user_us=0)
    return replace(calm, **seen)


def climb(
    looks: list[Look], *, can_be_raised: bool = True, standing: Standing | None = None
) -> tuple[Standing, list[Act]]:
    at, done = standing or Standing(), []
    for one in looks:
        at, acts = stepped(at, one, TERMS, can_be_raised=can_be_raised)
        done += acts
    return at, done


def stuck_looks(*, high: int = HIGH, until_ms: int = 5_000) -> list[Look]:
    """A command in the livelock of `memory.high`: events without end, next to no progress."""
    return [
        look(at, used_bytes=high + 1, high_bytes=high, high_events=at, user_us=at)
        for at in range(0, until_ms, EVERY_MS)
    ]


def test_every_rung_knows_every_sight() -> None:
    assert set(STEPS) == {(rung, sight) for rung in Rung for sight in Sight}


def test_what_has_ended_stays_ended_and_is_left_alone() -> None:
    steps = {STEPS[Rung.ENDED, sight] for sight in Sight}

    assert steps == {(Rung.ENDED, ())}


def test_an_answer_without_a_question_changes_nothing() -> None:
    steps = {STEPS[rung, sight] for rung in Rung if rung is not Rung.ASKING for sight in ANSWERS}

    assert steps == {(rung, ()) for rung in Rung if rung is not Rung.ASKING}


def test_a_command_that_stays_below_its_throttle_point_is_left_alone() -> None:
    standing, acts = climb([look(at) for at in range(0, 60_000, EVERY_MS)])

    assert (standing.rung, acts) == (Rung.FREE, [])


def test_a_command_above_its_throttle_point_is_slowed_and_eased_when_it_is_below_again() -> None:
    pressed = look(100, used_bytes=900, high_events=5, user_us=100_000)
    # The kernel held it back just before this look as well.
    after = look(200, used_bytes=700, high_events=5, user_us=200_000)
    calm = look(300, used_bytes=600, high_events=5, user_us=300_000)

    standing, acts = climb([look(high_events=0), pressed, after, calm])

    assert (standing.rung, acts) == (Rung.FREE, [Act.SLOW, Act.EASE])


@pytest.mark.requirement("ladder.stall-is-noticed")
def test_a_command_that_is_held_back_and_computes_nothing_is_asked_about_in_time() -> None:
    standing, acts = climb(stuck_looks(until_ms=TERMS.stall_ms + 2 * EVERY_MS))

    assert standing.rung is Rung.ASKING
    assert acts == [Act.SLOW, Act.FREEZE, Act.ASK]


@pytest.mark.requirement("ladder.stall-is-noticed")
def test_a_stuck_command_that_nobody_can_be_asked_about_is_killed_in_time() -> None:
    standing, acts = climb(stuck_looks(until_ms=TERMS.stall_ms + 2 * EVERY_MS), can_be_raised=False)

    assert standing.rung is Rung.ENDED
    assert acts == [Act.SLOW, Act.KILL]
    assert standing.path == (Rung.FREE, Rung.THROTTLED, Rung.ENDED)


def test_a_command_that_is_held_back_and_still_computes_is_not_stuck() -> None:
    slow = [
        replace(one, user_us=one.at_ms * 60)  # six hundredths of a processor
        for one in stuck_looks(until_ms=60_000)
    ]

    standing, acts = climb(slow)

    assert (standing.rung, acts) == (Rung.THROTTLED, [Act.SLOW])


def test_a_command_that_only_waits_for_something_else_is_not_stuck() -> None:
    idle = [replace(one, high_events=0) for one in stuck_looks(until_ms=60_000)]

    standing, _ = climb(idle)

    assert standing.rung is Rung.THROTTLED


def test_a_command_that_is_held_back_for_files_alone_is_not_stuck() -> None:
    copying = [replace(one, used_bytes=HIGH // 2) for one in stuck_looks(until_ms=60_000)]

    standing, _ = climb(copying)

    assert standing.rung is Rung.THROTTLED


def test_a_command_that_waits_for_memory_all_the_time_is_stuck_without_any_event() -> None:
    waiting = [replace(one, high_events=None, waited_us=one.at_ms * 900) for one in stuck_looks()]

    standing, _ = climb(waiting)

    assert standing.rung is Rung.ASKING


def test_nobody_is_called_stuck_whose_progress_cannot_be_seen() -> None:
    unseen = [replace(one, user_us=None) for one in stuck_looks(until_ms=60_000)]

    standing, _ = climb(unseen)

    assert standing.rung is Rung.THROTTLED


def test_a_throttle_point_that_was_only_expected_to_do_is_lifted_before_anybody_is_asked() -> None:
    looks = stuck_looks(high=300, until_ms=TERMS.stall_ms + 2 * EVERY_MS)

    standing, acts = climb([replace(one, high_is_expected=True) for one in looks])

    assert (standing.rung, acts) == (Rung.THROTTLED, [Act.SLOW, Act.LIFT])


def test_a_command_that_the_kernel_keeps_waiting_at_its_limit_is_asked_about_at_once() -> None:
    waiting = look(used_bytes=LIMIT, high_bytes=None, is_out_of_room=True)

    standing, acts = climb([waiting])

    assert (standing.rung, acts) == (Rung.ASKING, [Act.FREEZE, Act.ASK])


def test_a_full_memory_that_nobody_can_be_asked_about_is_left_to_the_hard_limit() -> None:
    full = look(used_bytes=LIMIT, user_us=None)

    standing, acts = climb([full], can_be_raised=False)

    assert (standing.rung, acts) == (Rung.SPENT, [Act.YIELD])


def test_a_raised_command_goes_on_and_can_be_raised_only_so_often() -> None:
    full = look(used_bytes=LIMIT)
    standing = Standing()
    for _ in range(TERMS.raises_max):
        standing, asked = climb([full], standing=standing)
        standing, raised = answered(standing, Sight.RAISED)
        assert (asked, raised) == (
            [Act.FREEZE, Act.ASK],
            (Act.RAISE, Act.EASE, Act.THAW),
        )

    standing, acts = climb([full], standing=standing)

    assert (standing.rung, acts) == (Rung.SPENT, [Act.YIELD])


@pytest.mark.parametrize(
    ("answer", "rung", "acts"),
    [
        (Sight.CANCELLED, Rung.ENDED, (Act.KILL,)),
        (Sight.DROPPED, Rung.ENDED, (Act.KILL,)),
        (Sight.LEFT, Rung.SPENT, (Act.YIELD, Act.THAW)),
    ],
)
def test_a_no_and_a_silence_end_a_command_or_leave_it_to_its_limit(
    answer: Sight, rung: Rung, acts: tuple[Act, ...]
) -> None:
    asking, _ = climb([look(used_bytes=LIMIT)])

    standing, done = answered(asking, answer)

    assert (standing.rung, done) == (rung, acts)


def test_a_command_that_an_administrator_holds_neither_climbs_nor_counts_as_stuck() -> None:
    standing = Standing()
    for one in stuck_looks(until_ms=10_000):
        standing, acts = stepped(standing, one, TERMS, can_be_raised=True, is_held=True)
        assert acts == ()
    resumed, acts = stepped(
        standing, look(10_000, used_bytes=801, high_events=10_000), TERMS, can_be_raised=True
    )

    assert standing.rung is Rung.FREE
    # Its watch begins anew: what it did not do while it was held is not held against it.
    assert resumed.rung is Rung.THROTTLED


@given(st.lists(st.sampled_from(Sight), max_size=60))
def test_whatever_comes_a_command_is_frozen_exactly_while_it_is_asked_about(
    sights: list[Sight],
) -> None:
    rung, frozen, ended = Rung.FREE, False, False
    for sight in sights:
        after, acts = STEPS[rung, sight]
        for act in acts:
            assert not ended, "nothing is done to what was killed"
            assert (act is Act.FREEZE) <= (not frozen)
            assert (act in (Act.THAW, Act.RAISE)) <= frozen
            frozen = (frozen or act is Act.FREEZE) and act is not Act.THAW
            ended = ended or act is Act.KILL
        rung = after
        assert ended == (rung is Rung.ENDED)
        assert ended or frozen == (rung is Rung.ASKING)


@pytest.mark.requirement("ladder.stall-is-noticed")
@given(
    every_ms=st.integers(10, 1_000),
    events=st.integers(1, 1_000),
    user_permille=st.integers(0, 40),
    begin_ms=st.integers(0, 10**9),
)
def test_no_livelock_lasts_longer_than_the_watchdog_and_two_looks(
    every_ms: int, events: int, user_permille: int, begin_ms: int
) -> None:
    standing, at_ms = Standing(), 0
    while standing.rung in (Rung.FREE, Rung.THROTTLED):
        seen = look(
            begin_ms + at_ms,
            used_bytes=HIGH,
            high_events=at_ms * events,
            user_us=at_ms * user_permille,
        )
        standing, _ = stepped(standing, seen, TERMS, can_be_raised=True)
        at_ms += every_ms
        assert at_ms <= TERMS.stall_ms + 3 * every_ms

    assert standing.rung is Rung.ASKING


@pytest.mark.parametrize(("throttle", "full"), [(0, 900), (960, 950), (900, 1_001)])
def test_rungs_out_of_order_are_refused(throttle: int, full: int) -> None:
    with pytest.raises(InvalidPolicyError):
        LadderTerms(throttle_permille=throttle, full_permille=full)
