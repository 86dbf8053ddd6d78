from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.errors import InvalidPolicyError
from governor.fairness.claim import Claim, Priority
from governor.fairness.queue import FairQueue, Full, QueueBounds, Queued
from governor.fairness.tree import Stage, Waiting

ROOMY = QueueBounds(total=10_000, per_tenant=5_000, per_session=1_000)
FAR = 1_000_000


def claim(
    tenant: str = "acme",
    agent: str = "ada",
    session: str = "one",
    *,
    weight: int = 1,
    priority: Priority = Priority.NORMAL,
    expires_ms: int = FAR,
) -> Claim:
    return Claim(
        tenant=tenant,
        agent=agent,
        session=session,
        tenant_weight=weight,
        priority=priority,
        expires_ms=expires_ms,
    )


def queued(queue: FairQueue, wanted: Claim) -> Waiting:
    offered = queue.offer(wanted)
    assert isinstance(offered, Queued)
    assert offered.displaced is None
    return offered.waiting


def served(queue: FairQueue, count: int) -> list[Claim]:
    """Return the next claims; each has ended, as expected, before the next one starts."""
    claims = []
    for _ in range(count):
        started = queue.start_next(1)
        assert started is not None
        claims.append(started.claim)
        queue.end(started, 1)
    return claims


def test_tenants_are_served_by_weight_however_many_calls_they_send() -> None:
    queue = FairQueue(ROOMY)
    for number in range(300):
        queued(queue, claim("greedy", session=str(number % 7)))
        if number < 100:
            queued(queue, claim("small", weight=3))

    turns = [wanted.tenant for wanted in served(queue, 100)]

    assert turns.count("small") in (74, 75, 76)


def test_agents_of_a_tenant_and_sessions_of_an_agent_share_evenly() -> None:
    queue = FairQueue(ROOMY)
    for number in range(120):
        queued(queue, claim(agent="many", session=str(number % 30)))
        if number < 60:
            queued(queue, claim(agent="few", session=str(number % 2)))

    turns = [(wanted.agent, wanted.session) for wanted in served(queue, 60)]

    assert sum(agent == "few" for agent, _ in turns) == 30
    assert turns.count(("few", "0")) == turns.count(("few", "1")) == 15


def test_a_class_of_calls_has_its_share_and_never_the_right_of_way() -> None:
    queue = FairQueue(ROOMY)
    for _ in range(210):
        for priority in Priority:
            queued(queue, claim(priority.value, priority=priority))

    turns = [wanted.priority for wanted in served(queue, 210)]

    assert abs(turns.count(Priority.HIGH) - 160) <= 2
    assert abs(turns.count(Priority.NORMAL) - 40) <= 2
    assert abs(turns.count(Priority.LOW) - 10) <= 2


def test_inside_a_session_the_earliest_deadline_goes_first() -> None:
    queue = FairQueue(ROOMY)
    for expires_ms in (FAR, 300, 100, 200, 100):
        queued(queue, claim(expires_ms=expires_ms))

    assert [wanted.expires_ms for wanted in served(queue, 5)] == [100, 100, 200, 300, FAR]


def test_a_call_that_took_longer_than_expected_is_charged_for_it() -> None:
    queue = FairQueue(ROOMY)
    for _ in range(20):
        queued(queue, claim("slow"))
        queued(queue, claim("quick"))

    turns = []
    for _ in range(20):
        started = queue.start_next(4)
        assert started is not None
        turns.append(started.claim.tenant)
        queue.end(started, 12 if started.claim.tenant == "slow" else 4)

    assert abs(turns.count("quick") - 15) <= 1


def test_one_very_long_call_does_not_keep_its_tenant_out_for_as_long() -> None:
    queue = FairQueue(ROOMY)
    for _ in range(30):
        queued(queue, claim("slow"))
        queued(queue, claim("quick"))
    first = queue.start_next(1)
    assert first is not None
    queue.end(first, 10**9)

    turns = [wanted.tenant for wanted in served(queue, 20)]

    assert "slow" in turns


WEIGHTS = st.lists(st.integers(1, 8), min_size=2, max_size=6)


