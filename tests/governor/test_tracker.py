"""What remains, as a model reads it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.amounts import AMOUNT_MAX, Unit
from governor.tracker import (
    LINE_CHARS_MAX,
    BudgetLine,
    Plenty,
    Tracker,
    amount_words,
    duration_words,
    line_text,
    note_text,
    pace_of,
    plenty_of,
    status_text,
)

HOUR = 3_600_000
DAY = 24 * HOUR


def line(
    unit: Unit = Unit.TOOL_CALLS,
    *,
    limit: int = 100,
    used: int = 0,
    reserved: int = 0,
    scope: str = "session",
    window: tuple[int, int] | None = None,
    name: str = "each-session",
) -> BudgetLine:
    return BudgetLine(
        budget_id=name,
        scope=scope,
        unit=unit,
        limit=limit,
        used=used,
        reserved=reserved,
        starts_at_ms=None if window is None else window[0],
        resets_at_ms=None if window is None else window[1],
    )


LINES = [
    line(used=50, reserved=8),
    line(
        Unit.COST_MICROUSD,
        limit=5_000_000,
        used=4_400_123,
        window=(0, DAY),
        scope="agent",
        name="day",
    ),
    line(Unit.TURNS, limit=20, used=10),
    line(Unit.INPUT_TOKENS, limit=2_500_000, used=12_345),
]


@pytest.mark.requirement("budget.line-is-short")
def test_the_line_names_the_tightest_budgets_with_share_pace_and_reset() -> None:
    assert line_text(LINES, now_ms=11 * HOUR, mode=Tracker.LINE) == (
        "[budget LOW: $0.5998 of $5.00 left (11%), pace 1.9x, resets in 13 h; "
        "42 of 100 tool calls left (42%)]"
    )


def test_the_note_adds_what_to_do_about_it() -> None:
    assert note_text(LINES, now_ms=11 * HOUR, mode=Tracker.LINE) == (
        "Budget LOW: $0.5998 of $5.00 left (11%), pace 1.9x, resets in 13 h; "
        "42 of 100 tool calls left (42%), pace 1.2x; 10 of 20 turns left (50%). "
        "Only what the task still needs, one focused call at a time."
    )


def test_the_status_lists_every_budget_the_tightest_first() -> None:
    assert status_text(LINES, now_ms=11 * HOUR) == (
        "Budget LOW. Only what the task still needs, one focused call at a time.\n"
        "- LOW: agent budget day: $0.5998 of $5.00 left (11%), pace 1.9x, resets in 13 h\n"
        "- MEDIUM: session budget each-session: 42 of 100 tool calls left (42%), pace 1.2x\n"
        "- MEDIUM: session budget each-session: 10 of 20 turns left (50%)\n"
        "- HIGH: session budget each-session: 2.4M of 2.5M input tokens left (99%), pace 0.0x\n"
        "(pace: used share over elapsed share; above 1x the budget runs out before its time)"
    )


def test_without_a_budget_there_is_nothing_to_tell() -> None:
    assert plenty_of([]) is None
    assert line_text([], now_ms=0, mode=Tracker.LINE) is None
    assert note_text([], now_ms=0, mode=Tracker.LINE) is None
    assert status_text([], now_ms=0) == "No budget limits this session."


@pytest.mark.parametrize(
    ("used", "plenty"),
    [
        (0, Plenty.HIGH),
        (30, Plenty.HIGH),
        (31, Plenty.MEDIUM),
        (70, Plenty.MEDIUM),
        (71, Plenty.LOW),
        (90, Plenty.LOW),
        (91, Plenty.CRITICAL),
        (100, Plenty.CRITICAL),
        (140, Plenty.CRITICAL),
    ],
)
def test_what_is_left_has_a_word(used: int, plenty: Plenty) -> None:
    assert line(used=used).plenty is plenty


@pytest.mark.parametrize(
    ("mode", "used", "is_told"),
    [
        (Tracker.OFF, 99, False),
        (Tracker.LINE, 0, True),
        (Tracker.WHEN_LOW, 70, False),
        (Tracker.WHEN_LOW, 71, True),
        (Tracker.WHEN_LOW, 99, True),
    ],
)
def test_the_policy_says_when_a_line_is_due(
    mode: Tracker,
    used: int,
    is_told: bool,  # noqa: FBT001
) -> None:
    lines = [line(used=used)]

    assert (line_text(lines, now_ms=0, mode=mode) is not None) is is_told
    assert (note_text(lines, now_ms=0, mode=mode) is not None) is is_told


def test_a_limit_of_nothing_is_used_up() -> None:
    assert line_text([line(limit=0)], now_ms=0, mode=Tracker.LINE) == (
        "[budget CRITICAL: 0 of 0 tool calls left (0%)]"
    )


def test_pace_compares_use_with_the_time_of_the_window() -> None:
    spent = line(used=50, window=(0, 1_000))

    assert pace_of(spent, [spent], now_ms=250) == 2
    assert pace_of(spent, [spent], now_ms=500) == 1
    assert pace_of(spent, [spent], now_ms=1_000) == 0.5
    # A moment after the window began every pace is noise.
    assert pace_of(spent, [spent], now_ms=5) is None


def test_pace_compares_use_with_the_turns_where_no_window_ends() -> None:
    spent, turns = line(used=50), line(Unit.TURNS, limit=10, used=2)

    assert pace_of(spent, [spent, turns], now_ms=0) == pytest.approx(2.5)
    assert pace_of(turns, [spent, turns], now_ms=0) is None
    assert pace_of(spent, [spent], now_ms=0) is None


@pytest.mark.requirement("budget.line-is-short")
@given(
    lines=st.lists(
        st.builds(
            line,
            st.sampled_from(Unit),
            limit=st.integers(0, AMOUNT_MAX),
            used=st.integers(0, AMOUNT_MAX),
            reserved=st.integers(0, AMOUNT_MAX),
            window=st.none() | st.tuples(st.integers(0, 10**12), st.integers(0, 10**13)),
        ),
        min_size=1,
        max_size=6,
    ),
    now_ms=st.integers(0, 10**13),
)
def test_a_line_is_one_line_below_200_characters(lines: list[BudgetLine], now_ms: int) -> None:
    text = line_text(lines, now_ms=now_ms, mode=Tracker.LINE)

    assert text is not None
    assert len(text) <= LINE_CHARS_MAX
    assert "\n" not in text
    assert "left (" in text


@pytest.mark.parametrize(
    ("unit", "amount", "words"),
    [
        (Unit.COST_MICROUSD, 0, "$0.000000"),
        (Unit.COST_MICROUSD, 50, "$0.000050"),
        (Unit.COST_MICROUSD, 12_345, "$0.0123"),
        (Unit.COST_MICROUSD, 999_999, "$0.9999"),
        (Unit.COST_MICROUSD, 1_239_999, "$1.23"),
        (Unit.INPUT_TOKENS, 9_999, "9999"),
        (Unit.INPUT_TOKENS, 12_399, "12.3k"),
        (Unit.OUTPUT_TOKENS, 1_000_000, "1M"),
        (Unit.TOOL_CALLS, 7, "7"),
        (Unit.WALL_MS, 850, "850 ms"),
        (Unit.CPU_MS, 12_999, "12 s"),
    ],
)
def test_an_amount_is_told_as_people_write_it_and_never_more_than_it_is(
    unit: Unit, amount: int, words: str
) -> None:
    assert amount_words(unit, amount) == words


@pytest.mark.parametrize(
    ("span_ms", "words"),
    [(0, "0 ms"), (90_000, "90 s"), (150_000, "2 min"), (3 * HOUR, "3 h"), (49 * HOUR, "2 d")],
)
def test_a_span_is_told_in_its_largest_fitting_unit(span_ms: int, words: str) -> None:
    assert duration_words(span_ms) == words
