import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.amounts import Unit
from governor.denial import DenialReason, Denied, Remedy, RemedyAction, Shortage
from governor.ids import BudgetId
from governor.limits import ExecutionLimits
from governor.slices import (
    SLICE_MS_FIRST,
    SLICE_MS_MAX,
    WAIT_MS_MAX,
    fitting_slice_ms,
    held_for_slice,
    may_go_on,
    next_slice_ms,
    rate_millis,
    used_up_words,
)

MIB = 1024 * 1024


def limits(memory_bytes: int | None = None, cpu_millis: int | None = None) -> ExecutionLimits:
    return ExecutionLimits(
        memory_bytes=memory_bytes,
        pids=None,
        cpu_millis=cpu_millis,
        cpu_ms=None,
        wall_ms=1,
        output_bytes=1,
    )


def held(slice_ms: int, **more: object) -> dict[str, int]:
    terms = {
        "limits": limits(),
        "cpu_rate_millis": 1000,
        "memory_mib_s": 0,
        "unmeasurable": {},
        "milliwatts_per_core": None,
    } | more
    return held_for_slice(slice_ms, **terms).as_dict()


def test_slices_grow_to_their_bound() -> None:
    lengths = [SLICE_MS_FIRST]
    while lengths[-1] != SLICE_MS_MAX:
        lengths.append(next_slice_ms(lengths[-1]))

    assert lengths == [1000, 2000, 4000, 8000, 15000]
    assert next_slice_ms(SLICE_MS_MAX) == SLICE_MS_MAX


@given(
    cpu_ms=st.integers(0, 10**9) | st.none(),
    wall_ms=st.integers(0, 10**6),
    cap=st.integers(1, 64_000) | st.none(),
)
def test_what_is_held_of_processors_is_one_at_the_least_and_never_above_the_limit(
    cpu_ms: int | None, wall_ms: int, cap: int | None
) -> None:
    rate = rate_millis(cpu_ms, wall_ms, limits=limits(cpu_millis=cap))

    assert rate >= min(1000, cap or 1000)
    assert cap is None or rate <= cap


def test_an_agent_that_used_two_processors_has_four_held() -> None:
    assert rate_millis(2_000, 1_000, limits=limits()) == 4_000


def test_a_slice_holds_its_time_its_processors_and_its_memory() -> None:
    found = held(2_000, cpu_rate_millis=1_500, memory_mib_s=100, milliwatts_per_core=10_000)

    assert found == {
        "wall_ms": 2_000,
        "cpu_ms": 3_000,
        "memory_mib_s": 200,
        "io_bytes": 0,
        "egress_bytes": 0,
        "energy_mj": 30_000,
        "probe_1": 0,
        "probe_2": 0,
        "probe_3": 0,
        "probe_4": 0,
    }


def test_no_more_memory_is_held_than_the_limit_lets_it_have() -> None:
    found = held(2_000, limits=limits(memory_bytes=10 * MIB), memory_mib_s=100)

    assert found["memory_mib_s"] == 20


def test_what_nobody_measures_is_not_held() -> None:
    found = held(1_000, unmeasurable={Unit.CPU_MS: "elsewhere", Unit.ENERGY_MJ: "no watts"})

    assert not {"cpu_ms", "energy_mj"} & set(found)


@pytest.mark.parametrize(
    ("reason", "action", "retry_after_ms", "goes_on"),
    [
        (DenialReason.SESSION_FROZEN, RemedyAction.ASK_ADMINISTRATOR, None, True),
        (DenialReason.LEDGER_UNAVAILABLE, RemedyAction.RETRY_LATER, None, True),
        (DenialReason.BUDGET_EXHAUSTED, RemedyAction.RETRY_LATER, WAIT_MS_MAX, True),
        (DenialReason.BUDGET_EXHAUSTED, RemedyAction.RETRY_LATER, WAIT_MS_MAX + 1, False),
        (DenialReason.BUDGET_EXHAUSTED, RemedyAction.FINISH_WITH_WHAT_YOU_HAVE, None, False),
        (DenialReason.SESSION_CLOSED, RemedyAction.NEW_SESSION, None, False),
    ],
)
def test_who_can_wait_stands_still_and_who_cannot_is_ended(
    reason: DenialReason, action: RemedyAction, retry_after_ms: int | None, *, goes_on: bool
) -> None:
    denied = Denied(
        reason=reason, remedy=Remedy(action=action, text=""), retry_after_ms=retry_after_ms
    )

    assert may_go_on(denied) is goes_on


def short_of(unit: Unit, *, used: int, requested: int = 500, reserved: int = 0) -> Denied:
    return Denied(
        reason=DenialReason.BUDGET_EXHAUSTED,
        remedy=Remedy(action=RemedyAction.REQUEST_LESS, text="Ask for less."),
        shortage=Shortage(
            budget_id=BudgetId("carve:ses_1"),
            unit=unit,
            limit=1_000,
            used=used,
            reserved=reserved,
            requested=requested,
            resets_at_ms=None,
        ),
    )


@pytest.mark.parametrize(
    ("used", "requested", "expected"),
    [(541, 500, 459), (541, 1_000, 229), (950, 500, 50), (951, 500, None), (1_200, 500, None)],
)
def test_the_last_slice_is_as_long_as_what_is_left(
    used: int, requested: int, expected: int | None
) -> None:
    denied = short_of(Unit.CPU_MS, used=used, requested=requested)

    assert fitting_slice_ms(500, denied) == expected


def test_what_does_not_grow_with_a_slice_is_not_made_to_fit_by_a_shorter_one() -> None:
    assert fitting_slice_ms(500, short_of(Unit.TOOL_CALLS, used=541)) is None


def test_whoever_sits_at_an_agent_is_told_which_limit_is_used_up_and_who_set_it() -> None:
    denied = short_of(Unit.CPU_MS, used=1_000)

    assert used_up_words(denied, BudgetId("carve:ses_1")) == (
        "cpu_ms: 1,000 of 1,000 used (set by --limits)"
    )
    assert "(budget carve:ses_1)" in used_up_words(denied, None)
    assert "too little to go on" in used_up_words(short_of(Unit.CPU_MS, used=980), None)
