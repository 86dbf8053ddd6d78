from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.errors import InvalidPolicyError
from governor.fairness.claim import Priority
from governor.isolation import Asked, IsolationControl, IsolationTerms, Seen, weight_of

MIB = 1 << 20
CAPACITY = 1000 * MIB
TERMS = IsolationTerms(margin_bytes=50 * MIB)
PRIORITIES = st.sampled_from(list(Priority))


def seen(
    session: str,
    priority: Priority = Priority.LOW,
    *,
    held: int = 0,
    base: int = 0,
    expected: int = 0,
    calls: int = 1,
    stall: int | None = None,
    busy: int | None = None,
) -> Seen:
    return Seen(
        session=session,
        priority=priority,
        memory_bytes=(base + held) * MIB,
        calls_bytes=held * MIB,
        expected_bytes=expected * MIB,
        calls=calls,
        stall_percent=stall,
        busy_percent=busy,
    )


def frozen(isolation: IsolationControl, *sessions: Seen, now_ms: int = 0) -> frozenset[str]:
    return isolation.arrange(sessions, capacity_bytes=CAPACITY, now_ms=now_ms).frozen


def frozen_growing(
    isolation: IsolationControl, *sessions: Seen, now_ms: int = 20
) -> frozenset[str]:
    """Return who stands still when all sessions held 10 MiB less at the look before."""
    before = [
        replace(
            one, memory_bytes=one.memory_bytes - 10 * MIB, calls_bytes=one.calls_bytes - 10 * MIB
        )
        for one in sessions
    ]
    frozen(isolation, *before, now_ms=now_ms - 20)
    return frozen(isolation, *sessions, now_ms=now_ms)


def asked(
    priority: Priority = Priority.LOW, *, expected: int, session: str = "new", since_ms: int = 0
) -> Asked:
    return Asked(
        session=session,
        priority=priority,
        expected_bytes=expected * MIB,
        waiting_since_ms=since_ms,
    )


def next_in(
    isolation: IsolationControl, waiting: list[Asked], *sessions: Seen, now_ms: int = 0
) -> object:
    return isolation.next_in(waiting, sessions, capacity_bytes=CAPACITY, now_ms=now_ms)


def test_sessions_that_fit_together_all_go_on() -> None:
    found = frozen(
        IsolationControl(TERMS),
        seen("high", Priority.HIGH, base=200, expected=200),
        seen("low", base=200, expected=200),
    )

    assert found == frozenset()


@pytest.mark.requirement("isolation.low-stands-still")
def test_the_lesser_session_stands_still_when_both_do_not_fit() -> None:
    found = frozen_growing(
        IsolationControl(TERMS),
        seen("high", Priority.HIGH, base=200, held=10, expected=400),
        seen("low", base=200, held=10, expected=400),
    )

    assert found == {"low"}


def test_who_takes_nothing_at_the_moment_goes_on() -> None:
    found = frozen(
        IsolationControl(TERMS),
        seen("high", Priority.HIGH, base=200, expected=400),
        seen("low", base=200, expected=400),
    )

    assert found == frozenset()


def test_the_most_important_one_goes_on_although_its_estimate_does_not_fit() -> None:
    found = frozen_growing(
        IsolationControl(TERMS),
        seen("high", Priority.HIGH, base=200, held=10, expected=900),
        seen("low", base=200, held=10, expected=400),
    )

    assert found == {"low"}


def test_among_equals_the_one_that_holds_most_goes_on() -> None:
    found = frozen_growing(
        IsolationControl(TERMS),
        seen("small", base=200, held=10, expected=200),
        seen("large", base=200, held=300, expected=400),
    )

    assert found == {"small"}


