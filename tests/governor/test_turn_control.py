from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.amounts import Unit
from governor.denial import DenialReason, RemedyAction
from governor.errors import InvalidPolicyError
from governor.ids import PrincipalId, TaskClass, TenantId
from governor.turn_control import (
    Extended,
    ExtensionRefusal,
    FinishedSession,
    NotExtended,
    TurnStanding,
    affordable_turns,
    base_turns,
    decide_extension,
    outlook_of,
    reminder,
    turn_limit_denied,
)
from governor.turn_policy import AgentClass, TurnMode, TurnPolicy, TurnRule, TurnTerms
from governor.turn_progress import ANSWERS_MAX, Answer, CallPrint, Progress, Trail

FIXED = TurnTerms(mode=TurnMode.FIXED, turns=20)
PERCENTILE = TurnTerms(mode=TurnMode.PERCENTILE, turns=50, history_min=4)
DYNAMIC = TurnTerms(
    mode=TurnMode.DYNAMIC, turns=20, extension=10, extensions_max=3, extended_max=25
)
AT_THE_END = TurnStanding(base=20, used=20)
BUSY = Progress(calls=8, new_results=5)


def finished(*turns: int, was_cut: bool = False) -> list[FinishedSession]:
    return [FinishedSession(turns=count, was_cut=was_cut) for count in turns]


def printed(result: str | None, *, tool: str = "read", is_success: bool = True) -> CallPrint:
    return CallPrint(tool=tool, arguments_hash="a", result_hash=result, is_success=is_success)


def extended(
    terms: TurnTerms = DYNAMIC, standing: TurnStanding = AT_THE_END, **more: object
) -> Extended | NotExtended:
    given_more = {"progress": BUSY, "affordable": None, **more}
    return decide_extension(terms, standing, **given_more)


def why_not(decision: Extended | NotExtended) -> ExtensionRefusal:
    assert isinstance(decision, NotExtended)
    return decision.reason


def test_a_session_without_terms_is_not_limited() -> None:
    standing = TurnStanding(base=base_turns(TurnTerms(), []), used=10_000)

    assert (standing.limit, standing.remaining) == (None, None)
    assert reminder(TurnTerms(), standing) is None


def test_a_fixed_limit_is_the_number_that_is_set() -> None:
    assert base_turns(FIXED, finished(1, 2, 3, 4, 5)) == 20


def test_a_percentile_starts_cold_until_enough_sessions_have_finished() -> None:
    assert base_turns(PERCENTILE, finished(3, 4, 5)) == 50
    assert base_turns(PERCENTILE, finished(3, 4, 5, 6)) == 5


@pytest.mark.requirement("turns.percentile-of-own-history")
@given(st.lists(st.integers(1, 500), min_size=4, max_size=60), st.integers(1, 100))
def test_the_percentile_covers_that_share_of_the_history(turns: list[int], percent: int) -> None:
    limit = base_turns(replace(PERCENTILE, percent=percent), finished(*turns))

    assert limit is not None
    assert 100 * sum(count <= limit for count in turns) >= percent * len(turns)
    assert 100 * sum(count < limit for count in turns) < percent * len(turns) or limit == 1


def test_limits_do_not_become_the_history_of_ever_shorter_ones() -> None:
    limits = [100]
    for _ in range(10):
        lived = [FinishedSession(turns=min(n, limits[-1]), was_cut=n > limits[-1])
                 for n in range(1, 101)]  # fmt: skip
        limits.append(base_turns(PERCENTILE, lived) or 0)

    assert set(limits[1:]) == {75}


def test_a_session_that_was_cut_counts_among_the_longest() -> None:
    history = [*finished(4, 5, 20), *finished(3, was_cut=True)]

    assert base_turns(PERCENTILE, history) == 20


def test_extensions_come_at_the_end_only() -> None:
    assert why_not(extended(standing=TurnStanding(base=20, used=10))) is ExtensionRefusal.NOT_NEEDED
    assert extended(standing=TurnStanding(base=20, used=11)) == Extended(turns=10)


