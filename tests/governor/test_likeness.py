"""What makes two calls or two results the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.likeness import (
    ALIKE_MIN,
    SKETCH_MAX,
    likeness,
    print_of_call,
    print_of_result,
    sketch_of,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
ARGUMENTS = st.dictionaries(st.text(), JSON, max_size=5)


def result(text: str, *, reads: bool = True) -> bytes:
    return print_of_result((text,), is_error=False, with_ids=reads)


@given(arguments=ARGUMENTS)
def test_a_call_is_the_same_in_any_order_of_its_arguments(arguments: dict[str, object]) -> None:
    backwards = dict(reversed(arguments.items()))

    assert print_of_call("t", arguments) == print_of_call("t", backwards)


@given(arguments=ARGUMENTS)
def test_calls_of_two_tools_are_never_alike(arguments: dict[str, object]) -> None:
    one, other = print_of_call("a", arguments), print_of_call("b", arguments)

    assert not one.is_same(other)
    assert not one.is_alike(other)


@given(one=st.lists(st.text(max_size=3)), other=st.lists(st.text(max_size=3)))
def test_likeness_is_a_share_and_goes_both_ways(one: list[str], other: list[str]) -> None:
    mine, theirs = sketch_of(one), sketch_of(other)

    assert likeness(mine, mine) == 1
    assert 0 <= likeness(mine, theirs) == likeness(theirs, mine) <= 1


def test_the_sketch_of_a_long_text_is_bounded_and_a_fair_sample() -> None:
    words = [f"word{n}" for n in range(10_000)]
    half = [*words[:5_000], *(f"other{n}" for n in range(5_000))]

    # Half of each are the other's, so a third of all pairs are both's.
    assert len(sketch_of(words)) == 4 * SKETCH_MAX
    assert 0.15 < likeness(sketch_of(words), sketch_of(half)) < 0.55


@pytest.mark.parametrize(("changed", "is_alike"), [(1, True), (2, True), (3, False), (10, False)])
def test_about_one_word_in_twenty_may_differ(changed: int, is_alike: bool) -> None:  # noqa: FBT001
    words = [f"word{n}" for n in range(38)]
    other = [f"new{n}" if n < changed * 3 and n % 3 == 0 else word for n, word in enumerate(words)]

    assert (likeness(sketch_of(words), sketch_of(other)) >= ALIKE_MIN) is is_alike


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("done in 12 ms", "done in 5.5 ms"),
        ("at 2026-01-01T10:00:00Z", "at 2026-01-01 11:30:59.123+02:00"),
        ("written to /tmp/abc123/x", "written to /tmp/def456/x"),
        ("attempt 3 failed", "attempt 4 failed"),
        ('{"rows": [], "trace_id": "a"}', '{"trace_id": "b", "rows": []}'),
        ("request req_ab12cd34 refused", "request req_ef56ab78 refused"),
    ],
)
def test_what_changes_by_itself_is_not_a_new_result(one: str, other: str) -> None:
    assert result(one) == result(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("3 tests failed", "2 tests failed"),
        ("[1, 2]", "[2, 1]"),
        ("page 1 of 9", "page 2 of 9"),
        ("ok", "OK"),
        ("x" * 40_000 + "a", "x" * 40_000 + "b"),
        ("x " * 4_000 + "a", "x " * 4_000 + "b"),
    ],
)
def test_what_was_found_is_a_new_result(one: str, other: str) -> None:
    assert result(one) != result(other)


def test_an_id_is_news_from_a_tool_that_makes_things_and_not_from_one_that_reads() -> None:
    one, other = (f"made 9b2f6c1e-0000-4000-8000-00000000000{n}" for n in (1, 2))

    assert result(one) == result(other)
    assert result(one, reads=False) != result(other, reads=False)


def test_an_error_is_not_the_result_of_the_same_words() -> None:
    fine = print_of_result(("x",), is_error=False, with_ids=True)
    failed = print_of_result(("x",), is_error=True, with_ids=True)

    assert fine != failed


def test_arguments_nested_without_end_are_read_all_the_same() -> None:
    deep: object = 1
    for _ in range(500):
        deep = [deep]

    assert print_of_call("t", {"a": deep}) == print_of_call("t", {"a": deep})
