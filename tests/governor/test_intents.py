"""What a declaration is granted: whatever is said, never more than the rule allows."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from governor.fairness.claim import Priority
from governor.intents import NO_INTENT, Intent, Size, ceiling_bytes, granted
from governor.limits import ExecutionLimits

MIB = 1024 * 1024
LIMITS = ExecutionLimits(
    memory_bytes=512 * MIB,
    pids=128,
    cpu_millis=2_000,
    cpu_ms=None,
    wall_ms=60_000,
    output_bytes=MIB,
    memory_ceiling_bytes=2_048 * MIB,
)
INTENTS = st.builds(
    Intent,
    size=st.none() | st.sampled_from(Size),
    memory_bytes=st.none() | st.integers(1, 2**62),
    cpu_millis=st.none() | st.integers(1, 2**40),
    duration_ms=st.none() | st.integers(1, 2**62),
    priority=st.none() | st.sampled_from(Priority),
)
SOME_LIMITS = st.builds(
    replace,
    st.just(LIMITS),
    memory_bytes=st.none() | st.integers(1, 2**40),
    memory_ceiling_bytes=st.none() | st.integers(1, 2**40),
    cpu_millis=st.none() | st.integers(1, 1_000_000),
    wall_ms=st.integers(1, 10**9),
)


def test_a_word_is_a_part_of_the_ceiling() -> None:
    sizes = {size: granted(Intent(size=size), LIMITS).limits for size in Size}

    assert sizes[Size.LOW].memory_bytes == 512 * MIB
    assert sizes[Size.MEDIUM].memory_bytes == 1_024 * MIB
    assert sizes[Size.HIGH].memory_bytes == 2_048 * MIB
    assert [sizes[size].cpu_millis for size in Size] == [500, 1_000, 2_000]


def test_a_figure_says_more_than_a_word() -> None:
    grant = granted(Intent(size=Size.HIGH, memory_bytes=64 * MIB), LIMITS)

    assert grant.limits.memory_bytes == 64 * MIB
    assert grant.limits.cpu_millis == 2_000


def test_what_is_asked_above_the_rule_is_cut_and_said() -> None:
    much = Intent(memory_bytes=10_000 * MIB, cpu_millis=64_000, duration_ms=10**9)

    grant = granted(much, LIMITS)

    assert grant.limits.memory_bytes == 2_048 * MIB
    assert grant.limits.cpu_millis == 2_000
    assert grant.expected_ms == 60_000
    assert grant.clamped == ("memory_mib", "cpus", "duration_ms")


def test_who_says_that_it_needs_less_may_still_be_raised_to_the_ceiling() -> None:
    grant = granted(Intent(memory_bytes=64 * MIB), replace(LIMITS, memory_ceiling_bytes=None))

    assert grant.limits.memory_bytes == 64 * MIB
    assert grant.limits.memory_ceiling_bytes == 512 * MIB


def test_an_expected_duration_is_no_limit() -> None:
    grant = granted(Intent(duration_ms=10), LIMITS)

    assert grant.limits.wall_ms == 60_000
    assert grant.expected_ms == 10


def test_one_place_adds_to_another_and_outranks_it() -> None:
    argument = Intent(memory_bytes=1)
    request = Intent(memory_bytes=2, priority=Priority.LOW)

    assert argument.over(request) == Intent(memory_bytes=1, priority=Priority.LOW)


def test_without_a_word_the_rule_stands() -> None:
    assert granted(NO_INTENT, LIMITS).limits is LIMITS


@given(INTENTS, SOME_LIMITS)
def test_nothing_that_is_said_gets_more_than_the_rule_allows(
    intent: Intent, limits: ExecutionLimits
) -> None:
    grant = granted(intent, limits)

    given, ceiling = grant.limits, ceiling_bytes(limits)
    if ceiling is not None:
        assert given.memory_bytes is not None
        assert 0 < given.memory_bytes <= ceiling
        assert (ceiling_bytes(given) or 0) <= ceiling
    if limits.cpu_millis is not None:
        assert given.cpu_millis is not None
        assert 0 < given.cpu_millis <= limits.cpu_millis
    assert (grant.expected_ms or 0) <= limits.wall_ms
    # All else is the rule's own.
    assert (
        replace(
            given,
            memory_bytes=limits.memory_bytes,
            memory_ceiling_bytes=limits.memory_ceiling_bytes,
            cpu_millis=limits.cpu_millis,
            weight_wished=limits.weight_wished,
        )
        == limits
    )