@pytest.mark.parametrize("mode", [TurnMode.FIXED, TurnMode.PERCENTILE, TurnMode.UNLIMITED])
def test_only_a_dynamic_limit_is_extended(mode: TurnMode) -> None:
    decision = extended(replace(DYNAMIC, mode=mode))

    assert why_not(decision) is ExtensionRefusal.NOT_EXTENSIBLE


@pytest.mark.requirement("turns.extension-needs-progress")
def test_without_progress_there_is_no_extension() -> None:
    nothing = extended(progress=Progress(calls=8))
    looping = extended(progress=Progress(calls=8, new_results=5, is_looping=True))

    assert why_not(nothing) is ExtensionRefusal.NO_PROGRESS
    assert why_not(looping) is ExtensionRefusal.LOOPING


def test_a_request_for_less_gets_less_and_one_for_more_gets_the_step() -> None:
    assert extended(asked=4) == Extended(turns=4)
    assert extended(asked=400) == Extended(turns=10)


@pytest.mark.requirement("turns.extension-within-budget")
@given(
    st.integers(0, 40), st.integers(0, 4), st.integers(1, 60), st.none() | st.integers(0, 60),
    st.none() | st.integers(1, 200),
)  # fmt: skip
def test_no_extension_goes_beyond_the_budgets_or_its_own_bounds(
    given_before: int, times: int, used: int, affordable: int | None, asked: int | None
) -> None:
    standing = TurnStanding(base=20, used=used, extended=given_before, extensions=times)

    decision = extended(standing=standing, affordable=affordable, asked=asked)

    if isinstance(decision, Extended):
        assert times < DYNAMIC.extensions_max
        assert 1 <= decision.turns <= DYNAMIC.extension
        assert given_before + decision.turns <= DYNAMIC.extended_max
        if affordable is not None:
            assert (standing.remaining or 0) + decision.turns <= affordable


def test_turns_that_remain_are_part_of_what_the_budgets_allow() -> None:
    assert extended(standing=TurnStanding(base=20, used=15), affordable=8) == Extended(turns=3)


def test_the_budgets_allow_turns_at_the_mean_cost_of_those_before() -> None:
    money = (Unit.COST_MICROUSD, 1_000)

    assert affordable_turns([money], used=10, cost_microusd=2_000) == 5
    assert affordable_turns([money, (Unit.TURNS, 3)], used=10, cost_microusd=2_000) == 3
    assert affordable_turns([money], used=10, cost_microusd=0) is None
    assert affordable_turns([(Unit.COST_MICROUSD, 0)], used=0, cost_microusd=0) == 0
    assert affordable_turns([(Unit.TOOL_CALLS, 1)], used=10, cost_microusd=5) is None


def test_a_history_in_which_nobody_succeeds_late_ends_the_extensions() -> None:
    terms = replace(DYNAMIC, solve_price=2.0, history_min=20, turns=5)
    early = [FinishedSession(turns=4, cost_microusd=400, is_solved=True)] * 10
    hopeless = [FinishedSession(turns=40, cost_microusd=4_000, is_solved=False)] * 20
    late = [FinishedSession(turns=30, cost_microusd=3_000, is_solved=True)] * 20
    end = TurnStanding(base=5, used=5)

    refused = extended(terms, end, outlook=outlook_of(terms, early + hopeless))
    granted = extended(terms, end, outlook=outlook_of(terms, early + late))

    assert why_not(refused) is ExtensionRefusal.NOT_WORTH_IT
    assert granted == Extended(turns=10)


def test_a_history_without_outcomes_says_nothing() -> None:
    terms = replace(DYNAMIC, solve_price=2.0, history_min=2)

    assert outlook_of(terms, finished(3, 4, 5)) is None
    assert outlook_of(DYNAMIC, [FinishedSession(turns=1, is_solved=True)] * 50) is None


