"""The gate in virtual time: nobody starves, whatever the greedy do."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from governor.fairness.adaptive import Adapts, Concurrency
from governor.fairness.claim import Claim, Priority
from governor.fairness.division import Demand, divide
from governor.fairness.gate import Gate, GateBounds, TooLate
from governor.fairness.pace import Quota
from governor.fairness.queue import QueueBounds, Queued
from tests.governor.fairness.simulation import Agent, Simulation, jain

SEEDS = st.integers(0, 2**32)
EIGHT = Concurrency(start=8, lowest=8, highest=8, adapts=Adapts.NOTHING)
SERVICE_MS_MAX = 400


def claim(tenant: str, *, expires_ms: int) -> Claim:
    return Claim(tenant=tenant, agent="a", session="s", expires_ms=expires_ms)


@pytest.mark.requirement("contention.nobody-starves")
@settings(max_examples=5)
@given(seed=SEEDS)
def test_a_greedy_tenant_costs_small_ones_a_bounded_wait_and_no_refusal(seed: int) -> None:
    greedy = Agent(
        tenant="greedy", outstanding=200, service_ms=100, sessions=20, priority=Priority.HIGH
    )
    small = [Agent(tenant=f"small-{number}", outstanding=1, think_ms=300) for number in range(6)]
    bounds = QueueBounds(total=128, per_tenant=120, per_session=16)
    simulation = Simulation(
        GateBounds(queue=bounds, concurrency=EIGHT), [greedy, *small], seed=seed
    )

    simulation.run(until_ms=30_000)

    # Passed at the most by four calls of the greedy one (its class has four times the share),
    # one more for the tie, and two of each small one; eight slots end in parallel.
    passed_by = 4 + 1 + 2 * len(small)
    wait_ms_max = SERVICE_MS_MAX * (1 + -(-passed_by // 8))
    assert simulation.idle_while_wanted == 0, "a slot was left free while somebody waited"
    assert greedy.refused > 0, "the queue was full all the time"
    for agent in small:
        assert agent.refused == 0
        assert len(agent.waits_ms) > 40
        assert max(agent.waits_ms) <= wait_ms_max


@pytest.mark.requirement("contention.max-min-fair")
@settings(max_examples=5)
@given(seed=SEEDS)
def test_tenants_that_all_want_more_get_the_same_time_however_much_they_ask_for(seed: int) -> None:
    tenants = [
        Agent(tenant="greedy", outstanding=200, sessions=20),
        Agent(tenant="slow", outstanding=40, service_ms=400),
        *(Agent(tenant=f"plain-{number}", outstanding=24) for number in range(4)),
    ]
    bounds = QueueBounds(total=512, per_tenant=300, per_session=64)
    simulation = Simulation(GateBounds(queue=bounds, concurrency=EIGHT), tenants, seed=seed)

    simulation.run(until_ms=60_000)

    assert jain([float(agent.served_ms) for agent in tenants]) >= 0.97


@settings(max_examples=5)
@given(seed=SEEDS)
def test_weights_and_classes_divide_the_time_as_they_say(seed: int) -> None:
    tenants = [
        Agent(tenant="heavy", outstanding=40, weight=3),
        Agent(tenant="light", outstanding=40),
        Agent(tenant="background", outstanding=40, priority=Priority.LOW),
    ]
    bounds = QueueBounds(total=512, per_tenant=300, per_session=64)
    simulation = Simulation(GateBounds(queue=bounds, concurrency=EIGHT), tenants, seed=seed)

    simulation.run(until_ms=60_000)

    heavy, light, background = (agent.served_ms for agent in tenants)
    assert heavy / light == pytest.approx(3, rel=0.15)
    assert light / background == pytest.approx(4, rel=0.2)


@pytest.mark.requirement("contention.max-min-fair")
@settings(max_examples=5)
@given(seed=SEEDS)
def test_a_commons_is_divided_max_min_fair_between_the_agents_that_want_it(seed: int) -> None:
    quota = Quota(per_minute=600)
    asked = {"greedy": 60, "eager": 12, "modest": 1, "rare": 1}
    think_ms = {"greedy": 0, "eager": 0, "modest": 900, "rare": 4_000}
    agents = [
        Agent(tenant="one", name=name, outstanding=count, think_ms=think_ms[name], service_ms=10)
        for name, count in asked.items()
    ]
    simulation = Simulation(GateBounds(quota=quota), agents, seed=seed)

    simulation.run(until_ms=120_000)

    # What each wanted: the greedy without end, the others what they came to.
    calls = {agent.name: len(agent.waits_ms) for agent in agents}
    fair = divide(
        len(simulation.started_ms),
        {
            "greedy": Demand(wanted=10**6),
            "eager": Demand(wanted=10**6),
            "modest": Demand(wanted=calls["modest"]),
            "rare": Demand(wanted=calls["rare"]),
        },
    )
    assert simulation.idle_while_wanted == 0
    assert 1_190 <= len(simulation.started_ms) <= 1_201
    assert all(abs(calls[name] - fair[name]) <= 3 for name in asked), (calls, fair)
    for agent in agents[2:]:
        # Each other agent goes once before, twice at a tie; every turn is a tenth of a second.
        assert max(agent.waits_ms) <= 700


@settings(max_examples=5)
@given(seed=SEEDS)
def test_without_contention_nobody_waits(seed: int) -> None:
    agents = [Agent(tenant=f"t{number}", outstanding=2, think_ms=50) for number in range(6)]
    simulation = Simulation(GateBounds(), agents, seed=seed)

    simulation.run(until_ms=60_000)

    assert {wait_ms for agent in agents for wait_ms in agent.waits_ms} == {0}


def test_a_claim_that_would_start_after_its_deadline_is_refused_with_the_expected_wait() -> None:
    gate = Gate(GateBounds(quota=Quota(per_minute=60)))
    assert gate.pass_at_once(0)
    for _ in range(4):
        assert isinstance(gate.wait(claim("greedy", expires_ms=60_000), 0), Queued)

    earliest = gate.wait(claim("greedy", expires_ms=3_000), 0)
    next_one = gate.wait(claim("small", expires_ms=3_000), 0)
    late = gate.wait(claim("third", expires_ms=900), 0)

    assert isinstance(earliest, Queued), "its deadline is the earliest of its session"
    assert isinstance(next_one, Queued)
    assert late == TooLate(wait_ms=3_000)
    assert gate.share_of(claim("third", expires_ms=900)) == 20


def test_nobody_who_comes_later_slips_past_those_who_wait() -> None:
    one = Concurrency(start=1, lowest=1, highest=1)
    gate = Gate(GateBounds(concurrency=one))
    assert gate.pass_at_once(0)
    gate.wait(claim("first", expires_ms=9_999), 0)
    gate.leave(None, held_ms=10)

    assert not gate.pass_at_once(10)
    (started,) = gate.start_due(10)
    assert started.claim.tenant == "first"
    assert gate.in_flight == gate.limit == 1
