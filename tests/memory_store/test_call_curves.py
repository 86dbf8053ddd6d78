from dataclasses import replace

import pytest
from contracts.builders import COST, record, request
from hypothesis import given
from hypothesis import strategies as st

from governor.amounts import Amounts
from governor.curve import POINTS_MAX, Curve, CurvePoint
from governor.ids import CallId
from governor.usage import Usage
from memory_store.curve_rows import curve_of, curve_text
from memory_store.errors import NotFoundError
from memory_store.store import Store

KIB = 1024
STEP = st.tuples(st.integers(0, 10**9), st.integers(0, 2**40), st.integers(0, 10**9))
CURVE = Curve(points=(CurvePoint(50, 300 * KIB, 20), CurvePoint(900, 20 * KIB, 700)))


def curve_from(steps: list[tuple[int, int, int]], *, has_cpu: bool) -> Curve:
    points, at_ms, cpu_ms = [], 0, 0
    for elapsed_ms, memory_kib, used_ms in steps:
        at_ms, cpu_ms = at_ms + elapsed_ms, cpu_ms + used_ms
        points.append(CurvePoint(at_ms, memory_kib * KIB, cpu_ms if has_cpu else None))
    return Curve(points=tuple(points))


@given(steps=st.lists(STEP, min_size=1, max_size=POINTS_MAX), has_cpu=st.booleans())
def test_a_curve_comes_back_as_it_was(*, steps: list[tuple[int, int, int]], has_cpu: bool) -> None:
    curve = curve_from(steps, has_cpu=has_cpu)

    assert curve_of(curve_text(curve)) == curve


@pytest.mark.requirement("curves.bounded")
def test_the_longest_curve_of_a_usual_command_is_less_than_a_kilobyte() -> None:
    steps = [(1_000, 200_000 + 5_000 * (number % 7), 900) for number in range(POINTS_MAX)]

    assert len(curve_text(curve_from(steps, has_cpu=True))) < KIB


def test_a_curve_that_a_newer_version_wrote_is_not_guessed_at() -> None:
    assert curve_of("CQAA") is None


@pytest.mark.anyio
@pytest.mark.requirement("curves.kept")
async def test_a_curve_is_kept_with_its_call_and_listed_only_as_being_there(store: Store) -> None:
    ids = []
    for curve in (CURVE, None):
        asked = request({COST: 100})
        await store.ledger.admit(asked)
        usage = Usage(measured=Amounts({COST: 7}), memory_peak_bytes=400 * KIB, curve=curve)
        await store.ledger.settle(asked.reservation_id, usage, record(asked, usage=usage))
        ids.append(asked.call_id)

    page = await store.calls.page()

    assert {view.record.call_id: view.has_curve for view in page.items} == {
        ids[0]: True,
        ids[1]: False,
    }
    found = await store.calls.curve(ids[0])
    assert found.curve == CURVE
    assert found.memory_peak_bytes == 400 * KIB
    assert (await store.calls.curve(ids[1])).curve is None
    view = await store.calls.get(ids[0])
    assert view.has_curve
    assert view.record.usage == replace(
        Usage(measured=Amounts({COST: 7}), memory_peak_bytes=400 * KIB), curve=None
    )


@pytest.mark.anyio
async def test_a_call_that_nobody_knows_has_no_curve_to_read(store: Store) -> None:
    with pytest.raises(NotFoundError):
        await store.calls.curve(CallId("call_nobody"))
