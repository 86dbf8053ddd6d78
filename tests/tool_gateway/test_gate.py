"""The reasoning gate: who is not known, or calls too often, thinks first."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.gate import GateTerms, When
from governor.ids import PrincipalId
from governor.puzzle import HOPS_MAX, puzzle_of
from tests.governor.makers import budget
from tests.tool_gateway.makers import CHAIN, RULE, FakeClock, House, a_call
from tool_gateway.guards.gate import ReasoningGate
from tool_gateway.results import DENIAL_META, GATE_META, ToolResult

pytestmark = pytest.mark.anyio

ADA = CHAIN.agent


def house(**terms: object) -> House:
    return House(budget(), rule=replace(RULE, gate=GateTerms(**terms)))


def challenge_of(result: ToolResult) -> str:
    shown = result.meta[GATE_META]
    assert isinstance(shown, dict)
    assert shown["answer_with"] == "governor_answer"
    assert shown["puzzle"].startswith("Step 1: the English word for ")
    return str(shown["challenge"])


def solution(gate: ReasoningGate, token: str) -> str:
    """Return the right answer, as only who has the key can tell it."""
    read = gate._read(token, ADA)
    assert read is not None
    return gate._puzzle(read[0], read[3]).answer


def passes(result: ToolResult) -> bool:
    return DENIAL_META not in result.meta


@pytest.mark.requirement("gate.think-first")
async def test_a_stranger_is_served_after_the_puzzle_and_for_as_long_as_it_is_known() -> None:
    it = house(pass_ms=5_000, ttl_ms=1_000)
    denied = await it.run()
    token = challenge_of(denied)

    wrong = it.gate.taken(ADA, challenge_of(await it.run()), "nonsense")
    still = await it.run()
    taken = it.gate.taken(ADA, token, f" {solution(it.gate, token).upper()} ")
    served = await it.run()
    it.clock.at_ms += 5_000
    again = await it.run()

    assert "wrong" in (wrong or "")
    assert taken is None
    assert [passes(each) for each in (denied, still, served, again)] == [False, False, True, False]
    assert len(it.backend.ran) == 1
    denial = denied.meta[DENIAL_META]
    assert isinstance(denial, dict)
    assert (denial["reason"], denial["remedy"]["action"]) == ("gate_required", "solve_challenge")
    assert token in denial["remedy"]["text"]


@pytest.mark.requirement("gate.think-first")
async def test_who_calls_too_often_thinks_before_the_next_calls() -> None:
    it = house(when=When.OVER_RATE, calls=2, per_ms=60_000)

    calls = [await it.run() for _ in range(3)]
    token = challenge_of(calls[2])
    assert it.gate.taken(ADA, token, solution(it.gate, token)) is None
    more = [await it.run() for _ in range(3)]

    assert [passes(each) for each in calls] == [True, True, False]
    assert [passes(each) for each in more] == [True, True, False]


@pytest.mark.requirement("gate.single-use")
async def test_a_challenge_takes_one_answer() -> None:
    it = house()
    token = challenge_of(await it.run())
    right = solution(it.gate, token)

    first = it.gate.taken(ADA, token, "nonsense")
    second = it.gate.taken(ADA, token, right)

    assert "wrong" in (first or "")
    assert "answered before" in (second or "")
    assert not passes(await it.run())


@pytest.mark.requirement("gate.single-use")
async def test_a_challenge_is_for_one_agent_one_key_one_process_and_a_while() -> None:
    it = house(ttl_ms=1_000)
    token = challenge_of(await it.run())
    right = solution(it.gate, token)

    of_another = it.gate.taken(PrincipalId("eve"), token, right)
    elsewhere = ReasoningGate(key=b"other" * 8, clock=it.clock).taken(ADA, token, right)
    later = FakeClock(at_ms=it.clock.at_ms + 10)
    restarted = ReasoningGate(key=b"k" * 32, clock=later).taken(ADA, token, right)
    it.clock.at_ms += 1_000
    late = it.gate.taken(ADA, token, right)

    assert "no challenge" in (of_another or "")
    assert "no challenge" in (elsewhere or "")
    assert "run out" in (restarted or "")
    assert "run out" in (late or "")


@pytest.mark.requirement("gate.single-use")
@given(st.text(max_size=120) | st.binary(max_size=80).map(lambda raw: raw.hex()))
def test_what_was_not_made_here_is_no_challenge(token: str) -> None:
    gate = ReasoningGate(key=b"k" * 32, clock=FakeClock())

    assert "no challenge" in (gate.taken(ADA, token, "bee") or "")


async def test_a_changed_challenge_is_not_taken() -> None:
    it = house(hops=5)
    token = challenge_of(await it.run())

    for place in range(0, len(token), 7):
        forged = token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1 :]
        assert it.gate.taken(ADA, forged, "bee") is not None


@given(seed=st.binary(max_size=40), hops=st.integers(1, HOPS_MAX))
def test_a_puzzle_follows_from_its_seed_and_has_an_answer(seed: bytes, hops: int) -> None:
    puzzle = puzzle_of(seed, hops=hops)

    assert puzzle == puzzle_of(seed, hops=hops)
    assert puzzle.text.count("Step ") == hops + 1
    assert puzzle.answer.isalpha()
    assert puzzle.is_solved_by(f'"{puzzle.answer.title()}".')
    assert not puzzle.is_solved_by(puzzle.answer + "x")


def test_answers_are_too_many_to_guess() -> None:
    answers = {puzzle_of(number.to_bytes(4, "big"), hops=3).answer for number in range(2_000)}

    assert len(answers) > 1_900


async def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tool_gateway.guards.gate.ANSWERED_MAX", 1)
    it = house(ttl_ms=1_000)
    first, second = [challenge_of(await it.run()) for _ in range(2)]

    it.gate.taken(ADA, first, "nonsense")
    full = it.gate.taken(ADA, second, solution(it.gate, second))
    it.clock.at_ms += 1_000
    third = challenge_of(await it.run())

    assert "too many" in (full or "")
    assert it.gate.taken(ADA, third, solution(it.gate, third)) is None


async def test_without_a_gate_nobody_has_to_think() -> None:
    assert passes(await House(budget()).run(a_call()))
