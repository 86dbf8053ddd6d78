"""The parts that keep a server within bounds, each by itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_gateway.errors import UpstreamFailedError
from tool_gateway.upstreams.backoff import Backoff
from tool_gateway.upstreams.lines import LineCutter
from tool_gateway.upstreams.stderr import LINE_CHARS_MAX, LINES_MAX, StderrRing


@given(text=st.binary(max_size=200), sizes=st.lists(st.integers(1, 20), min_size=1))
def test_lines_are_the_same_however_they_come_apart(text: bytes, sizes: list[int]) -> None:
    cutter, found, at = LineCutter(bytes_max=200), [], 0
    while at < len(text):
        size = sizes[at % len(sizes)]
        found += list(cutter.cut(text[at : at + size]))
        at += size

    assert found == text.split(b"\n")[:-1]


@pytest.mark.requirement("upstream.lines-are-bounded")
def test_a_line_may_be_as_long_as_the_bound_and_no_longer() -> None:
    cutter = LineCutter(bytes_max=10)

    assert list(cutter.cut(b"0123456789\n01234")) == [b"0123456789"]
    assert list(cutter.cut(b"56789\n")) == [b"0123456789"]
    with pytest.raises(UpstreamFailedError, match="more than 10 bytes"):
        list(cutter.cut(b"0123456789a"))


def test_pauses_double_up_to_a_bound_and_begin_anew_after_a_steady_life() -> None:
    backoff = Backoff(first_s=0.5, most_s=4, steady_s=10, jitter=lambda: 0.0)

    pauses = [backoff.after(lived_s=None) for _ in range(5)]
    steady = backoff.after(lived_s=11.0)
    after_that = backoff.after(lived_s=3.0)

    assert pauses == [0.5, 1, 2, 4, 4]
    assert (steady, after_that) == (0.0, 0.5)


def test_a_pause_is_spread_over_its_second_half() -> None:
    pauses = [
        Backoff(first_s=2, most_s=30, steady_s=10, jitter=jitter).after(lived_s=None)
        for jitter in (lambda: 0.0, lambda: 0.5, lambda: 1.0)
    ]

    assert pauses == [2, 1.5, 1]


def test_what_a_server_writes_is_kept_up_to_a_bound_however_it_is_written() -> None:
    ring = StderrRing()
    for _ in range(1_000):
        ring.feed(b"x" * 10_000)  # a single line
    kept = ring.lines()

    assert len(kept) == LINES_MAX
    assert all(len(line) == LINE_CHARS_MAX for line in kept)
    assert len(ring._rest) <= LINE_CHARS_MAX


def test_last_words_are_those_of_the_present_server_without_credentials() -> None:
    ring = StderrRing()
    ring.begin()
    ring.feed(b"old trouble\n")
    ring.begin()
    silent = ring.tail()
    ring.feed(b"one\ntwo\nthree\npassword=hunter2\nlast word")
    ring.end()

    assert silent == ""
    assert ring.tail() == "three | password=[redacted] | last word"
    assert ring.lines()[0] == "old trouble"
