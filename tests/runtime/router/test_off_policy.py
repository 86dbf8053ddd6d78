"""What the log says of other ways to choose: whose words it goes by, and how sure it is."""

import json
from typing import Any

import numpy as np
import pytest

from governor.ids import PrincipalId, SessionId, TierName
from governor.learning.verdict import Verdict
from memory_store.router_log import LoggedDecision
from runtime.router.log_evaluation import evaluated
from runtime.router.off_policy import RatedDecision, always, as_logged, rated_of, values_of
from runtime.router.promotion import evidence_of
from runtime.router.written import packed
from tests.memory_store.router_makers import decision
from tests.runtime.router.makers import READER, KnownModel

FEATURES = packed(READER.read("hello"), meaning_axes=READER.widths.meaning)
DAY_MS = 86_400_000


def words(
    agent: str, count: int, *, low: float, high: float, weight: float, trusted: bool, days: int = 1
) -> list[LoggedDecision]:
    """Return what an agent's calls were worth, of which one in ten took the strong tier."""
    found = []
    for number in range(count):
        tier = "high" if number % 10 == 0 else "low"
        made = decision(
            f"{agent}_{number}",
            agent=PrincipalId(agent),
            session=SessionId(f"{agent}_{number}"),
            tier=TierName(tier),
            propensity=0.1 if tier == "high" else 0.9,
            features=FEATURES,
            at_ms=(number % days) * DAY_MS,
        )
        verdict = Verdict(score=high if tier == "high" else low, weight=weight, is_trusted=trusted)
        found.append(LoggedDecision(decision=made, end=None, verdict=verdict))
    return found


def high_model() -> KnownModel:
    return KnownModel({"low": 0.5, "high": 0.9})


HONEST: dict[str, Any] = {"low": 1.0, "high": 1.0, "weight": 1.0, "trusted": True}
LIES: dict[str, Any] = {"low": 0.0, "high": 1.0, "weight": 0.25, "trusted": False}


@pytest.mark.requirement("router.poisoning-bounded")
@pytest.mark.parametrize("days", [1, 14])
def test_one_agent_that_says_the_same_time_and_again_promotes_nothing(days: int) -> None:
    logged = [*words("ada", 300, **HONEST), *words("mallory", 1_500, **LIES, days=days)]

    evidence = evidence_of(high_model(), rated_of(logged, influence_per_day=50.0))

    assert not evidence.is_better
    assert evidence.gain is not None
    assert evidence.gain.low < 0


@pytest.mark.requirement("router.poisoning-bounded")
def test_an_agents_own_words_of_a_day_count_so_much_and_no_more() -> None:
    logged = [*words("ada", 30, **HONEST), *words("mallory", 1_000, **LIES)]

    rated = rated_of(logged, influence_per_day=20.0)

    assert sum(one.weight for one in rated if one.speaker == "mallory") == pytest.approx(20.0)
    assert {one.weight for one in rated if one.speaker is None} == {1.0}
    ways = {"in_force": as_logged, "low": always("low")}
    in_force = values_of(rated, ways)[0].quality
    # 30 that are worth 1 and 20 that are worth 0.
    assert in_force.value == pytest.approx(0.6, abs=0.05)


def test_agents_that_say_the_same_put_a_model_in_force() -> None:
    told = LIES | {"low": 0.1}
    logged = [one for name in ("ada", "bob", "eve", "kim") for one in words(name, 100, **told)]

    assert evidence_of(high_model(), rated_of(logged, influence_per_day=50.0)).is_better


def test_where_one_agent_alone_speaks_its_sessions_count() -> None:
    rated = rated_of(words("ada", 300, **LIES), influence_per_day=50.0)

    found = values_of(rated, {"in_force": as_logged})[0].value

    assert np.isfinite(found.high)
    assert all(isinstance(one, RatedDecision) for one in rated)


@pytest.mark.requirement("router.off-policy")
def test_of_what_was_tried_too_seldom_nothing_is_said() -> None:
    rated = rated_of(words("ada", 100, **HONEST))

    shape = evaluated(rated, {"in_force": as_logged, "high": always("high")}).shape()

    policies = shape["policies"]
    assert isinstance(policies, list)
    known, unknown = policies
    assert (known["is_known"], unknown["is_known"]) == (True, False)
    assert known["value"]["value"] == pytest.approx(1.0, abs=0.05)
    for name in ("value", "snips", "ips", "quality", "cost_microusd", "gain"):
        assert (unknown[name]["value"], unknown[name]["ci95"]) == (None, [None, None])
        assert unknown[name]["n"] == 100


@pytest.mark.requirement("router.models-versioned")
@pytest.mark.parametrize(("n", "is_better"), [(3, False), (39, False), (40, True)])
def test_a_first_model_is_not_put_in_force_for_a_few_prompts(n: int, *, is_better: bool) -> None:
    kept = json.dumps({"outcomes": {"value": 0.5, "ci95": [0.4, 0.6], "n": n}})

    evidence = evidence_of(high_model(), []).or_of_file(kept, is_first=True)

    assert evidence.is_better is is_better
    assert is_better or "too few" in evidence.why_not
