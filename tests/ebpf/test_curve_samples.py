import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebpf.domains.curve_samples import CurveSamples
from governor.curve import POINTS_MAX, CurvePoint

MIB = 1024 * 1024


@pytest.mark.requirement("curves.bounded")
@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(1, 10**9), max_size=1_500),
    st.integers(0, 5),
)
def test_a_curve_of_any_length_is_bounded_and_keeps_peak_and_end(
    held: list[int], seed: int
) -> None:
    samples = CurveSamples()
    samples.begin(10.0)
    for number, memory_bytes in enumerate(held):
        at = 10.0 + number * 0.05 + seed * 0.001
        samples.note(at, memory_bytes=memory_bytes, cpu_ms=number * 7)
    samples.end(10.0 + len(held) * 0.05)

    curve = samples.curve(now=9e9, cpu_ms=len(held) * 7, memory_peak_bytes=5)

    assert curve is not None
    points = curve.points
    assert 1 <= len(points) <= POINTS_MAX
    assert [point.at_ms for point in points] == sorted(point.at_ms for point in points)
    assert points[-1].at_ms == round(len(held) * 50)
    assert points[-1].cpu_ms == len(held) * 7
    assert max(point.memory_bytes for point in points) == max(held, default=5)


def test_a_short_command_keeps_every_sample() -> None:
    samples = CurveSamples()
    samples.begin(0.0)
    samples.note(0.05, memory_bytes=3 * MIB, cpu_ms=20)
    samples.note(0.1, memory_bytes=MIB, cpu_ms=60)

    curve = samples.curve(now=0.12, cpu_ms=70, memory_peak_bytes=4 * MIB)

    assert curve is not None
    assert curve.points == (
        CurvePoint(50, 3 * MIB, 20),
        CurvePoint(100, MIB, 60),
        CurvePoint(120, MIB, 70),
    )


def test_a_command_too_short_for_a_sample_has_one_point_with_its_peak() -> None:
    samples = CurveSamples()
    samples.begin(1.0)
    samples.end(1.01)

    curve = samples.curve(now=5.0, cpu_ms=3, memory_peak_bytes=2 * MIB)

    assert curve is not None
    assert curve.points == (CurvePoint(10, 2 * MIB, 3),)


def test_a_command_that_never_began_and_one_of_which_nothing_is_known_have_no_curve() -> None:
    begun = CurveSamples()
    begun.begin(1.0)

    assert CurveSamples().curve(now=2.0, cpu_ms=1, memory_peak_bytes=MIB) is None
    assert begun.curve(now=2.0, cpu_ms=1, memory_peak_bytes=None) is None


def test_processor_time_that_was_missed_once_is_unknown_not_zero() -> None:
    samples = CurveSamples()
    samples.begin(0.0)
    samples.note(0.05, memory_bytes=MIB, cpu_ms=None)
    samples.note(0.1, memory_bytes=MIB, cpu_ms=60)

    curve = samples.curve(now=0.2, cpu_ms=70, memory_peak_bytes=MIB)

    assert curve is not None
    assert [point.cpu_ms for point in curve.points] == [None, None, None]


def test_sampled_processor_time_never_falls() -> None:
    samples = CurveSamples()
    samples.begin(0.0)
    samples.note(0.1, memory_bytes=MIB, cpu_ms=60)
    samples.note(0.2, memory_bytes=MIB, cpu_ms=40)

    curve = samples.curve(now=0.3, cpu_ms=50, memory_peak_bytes=MIB)

    assert curve is not None
    assert [point.cpu_ms for point in curve.points] == [60, 60, 60]