@pytest.mark.requirement("contention.nobody-starves")
@given(
    weights=WEIGHTS,
    moves=st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from(Priority), st.booleans()), max_size=80
    ),
)
def test_whoever_waits_is_passed_by_a_bounded_number_of_others(
    weights: list[int], moves: list[tuple[int, Priority, bool]]
) -> None:
    queue = FairQueue(ROOMY)
    for who, priority, serve in moves:
        who %= len(weights)  # noqa: PLW2901
        queue.offer(claim(str(who), weight=weights[who], priority=priority))
        if serve:
            served(queue, 1)
    # The others fill the queue with what is served most, then the newcomer comes.
    for who in range(1, len(weights)):
        for _ in range(200):
            queue.offer(claim(str(who), weight=weights[who], priority=Priority.HIGH))
    ahead = sum(w.claim.tenant == "0" for w in everyone(queue))
    mine = queued(queue, claim("0", weight=weights[0], priority=Priority.LOW, expires_ms=FAR + 1))

    passed = 0
    while mine.stage is Stage.WAITING:
        started = queue.start_next(1)
        assert started is not None
        passed += started.claim.tenant != "0"
        queue.end(started, 1)

    # A charge of mine, by the charges of another: so many turns fit in, and one for a tie.
    share = Priority.HIGH.share // Priority.LOW.share
    per_turn = sum(share * weight // weights[0] + 1 for weight in weights[1:])
    assert passed <= per_turn * (ahead + 1)


def come_and_go(waiting: list[Waiting], offered: Queued | Full) -> None:
    """Keep in `waiting` who waits after an offer."""
    if isinstance(offered, Queued):
        waiting.append(offered.waiting)
        if offered.displaced is not None:
            assert offered.displaced.stage is Stage.DISPLACED
            waiting.remove(offered.displaced)


def check_bounds(queue: FairQueue, waiting: list[Waiting]) -> None:
    """Fail unless exactly these wait, within every bound."""
    assert {id(kept) for kept in everyone(queue)} == {id(kept) for kept in waiting}
    assert len(queue) == len(waiting) <= SMALL.total
    tenants = Counter(kept.claim.tenant for kept in waiting)
    sessions = Counter(id(kept.leaf.parent) for kept in waiting)
    assert all(count <= SMALL.per_tenant for count in tenants.values())
    assert all(count <= SMALL.per_session for count in sessions.values())


def everyone(queue: FairQueue) -> list[Waiting]:
    root = queue._root
    leaves = [
        leaf
        for tenant in root.children.values()
        for agent in tenant.children.values()
        for session in agent.children.values()
        for leaf in session.children.values()
    ]
    return [waiting for leaf in leaves for waiting in leaf.line]


SMALL = QueueBounds(total=12, per_tenant=8, per_session=3)


@pytest.mark.requirement("contention.queues-are-bounded")
@given(
    moves=st.lists(
        st.tuples(
            st.integers(0, 3),
            st.integers(0, 2),
            st.integers(0, 2),
            st.sampled_from(Priority),
            st.sampled_from(["offer", "offer", "offer", "serve", "end", "give up"]),
            st.integers(1, 50),
        ),
        max_size=200,
    )
)
def test_no_bound_is_ever_exceeded_and_nobody_is_lost(
    moves: list[tuple[int, int, int, Priority, str, int]],
) -> None:
    queue = FairQueue(SMALL)
    waiting: list[Waiting] = []
    running: list[Waiting] = []
    for tenant, agent, session, priority, move, cost in moves:
        wanted = claim(str(tenant), str(agent), str(session), priority=priority, expires_ms=cost)
        if move == "offer":
            come_and_go(waiting, queue.offer(wanted))
        elif move == "serve" and waiting:
            started = queue.start_next(cost)
            assert started is not None, "somebody waits, so somebody is served"
            waiting.remove(started)
            running.append(started)
        elif move == "end" and running:
            queue.end(running.pop(0), cost)
        elif move == "give up" and waiting:
            queue.give_up(waiting.pop(0))
        check_bounds(queue, waiting)
    while (last := queue.start_next(1)) is not None:
        running.append(last)
    for started in running:
        queue.end(started, 1)
    assert not queue._root.children, "nothing is kept of who neither waits nor runs"


@pytest.mark.requirement("contention.nobody-starves")
def test_a_full_queue_gives_the_small_one_a_place_and_takes_it_from_the_greedy() -> None:
    queue = FairQueue(QueueBounds(total=10, per_tenant=10, per_session=10))
    for number in range(10):
        queued(queue, claim("greedy", session=str(number % 2), expires_ms=FAR + number))

    offered = queue.offer(claim("small"))
    refused = queue.offer(claim("greedy", session="0"))

    assert isinstance(offered, Queued)
    assert offered.displaced is not None
    assert (offered.displaced.claim.tenant, offered.displaced.claim.expires_ms) == (
        "greedy",
        FAR + 9,
    )
    assert refused == Full(scope="upstream")


def test_a_full_session_is_told_so_and_costs_its_neighbours_no_place() -> None:
    queue = FairQueue(SMALL)
    for _ in range(3):
        queued(queue, claim())

    assert queue.offer(claim()) == Full(scope="session")
    assert isinstance(queue.offer(claim(session="two")), Queued)


def test_the_estimate_of_who_goes_before_counts_fair_turns_not_the_whole_queue() -> None:
    queue = FairQueue(ROOMY)
    for _ in range(500):
        queued(queue, claim("greedy"))

    assert queue.ahead_of(claim("small")) == 1
    assert queue.ahead_of(claim("greedy")) == 500
    assert queue.ahead_of(claim("greedy", expires_ms=5)) == 0


def test_the_share_of_an_agent_is_divided_by_tenant_and_then_by_agent() -> None:
    queue = FairQueue(ROOMY)
    queued(queue, claim("acme", "ada"))
    queued(queue, claim("acme", "bob"))
    queued(queue, claim("other", weight=3))

    assert queue.share_of(claim("acme", "ada"), 80) == 10
    assert queue.share_of(claim("third", "cleo"), 50) == 10


def test_bounds_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InvalidPolicyError, match="queue: 1 <= per session"):
        QueueBounds(total=1, per_tenant=2, per_session=1)
