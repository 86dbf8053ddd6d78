import json
from pathlib import Path

import pytest

from runtime.evaluate.os.checkpoint import Checkpoint, CheckpointError
from runtime.evaluate.os.evaluation import Plan, shape
from runtime.evaluate.os.figures import (
    METRICS,
    TIMED,
    Pair,
    bootstrap,
    paired,
    percentile,
    shape_of,
)
from runtime.evaluate.os.mixes import Role
from runtime.evaluate.os.outcome import Arm, outcome_of
from tests.runtime.evaluate.os_makers import outcome, session

TERMS = {"seed": 0, "window_ms": 100}


def pair(wall: float, *, low_took: float = 100.0, killed: int = 0, makespan: float = 100.0) -> Pair:
    return Pair(
        outcome=outcome(
            Arm.FLYBALL,
            session(walls=(wall,)),
            session(Role.LOW_ONE, took=low_took, killed=killed),
            makespan=makespan,
        ),
        alone=outcome(Arm.ALONE, session(), session(Role.LOW_ONE), makespan=200.0),
    )


def plan(**changes: object) -> Plan:
    usual: dict[str, object] = {
        "data": Path(),
        "arms": (Arm.NONE, Arm.FLYBALL),
        "mixes": 2,
        "memory_mib": (100,),
        "window_ms": 100,
        "seed": 0,
        "minutes": 1,
    }
    return Plan(**{**usual, **changes})  # type: ignore[arg-type] # made up from usual values


@pytest.mark.parametrize(
    ("share", "expected"), [(0.5, 5.0), (0.95, 10.0), (0.1, 1.0), (0.11, 2.0), (1.0, 10.0)]
)
def test_a_percentile_is_the_smallest_value_that_the_share_does_not_exceed(
    share: float, expected: float
) -> None:
    assert percentile([float(n) for n in range(10, 0, -1)], share) == expected


@pytest.mark.requirement("eval.os-intervals")
def test_the_interval_of_what_never_differs_is_that_value() -> None:
    found = bootstrap([pair(150.0)] * 5, lambda pairs: len(pairs) / 5, seed=0)

    assert found == [1.0, 1.0]


@pytest.mark.requirement("eval.os-intervals")
def test_the_interval_of_a_share_is_that_of_the_binomial() -> None:
    pairs = [pair(100.0, killed=int(number < 20)) for number in range(40)]

    def shares(drawn: list[Pair]) -> float:
        return sum(one.outcome.sessions[1].survived for one in drawn) / len(drawn)

    low, high = bootstrap(pairs, shares, seed=1) or (0, 0)

    # Half of forty: the exact central 95 % of a binomial is 14 to 26.
    assert low == pytest.approx(14 / 40, abs=0.026)
    assert high == pytest.approx(26 / 40, abs=0.026)


def test_an_arm_has_the_shape_that_was_agreed() -> None:
    pairs = [pair(110.0, low_took=130.0, makespan=100.0), pair(90.0, makespan=100.0)]

    found = shape_of("flyball", 100, pairs, seed=0)

    assert list(found) == ["name", "memory_mib", "n", *METRICS, "ci95"]
    assert list(found["ci95"]) == list(METRICS)
    assert found["n"] == 2
    assert found["survival"] == 1.0
    assert found["high_p95_ratio"] == pytest.approx(1.1)
    assert found["low_slowdown"] == pytest.approx(1.15)
    assert found["throughput_ratio"] == pytest.approx(2.0)


def test_a_session_that_lost_a_call_did_not_survive_and_proves_no_slowdown() -> None:
    found = shape_of("none", 100, [pair(100.0, low_took=50.0, killed=1)], seed=0)

    assert found["survival"] == 0.5
    assert found["low_slowdown"] is None
    assert found["ci95"]["low_slowdown"] is None


def test_what_depends_on_speed_can_be_left_out() -> None:
    found = shape_of("none", 100, [pair(100.0)], seed=0, left_out=TIMED)

    assert [name for name in METRICS if found[name] is not None] == ["survival", "wasted_mib_s"]
    assert set(found["ci95"]) == set(METRICS)


def test_only_mixes_that_were_replayed_in_every_arm_count() -> None:
    done = [outcome(arm, session(), mix=0) for arm in (Arm.ALONE, Arm.NONE, Arm.FLYBALL)]
    begun = [outcome(arm, session(), mix=1) for arm in (Arm.ALONE, Arm.NONE)]

    found = shape([*done, *begun], plan(), backend="v2")

    assert [(arm["name"], arm["n"]) for arm in found["arms"]] == [("none", 1), ("flyball", 1)]
    assert (found["backend"], found["simulated"]) == ("v2", False)


def test_a_mix_that_was_disturbed_while_its_sessions_were_alone_is_left_out() -> None:
    arms = (Arm.NONE, Arm.FLYBALL)
    disturbed = [outcome(Arm.ALONE, session(killed=1)), *(outcome(arm, session()) for arm in arms)]

    assert shape(disturbed, plan(), backend="v2")["arms"] == []


def test_version_one_has_no_memory_high_and_says_so() -> None:
    outcomes = [outcome(arm, session()) for arm in (Arm.ALONE, Arm.MEMORY_HIGH)]
    arms = plan(arms=(Arm.MEMORY_HIGH,))

    assert shape(outcomes, arms, backend="hybrid")["arms"][0]["name"] == "memory_high (emulated)"
    assert shape(outcomes, arms, backend="v2")["arms"][0]["name"] == "memory_high"


@pytest.mark.requirement("eval.os")
def test_what_is_over_is_read_back_from_the_resume_file(tmp_path: Path) -> None:
    path = tmp_path / "resume.jsonl"
    before = outcome(Arm.NONE, session(), session(Role.LOW_ONE, killed=1), mix=3)
    Checkpoint(path, TERMS).add(before)

    again = Checkpoint(path, TERMS)

    assert again.outcomes == [before]
    assert again.has(mix=3, arm=Arm.NONE, memory_mib=100)
    assert not again.has(mix=3, arm=Arm.FLYBALL, memory_mib=100)


@pytest.mark.requirement("eval.os")
@pytest.mark.parametrize(
    ("content", "why"),
    [
        ('{"seed": 1, "window_ms": 100}\n', "written with other terms"),
        ("nonsense\n", "damaged"),
        (json.dumps(TERMS) + '\n{"mix": 0}\n', "damaged"),
    ],
)
def test_a_resume_file_of_something_else_is_refused(tmp_path: Path, content: str, why: str) -> None:
    path = tmp_path / "resume.jsonl"
    path.write_text(content)

    with pytest.raises(CheckpointError, match=why):
        Checkpoint(path, TERMS)


def test_pairs_are_of_one_size_of_memory() -> None:
    alone, here = outcome(Arm.ALONE, session()), outcome(Arm.NONE, session())

    assert paired([alone, here], Arm.NONE, 100) == [Pair(outcome=here, alone=alone)]
    assert paired([alone, here], Arm.NONE, 200) == []


def test_an_outcome_survives_its_line() -> None:
    before = outcome(Arm.FLYBALL, session(walls=(1.5, 2.5)), wasted=3.5)

    assert outcome_of(json.loads(json.dumps(before.shape()))) == before