def test_what_outgrew_its_estimate_is_expected_to_go_on_growing_for_a_while() -> None:
    isolation = IsolationControl(TERMS)
    for now_ms in range(0, 400, 20):
        grown = seen("low", held=100 + now_ms // 2, expected=50)
        frozen(isolation, grown, now_ms=now_ms)
    still_growing = isolation.growth_of(grown)
    for now_ms in range(400, 2_400, 20):
        frozen(isolation, grown, now_ms=now_ms)

    assert still_growing == grown.calls_bytes // 2
    assert isolation.growth_of(grown) == grown.calls_bytes // 16


def test_who_stood_still_at_its_peak_is_tried_again() -> None:
    isolation = IsolationControl(TERMS)
    high = seen("high", Priority.HIGH, base=200, held=150, expected=300)
    for now_ms in range(0, 200, 20):
        frozen(isolation, high, seen("low", base=200, held=now_ms), now_ms=now_ms)
    low = seen("low", base=200, held=180, expected=0)

    at_once = frozen(isolation, high, low, now_ms=220)
    later = [frozen(isolation, high, low, now_ms=now_ms) for now_ms in range(240, 3_000, 20)]

    assert at_once == {"low"}
    assert later[-1] == frozenset()


def test_who_has_stood_still_for_long_goes_before_its_equals() -> None:
    isolation = IsolationControl(TERMS)
    large = seen("large", base=200, held=300, expected=400)
    small = seen("small", held=10, expected=400)

    at_first = frozen_growing(isolation, large, small)
    later = frozen_growing(isolation, large, small, now_ms=TERMS.patience_ms + 60)

    assert (at_first, later) == ({"small"}, {"large"})


def test_a_session_that_waits_for_processors_has_busy_lesser_ones_stand_still() -> None:
    isolation = IsolationControl(TERMS)
    calm = [seen("high", Priority.HIGH), seen("low", busy=90), seen("idle", busy=0)]
    for now_ms in range(0, 4_000, 100):
        frozen(isolation, *calm, now_ms=now_ms)

    found = frozen(
        isolation,
        seen("high", Priority.HIGH, stall=60),
        seen("low", busy=90),
        seen("idle", busy=0),
        now_ms=4_000,
    )

    assert found == {"low"}


@pytest.mark.requirement("isolation.bounded-standstill")
def test_standing_still_for_processors_is_bounded_whatever_the_others_want() -> None:
    isolation, still_ms = IsolationControl(TERMS), 0
    for now_ms in range(0, 60_000, 20):
        found = frozen(
            isolation, seen("high", Priority.HIGH, stall=100), seen("low", busy=100), now_ms=now_ms
        )
        still_ms += 20 * ("low" in found)

    assert 0 < still_ms <= 60_000 * (TERMS.standstill_percent + 2) // 100


def test_weights_follow_priorities() -> None:
    arranged = IsolationControl(TERMS).arrange(
        [seen("high", Priority.HIGH), seen("low")], capacity_bytes=CAPACITY, now_ms=0
    )

    assert arranged.weights["high"] == 16 * arranged.weights["low"] == weight_of(Priority.HIGH)


def test_memory_is_protected_for_all_but_the_lowest_priority() -> None:
    arranged = IsolationControl(TERMS).arrange(
        [seen("high", Priority.HIGH, base=100, expected=50), seen("low", base=100)],
        capacity_bytes=CAPACITY,
        now_ms=0,
    )

    assert arranged.protected_bytes == {"high": 150 * MIB, "low": 0}


@pytest.mark.requirement("isolation.admission")
def test_a_call_waits_while_its_estimate_does_not_fit() -> None:
    isolation = IsolationControl(TERMS)
    running = seen("other", base=300, held=100, expected=300)

    assert next_in(isolation, [asked(expected=350)], running) == 0
    assert next_in(isolation, [asked(expected=351)], running) is None


def test_what_lesser_sessions_may_still_take_is_not_in_the_way_of_a_more_important_call() -> None:
    low = seen("low", base=300, expected=600)

    assert next_in(IsolationControl(TERMS), [asked(Priority.HIGH, expected=500)], low) == 0
    assert next_in(IsolationControl(TERMS), [asked(Priority.LOW, expected=500)], low) is None


def test_room_is_kept_for_the_next_call_of_a_more_important_session_for_a_while() -> None:
    isolation = IsolationControl(TERMS)
    frozen(isolation, seen("high", Priority.HIGH, base=100, held=400, expected=400))
    resting = seen("high", Priority.HIGH, base=100, calls=0)
    low = seen("low", base=100, expected=50)
    frozen(isolation, resting, low, now_ms=20)

    soon = next_in(isolation, [asked(expected=650)], resting, low, now_ms=20)
    later = next_in(isolation, [asked(expected=650)], resting, low, now_ms=TERMS.patience_ms)

    assert (soon, later) == (None, 0)


def test_a_call_that_has_waited_for_long_is_not_passed_by_smaller_ones() -> None:
    waiting = [asked(expected=800), asked(expected=10, session="small", since_ms=9_000)]
    running = seen("other", base=300, expected=100)

    assert next_in(IsolationControl(TERMS), waiting, running, now_ms=1_000) == 1
    assert next_in(IsolationControl(TERMS), waiting, running, now_ms=10_000) is None


def test_a_call_larger_than_the_machine_starts_where_nobody_else_runs() -> None:
    resting = seen("other", base=300, calls=0)

    assert next_in(IsolationControl(TERMS), [asked(expected=5_000)], resting) == 0


SESSIONS = st.lists(
    st.builds(
        seen,
        st.uuids().map(str),
        PRIORITIES,
        held=st.integers(0, 500),
        base=st.integers(0, 300),
        expected=st.integers(0, 900),
        calls=st.integers(0, 3),
        stall=st.none() | st.integers(0, 100),
        busy=st.none() | st.integers(0, 100),
    ),
    max_size=6,
    unique_by=lambda one: one.session,
)


@pytest.mark.requirement("isolation.somebody-runs")
def test_where_nobody_fits_one_goes_on_and_the_same_until_it_is_over() -> None:
    isolation = IsolationControl(TERMS)
    looks = [
        frozen_growing(
            isolation,
            seen("high", Priority.HIGH, base=400, held=100, expected=50),
            seen("low", base=390, held=100 + number, expected=50),
            now_ms=20 + 40 * number,
        )
        for number in range(8)
    ]

    assert len(looks[0]) == 1
    assert set(looks) == {looks[0]}


@pytest.mark.requirement("isolation.somebody-runs")
@given(looks=st.lists(SESSIONS, min_size=1, max_size=20), step_ms=st.integers(1, 3_000))
def test_somebody_always_runs(looks: list[list[Seen]], step_ms: int) -> None:
    isolation = IsolationControl(TERMS)
    for number, sessions in enumerate(looks):
        found = frozen(isolation, *sessions, now_ms=number * step_ms)

        busy = {one.session for one in sessions if one.calls}
        assert found <= busy
        assert not busy or busy - found


@pytest.mark.requirement("isolation.nothing-outgrows")
@given(
    priorities=st.lists(PRIORITIES, min_size=2, max_size=5),
    peaks=st.lists(st.integers(1, 500), min_size=5, max_size=5),
    durations=st.lists(st.integers(100, 3_000), min_size=5, max_size=5),
)
def test_calls_that_keep_to_their_estimates_all_end_and_never_outgrow_the_machine(
    priorities: list[Priority], peaks: list[int], durations: list[int]
) -> None:
    isolation, step_ms = IsolationControl(TERMS), 20
    waiting = [
        asked(priority, expected=peaks[number], session=str(number))
        for number, priority in enumerate(priorities)
    ]
    running: dict[str, int] = {}
    for now_ms in range(0, 60_000, step_ms):
        sessions = [
            seen(
                name,
                priorities[int(name)],
                held=min(peaks[int(name)], peaks[int(name)] * 2 * done // durations[int(name)]),
                expected=peaks[int(name)],
            )
            for name, done in running.items()
        ]
        assert sum(one.memory_bytes for one in sessions) <= CAPACITY
        held = frozen(isolation, *sessions, now_ms=now_ms)
        place = isolation.next_in(waiting, sessions, capacity_bytes=CAPACITY, now_ms=now_ms)
        if place is not None:
            running[waiting.pop(place).session] = 0
        running = {
            name: done + step_ms * (name not in held)
            for name, done in running.items()
            if done < durations[int(name)]
        }
        if not running and not waiting:
            break

    assert not running
    assert not waiting


@pytest.mark.parametrize(
    "terms",
    [
        {"margin_bytes": -1},
        {"standstill_percent": 100},
        {"slice_ms": 0},
        {"patience_ms": 0},
        {"stall_percent": 0},
    ],
)
def test_terms_that_would_let_nobody_run_are_refused(terms: dict[str, int]) -> None:
    with pytest.raises(InvalidPolicyError):
        IsolationTerms(**terms)
