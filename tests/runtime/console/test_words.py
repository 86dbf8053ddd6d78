import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.console.changes import changes
from runtime.console.words import (
    amount,
    amount_words,
    duration_words,
    grouped,
    moment,
    plain,
    relative,
    share_permille,
)

NARROW = "\N{NARROW NO-BREAK SPACE}"
MINUS = "\N{MINUS SIGN}"


@pytest.mark.requirement("console.units")
@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0, "cost_microusd", "$0"),
        (40, "cost_microusd", "$0.00004"),
        (12_500, "cost_microusd", "$0.0125"),
        (480_000, "cost_microusd", "$0.48"),
        (999_999, "cost_microusd", "$1.00"),
        (1_035_000, "cost_microusd", "$1.04"),
        (-1_500_000, "cost_microusd", f"{MINUS}$1.50"),
        (1_234_567_890_000, "cost_microusd", f"$1{NARROW}234{NARROW}567.89"),
        (1023, "io_bytes", f"1{NARROW}023 B"),
        (1024, "io_bytes", "1 KiB"),
        (1_572_864, "memory_bytes", "1.5 MiB"),
        (2**40, "egress_bytes", "1 TiB"),
        (9_999, "input_tokens", f"9{NARROW}999"),
        (12_345, "output_tokens", "12.3k"),
        (1_500_000, "tool_calls", "1.5M"),
        (999, "wall_ms", "999 ms"),
        (1_500, "wall_ms", "1.5 s"),
        (90_000, "cpu_ms", "1 min 30 s"),
        (90_000_000, "wall_ms", "1 d 1 h"),
        (1_500, "energy_mj", "1 J"),
        (30_720, "memory_mib_s", "30.7k MiB·s"),
    ],
)
def test_an_amount_is_told_in_the_unit_that_people_read(value: int, unit: str, shown: str) -> None:
    assert amount_words(value, unit) == shown


@given(value=st.integers(-(2**62), 2**62))
def test_the_exact_integer_always_stands_beside_the_words(value: int) -> None:
    for unit in ("cost_microusd", "io_bytes", "wall_ms", "tool_calls", "energy_mj"):
        told = amount(value, unit)

        assert f'<data value="{value}"' in told
        assert f"{grouped(value)} {unit}" in told


def test_what_is_unknown_is_not_told_as_nothing() -> None:
    assert "unknown" in amount(None, "cost_microusd")


def test_moments_are_told_from_now_on() -> None:
    assert relative(1_000, 1_500) == "now"
    assert relative(0, 65_000) == "1 min ago"
    assert relative(7_200_000, 0) == "in 2 h"
    assert 'title="1970-01-01 00:00:01 UTC"' in moment(1_000, 500_000)
    assert "after the year 9999" in moment(2**62, 0)


@given(milliseconds=st.integers(-(2**62), 2**62))
def test_every_duration_has_words(milliseconds: int) -> None:
    assert duration_words(milliseconds)


@given(part=st.integers(0, 2**62), whole=st.integers(0, 2**62))
def test_a_share_lies_between_nothing_and_all(part: int, whole: int) -> None:
    assert 0 <= share_permille(part, whole) <= 1000


def test_only_what_differs_is_a_change_and_stored_json_is_opened() -> None:
    before = {"limits": '{"tool_calls": 5}', "mode": "enforce", "subject": None}
    after = {"limits": '{"tool_calls": 9}', "mode": "enforce", "subject": "ada"}

    found = [(one.field, one.before, one.after) for one in changes(before, after)]

    assert found == [("limits.tool_calls", "5", "9"), ("subject", None, "ada")]


def test_of_something_new_every_field_is_told_and_of_something_removed_what_it_was() -> None:
    made = changes(None, {"name": "Acme", "disabled": False, "note": None})
    gone = changes({"tools": ["read", "write"]}, None)

    assert [(one.field, one.after) for one in made] == [("disabled", "false"), ("name", "Acme")]
    assert [(one.field, one.before, one.after) for one in gone] == [("tools", "read, write", None)]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=40)
@given(state=st.dictionaries(st.text("abc"), json_values, max_size=3))
def test_whatever_a_state_holds_its_changes_can_be_told(state: dict[str, object]) -> None:
    assert changes(state, state) == []
    assert all(one.before is None for one in changes(None, state))


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("rm \u202etxt.exe", r"rm \u202etxt.exe"),
        ("a\u200bb\x1b[2J\x9b\x00", r"a\u200bb\u001b[2J\u009b\u0000"),
        ("one\ntwo\tthree\r\nfour\rfive", "one\ntwo\tthree\r\nfour\\u000dfive"),
        ("\u2028\U000e0041\ud800", r"\u2028\U000e0041\ud800"),
        ("Zoë 日本 ✓ 😀", "Zoë 日本 ✓ 😀"),
    ],
)
def test_what_is_not_seen_is_shown_as_its_number(written: str, shown: str) -> None:
    assert plain(written) == shown
