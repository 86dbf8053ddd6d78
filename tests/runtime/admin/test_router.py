"""The router through the admin API: models in and out of force, the log, and what it says."""

import base64
import json
from typing import Any

import numpy as np
import pytest

from memory_store.router_log import OutcomeReport, RouterDecision
from runtime.router.written import packed
from tests.memory_store.router_makers import decision, end, report
from tests.runtime.admin.admin_world import World
from tests.runtime.router.makers import READER

pytestmark = pytest.mark.anyio

# What the two tiers are worth, of prompts with a question mark and without.
WORTH = {("low", True): 0.2, ("low", False): 0.8, ("high", True): 0.9, ("high", False): 0.85}
COST = {"low": 100, "high": 1_000}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def model(low: float, high: float, *, until_ms: int = 0) -> dict[str, Any]:
    content = json.dumps({"low": low, "high": high}).encode()
    return {"content_base64": base64.b64encode(content).decode(), "learned_until_ms": until_ms}


async def log(world: World, count: int, *, seed: int = 0, at_ms: int = 10) -> None:
    """Keep a log of a policy that takes the strong tier in one call of ten."""
    dice = np.random.default_rng(seed)
    decisions: list[RouterDecision] = []
    reports: list[OutcomeReport] = []
    for number in range(count):
        hard = bool(dice.random() < 0.5)
        features = READER.read("Why?" if hard else "Say.")
        tier = "high" if dice.random() < 0.3 else "low"
        name = f"{seed}_{number}"
        decisions.append(
            decision(
                name,
                at_ms=at_ms + number,
                session=f"ses_{seed}_{number}",
                tier=tier,
                propensity=0.3 if tier == "high" else 0.7,
                options='[["low",0.5,100.0,0.7],["high",0.8,1000.0,0.3]]',
                features=packed(features, meaning_axes=READER.widths.meaning),
                price=1e-5,
            )
        )
        score = float(dice.random() < WORTH[tier, hard])
        reports.append(report(name, score))
    ends = tuple(end(one.call_id[5:], cost_microusd=COST[one.tier]) for one in decisions)
    await world.parts.store.router_log.record(tuple(decisions), ends, ())
    await world.parts.store.router_log.report(tuple(reports))


async def ask(world: World, method: str, path: str, **more: Any) -> Any:
    return await world.ask(method, f"/router{path}", **more)


@pytest.mark.requirement("router.models-versioned")
async def test_a_model_that_is_better_on_what_it_has_not_learned_is_put_in_force(
    world: World,
) -> None:
    await log(world, 400)
    added = (await ask(world, "POST", "/models", json=model(0.1, 0.9))).json()

    promoted = await ask(world, "POST", f"/models/{added['version']}/promote")

    standing = (await ask(world, "GET", "")).json()
    assert promoted.status_code == 200, promoted.text
    evidence = promoted.json()["evidence"]
    # The strong tier is better by 0.375 on average and costs 0.009 more.
    assert evidence["gain"]["ci95"][0] > 0
    assert evidence["gain"]["ci95"][0] < 0.366 < evidence["gain"]["ci95"][1]
    assert standing["incumbent"] == added["version"]
    assert standing["is_usable"]


@pytest.mark.requirement("router.models-versioned")
async def test_a_model_that_is_not_better_stays_a_candidate_and_why_is_told(world: World) -> None:
    await log(world, 400)
    worse = (await ask(world, "POST", "/models", json=model(0.9, 0.1))).json()

    refused = await ask(world, "POST", f"/models/{worse['version']}/promote")

    assert refused.status_code == 409
    assert "not above zero beyond doubt" in refused.json()["detail"]
    assert (await ask(world, "GET", "")).json()["incumbent"] is None


async def test_without_a_log_nobody_can_say_but_recorded_outcomes_may(world: World) -> None:
    first = (await ask(world, "POST", "/models", json=model(0.1, 0.9))).json()
    recorded = {"outcomes": {"value": 0.1, "ci95": [0.05, 0.15], "n": 500}}
    warm = model(0.2, 0.8) | {"evidence": recorded}
    second = (await ask(world, "POST", "/models", json=warm)).json()

    refused = await ask(world, "POST", f"/models/{first['version']}/promote")
    promoted = await ask(world, "POST", f"/models/{second['version']}/promote")

    assert (refused.status_code, promoted.status_code) == (409, 200)
    assert "more rated calls are needed" in refused.json()["detail"]
    assert promoted.json()["evidence"]["source"] == "outcomes"


