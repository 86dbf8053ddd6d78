"""What sessions teach by rule, and how closely a class of tasks is guided by its record."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.experience.certainty import bounds_of
from governor.experience.guidance import Guidance, TaskRecord, guided_by
from governor.experience.reflection import (
    Recovery,
    Step,
    error_class,
    recoveries_in,
    repeated_in,
    said_of,
    votes_on,
)


def test_an_error_is_the_same_whatever_numbers_paths_and_ids_it_names() -> None:
    one = error_class(
        "No such file /tmp/a1/x.py: line 17 (request 4bf92f3577b34da6a3ce929d0e0e4736)"
    )
    other = error_class(
        "No such file /srv/y.py:\n line 4 (request 00000000aaaaaaaa1111111122222222)"
    )

    assert one == other == "No such file PATH: line N (request ID)"


@pytest.mark.requirement("playbook.rules")
def test_what_worked_after_an_error_becomes_words_once_two_sessions_saw_it() -> None:
    failing = Step(tool="search", error="bad date 5", arguments_hash="a")
    changed = Step(tool="search", error=None, arguments_hash="b")
    first = recoveries_in([failing, changed])
    second = recoveries_in([failing, Step(tool="list", error=None), changed])
    third = recoveries_in([failing, Step(tool="list", error=None)])

    found = repeated_in([("s1", first), ("s2", second), ("s3", third)])

    assert [(said_of(one.recovery), one.sessions) for one in found] == [
        (
            'when search fails with "bad date N", calling it with other arguments worked',
            ("s1", "s2"),
        )
    ]


def test_what_nothing_helped_against_is_said_and_what_came_too_late_is_not_counted() -> None:
    failing = Step(tool="pay", error="declined")
    fine = Step(tool="note", error=None)

    (lost,) = recoveries_in([failing, failing, failing, failing, failing])
    (other,) = recoveries_in([failing, fine])
    (again,) = recoveries_in([failing, Step(tool="pay", error=None)])

    assert said_of(lost).endswith("nothing that was tried next worked: do not repeat it")
    assert said_of(other).endswith("note worked next")
    assert said_of(again).endswith("calling it once more worked")
    assert recoveries_in([fine]) == ()


def test_a_session_votes_for_the_way_that_worked_again_and_against_one_that_did_not() -> None:
    way = Recovery(tool="a", error="e", then="b")
    bullets = [("blt_1", said_of(way)), ("blt_2", "when x fails"), ("blt_3", "be careful")]

    helped = votes_on(bullets, [way])
    harmed = votes_on(bullets, [Recovery(tool="a", error="e", then=None)])
    neither = votes_on(bullets, [Recovery(tool="a", error="e", then="c")])

    assert (helped, harmed, neither) == ((("blt_1", True),), (("blt_1", False),), ())


@given(st.text(max_size=400))
def test_no_error_text_breaks_a_line_or_grows_without_end(text: str) -> None:
    found = error_class(text)

    assert len(found) <= 160
    assert found.isprintable() or not found
    assert '"' not in found


@pytest.mark.requirement("guidance.by-record")
@pytest.mark.parametrize(
    ("solved", "ended", "expected"),
    [
        (0, 0, Guidance.PLAYBOOK),
        (4, 4, Guidance.PLAYBOOK),
        (50, 50, Guidance.NONE),
        (38, 50, Guidance.HINTS),
        (30, 50, Guidance.PLAYBOOK),
        (12, 50, Guidance.STEP_CHECKS),
        (2, 50, Guidance.ASK),
    ],
)
def test_a_class_that_goes_well_is_left_alone_and_one_that_fails_is_walked_through(
    solved: int, ended: int, expected: Guidance
) -> None:
    found = guided_by(TaskRecord(solved=solved, ended=ended))

    assert found.guidance is expected
    assert bool(found.told) == (expected is not Guidance.NONE)
    assert found.shows_playbook == (expected not in {Guidance.NONE, Guidance.HINTS})
    assert found.shows_cases == (expected is not Guidance.NONE)


def test_what_is_hard_to_undo_is_guided_one_step_more() -> None:
    record = TaskRecord(solved=50, ended=50)

    assert guided_by(record, is_risky=True).guidance is Guidance.HINTS
    assert guided_by(TaskRecord(solved=0, ended=50), is_risky=True).guidance is Guidance.ASK


@given(st.integers(0, 200), st.integers(0, 200))
def test_bounds_hold_the_share_and_close_in_as_more_is_counted(good: int, bad: int) -> None:
    bounds, ten_times = bounds_of(good, good + bad), bounds_of(10 * good, 10 * (good + bad))

    assert 0.0 <= bounds.low <= bounds.high <= 1.0
    if good + bad:
        assert bounds.low - 1e-9 <= good / (good + bad) <= bounds.high + 1e-9
        assert ten_times.high - ten_times.low <= bounds.high - bounds.low + 1e-9