@pytest.mark.parametrize(
    ("used", "text"),
    [
        (14, None),
        (15, "5 turns remain after this one, of 20; finish with what you have."),
        (19, "1 turn remains after this one, of 20; finish with what you have."),
    ],
)
def test_reminders_come_at_the_counts_that_are_set(used: int, text: str | None) -> None:
    assert reminder(FIXED, TurnStanding(base=20, used=used)) == text


def test_a_reminder_names_the_extension_only_where_asking_can_help() -> None:
    spent = TurnStanding(base=20, used=17 + 25, extended=25, extensions=3)

    assert "governor_extend" in (reminder(DYNAMIC, TurnStanding(base=20, used=17)) or "")
    assert "governor_extend" not in (reminder(DYNAMIC, spent) or "governor_extend")


def test_the_denial_names_the_way_out_that_there_is() -> None:
    open_way = turn_limit_denied(DYNAMIC, AT_THE_END)
    closed = turn_limit_denied(FIXED, AT_THE_END)

    assert open_way.reason is closed.reason is DenialReason.TURN_LIMIT
    assert open_way.remedy.action is RemedyAction.ASK_FOR_EXTENSION
    assert closed.remedy.action is RemedyAction.FINISH_WITH_WHAT_YOU_HAVE


def test_only_a_new_successful_answer_is_progress() -> None:
    trail = Trail()

    brought = [
        trail.note(printed("one")),
        trail.note(printed("one")),
        trail.note(printed("one", tool="write")),
        trail.note(printed("two", is_success=False)),
        trail.note(printed(None)),
    ]

    assert brought == [Answer.NEW, Answer.SEEN, Answer.NEW, Answer.FAILED, Answer.FAILED]
    assert trail.progress == Progress(calls=5, new_results=2)


def test_three_answers_without_news_are_a_loop_until_one_brings_some() -> None:
    trail = Trail()
    for _ in range(4):
        trail.note(printed("one"))
    looped = trail.progress.is_looping
    trail.note(printed("two"))

    assert looped
    assert not trail.progress.is_looping


def test_what_was_seen_before_an_extension_earns_no_other() -> None:
    trail = Trail()
    trail.note(printed("one"))

    trail.restart()
    trail.note(printed("one"))

    assert trail.progress == Progress(calls=1, new_results=0)


def test_a_trail_forgets_the_oldest_answers_first() -> None:
    trail = Trail()
    for number in range(ANSWERS_MAX + 1):
        trail.note(printed(str(number)))

    assert trail.note(printed(str(ANSWERS_MAX))) is Answer.SEEN
    assert trail.note(printed("0")) is Answer.NEW


def test_the_first_rule_that_covers_a_session_governs_it() -> None:
    policy = TurnPolicy(
        rules=(TurnRule(terms=FIXED, agent="coder-*", task_class="bug"),),
        fallback=DYNAMIC,
        classes=(AgentClass(agent="coder-*", task_class=TaskClass("bug")),),
    )
    coder, tenant = PrincipalId("coder-1"), TenantId("acme")

    own = policy.class_of(coder, asked=None)
    named = policy.class_of(coder, asked=TaskClass("chore"))

    assert (own, named, policy.class_of(PrincipalId("x"), asked=None)) == (
        "bug",
        "chore",
        "default",
    )
    assert policy.terms_for(tenant=tenant, agent=coder, task_class=own) is FIXED
    assert policy.terms_for(tenant=tenant, agent=coder, task_class=named) is DYNAMIC


@pytest.mark.parametrize(
    "fault",
    [{"turns": 0}, {"percent": 101}, {"extension": -1}, {"remind_at": (5, -1)},
     {"solve_price": float("inf")}, {"history_min": 0}],
)  # fmt: skip
def test_terms_that_nobody_can_count_to_are_refused_by_name(fault: dict[str, object]) -> None:
    with pytest.raises(InvalidPolicyError, match=next(iter(fault))):
        TurnTerms(**fault)
