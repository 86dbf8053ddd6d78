from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from governor.curve import Curve, CurvePoint, cpu_millis, halved

POINTS = st.lists(st.tuples(st.integers(1, 500), st.integers(0, 2**40), st.integers(0, 500)))


def points_of(steps: list[tuple[int, int, int]]) -> list[CurvePoint]:
    points, at_ms, cpu_ms = [], 0, 0
    for elapsed_ms, memory_bytes, used_ms in steps:
        at_ms, cpu_ms = at_ms + elapsed_ms, cpu_ms + used_ms
        points.append(CurvePoint(at_ms, memory_bytes, cpu_ms))
    return points


@given(POINTS)
def test_half_as_many_points_have_the_same_peak_and_the_same_end(
    steps: list[tuple[int, int, int]],
) -> None:
    points = points_of(steps)

    fewer = halved(points)

    assert len(fewer) == -(-len(points) // 2)
    assert [point.memory_bytes for point in fewer[:-1]] == [
        max(one.memory_bytes, other.memory_bytes)
        for one, other in list(pairwise(points))[: len(points) - 1 : 2]
    ][: len(fewer) - 1]
    if points:
        assert max(one.memory_bytes for one in fewer) == max(one.memory_bytes for one in points)
        assert (fewer[-1].at_ms, fewer[-1].cpu_ms) == (points[-1].at_ms, points[-1].cpu_ms)


def test_the_share_of_a_processor_is_that_since_the_point_before() -> None:
    points = [CurvePoint(1, 1, 1), CurvePoint(101, 1, 51), CurvePoint(201, 1, 251)]

    assert cpu_millis(points) == [None, 500, 2000]


def test_processor_time_that_nobody_counts_has_no_share() -> None:
    assert cpu_millis([CurvePoint(100, 1, None), CurvePoint(200, 1, None)]) == [None, None]


def test_what_was_counted_at_the_end_stands_at_the_end() -> None:
    curve = Curve(points=(CurvePoint(100, 7, 90), CurvePoint(180, 7, 90)))

    assert curve.ended_at(160).points == (CurvePoint(100, 7, 90), CurvePoint(180, 7, 160))
    assert curve.ended_at(80) == curve
    assert curve.ended_at(None) == curve


def test_processor_time_that_nobody_counted_on_the_way_is_none_at_the_end() -> None:
    curve = Curve(points=(CurvePoint(100, 7, None),))

    assert curve.ended_at(160) == curve