@pytest.mark.requirement("router.models-versioned")
async def test_what_was_before_is_in_force_again_after_a_rollback(world: World) -> None:
    await log(world, 400)
    added = (await ask(world, "POST", "/models", json=model(0.1, 0.9))).json()
    await ask(world, "POST", f"/models/{added['version']}/promote")

    back = await ask(world, "POST", "/rollback")
    again = await ask(world, "POST", "/rollback")

    listed = (await ask(world, "GET", "/models")).json()["items"]
    assert back.json()["incumbent"] is None
    assert (again.status_code, [one["state"] for one in listed]) == (404, ["retired"])


@pytest.mark.parametrize("content", [b"nonsense", b""])
async def test_what_is_no_model_is_refused(world: World, content: bytes) -> None:
    sent = {"content_base64": base64.b64encode(content).decode(), "learned_until_ms": 0}
    answers = [
        await ask(world, "POST", "/models", json=sent),
        await ask(world, "POST", "/models", json=sent | {"content_base64": "?!?!"}),
        await ask(world, "GET", "/models/0123456789ab"),
        await ask(world, "POST", "/models/0123456789ab/promote"),
    ]

    assert [answer.status_code for answer in answers] == [422, 422, 404, 404]


@pytest.mark.requirement("router.off-policy")
async def test_other_ways_to_choose_are_estimated_from_the_log(world: World) -> None:
    await log(world, 1_500)
    await ask(world, "POST", "/models", json=model(0.1, 0.9))

    found = (await ask(world, "GET", "/evaluation")).json()

    ways = {way["name"].split(":")[-1]: way for way in found["policies"]}
    truth = {"low": 0.5 - 0.001, "high": 0.875 - 0.01, "random": 0.6875 - 0.0055}
    assert found["n"] == 1_500
    for name, value in truth.items():
        low, high = ways[name]["value"]["ci95"]
        # Four standard errors around, for it is one log.
        half = high - low
        assert low - half / 2 <= value <= high + half / 2, name
        assert ways[name]["is_known"]
    assert ways["high"]["cost_microusd"]["value"] == pytest.approx(1_000, rel=0.05)
    assert ways["in_force"]["gain"] is None


async def test_a_thin_log_says_nothing_and_says_so(world: World) -> None:
    await log(world, 20)

    found = (await ask(world, "GET", "/evaluation")).json()
    advice = (await ask(world, "GET", "/advice")).json()

    assert (found["policies"], found["n"]) == ([], 20)
    assert "too few" in found["too_thin"]
    assert "too few" in advice["too_thin"]
    assert {tier["standing"] for tier in advice["tiers"]} == {"unknown"}


async def test_the_tiers_worth_having_are_named(world: World) -> None:
    await log(world, 1_000)

    advice = (await ask(world, "GET", "/advice")).json()

    assert advice["pareto"] == ["low", "high"]
    assert advice["too_thin"] == ""


async def test_the_log_is_shown_as_models_are_trained_from_it(world: World) -> None:
    await log(world, 3)
    await world.parts.store.router_log.record((decision("unrated", at_ms=99),), (), ())

    first = (await ask(world, "GET", "/decisions", params={"limit": 2})).json()
    rated = (await ask(world, "GET", "/decisions", params={"rated": True})).json()

    assert [item["call_id"] for item in first["items"]] == ["call_unrated", "call_0_2"]
    assert first["next"] is not None
    assert len(rated["items"]) == 3
    assert rated["items"][0]["options"][0] == ["low", 0.5, 100.0, 0.7]
    tiers = (await ask(world, "GET", "")).json()["tiers"]
    assert (tiers[0]["tier"], tiers[0]["chosen"] > 0) == ("low", True)


@pytest.mark.requirement("router.calibration")
async def test_what_a_model_expected_is_shown_beside_what_came(world: World) -> None:
    await log(world, 30)
    features = packed(READER.read("Say."), meaning_axes=READER.widths.meaning)
    one = decision("learned", policy="learned", model="0123456789ab", features=features)
    await world.parts.store.router_log.record((one,), (end("learned"),), ())
    await world.parts.store.router_log.report((report("learned", 1.0),))

    found = (await ask(world, "GET", "/calibration")).json()

    latest = (await ask(world, "GET", "/calibration", params={"rows": 5})).json()
    too_many = await ask(world, "GET", "/advice", params={"rows": 20_001})

    assert (found["n"], found["unforetold"]) == (1, 30)
    assert (latest["n"], latest["unforetold"]) == (1, 4)
    assert too_many.status_code == 422
    (only,) = found["bins"]
    assert (only["low"], only["expected"], only["came"]["value"]) == (0.5, 0.5, 1.0)
