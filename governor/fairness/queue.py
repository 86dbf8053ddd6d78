"""The queue in front of one upstream: weighted fair between tenants, agents and sessions.

It is start-time fair queueing, level by level. Each tenant has a virtual time that moves by
what it was served, divided by its weight; who has moved least goes next. The same holds for the
agents of a tenant, the sessions of an agent and the priorities of a session; inside one of
those the earliest deadline goes first. A priority divides what a call is charged, so a class
has a larger share and can never keep the others out: whoever waits is passed by a bounded
number of others, whatever they ask for (`tests/governor/fairness` has the bound).

The places in the queue are divided max-min fair too. Where one is missing, it is taken from
whoever holds most by weight, so nobody can fill the queue against the others.
"""

from bisect import insort
from dataclasses import dataclass

from governor.errors import InvalidPolicyError
from governor.fairness.claim import Claim
from governor.fairness.division import Demand, divide, short_of_one
from governor.fairness.tree import SCALE, Node, Stage, Waiting

# What one call may be charged beyond what was expected of it: a long call is remembered, but
# it cannot keep its session out for as long as it took.
OVERCHARGE_MAX = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueBounds:
    """How many may wait: at all, of one tenant, of one session.

    Raises:
        InvalidPolicyError: a bound lets nobody wait, or an inner one is above an outer one.
    """

    total: int = 1024
    per_tenant: int = 512
    per_session: int = 64

    def __post_init__(self) -> None:
        """Refuse bounds that contradict each other."""
        if not 1 <= self.per_session <= self.per_tenant <= self.total:
            raise InvalidPolicyError(
                "queue: 1 <= per session <= per tenant <= total must hold, not "
                f"{self.per_session}, {self.per_tenant}, {self.total}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """A claim waits now; `displaced` lost its place to it and does not start."""

    waiting: Waiting
    displaced: Waiting | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Full:
    """A claim may not wait: the places of its `scope` are taken by others like it."""

    scope: str


class FairQueue:
    """Claims that wait for a slot, in the order that is fair."""

    def __init__(self, bounds: QueueBounds) -> None:
        """Begin empty."""
        self._bounds = bounds
        self._root = Node("")
        self._number = 0

    def __len__(self) -> int:
        """Return how many wait."""
        return self._root.waiting

    def offer(self, claim: Claim) -> Queued | Full:
        """Let a claim wait, or say which bound keeps it out."""
        leaf = self._leaf(claim)
        displaced, full = self._place_for(leaf)
        if full is not None:
            for node in leaf.up():
                node.forget()
            return full
        self._number += 1
        waiting = Waiting(claim=claim, number=self._number, leaf=leaf)
        for node in leaf.up():
            if not node.waiting:
                assert node.parent is not None, "the root is not part of the path"
                node.start = max(node.start, node.parent.virtual)
                node.order = self._number
            node.waiting += 1
        self._root.waiting += 1
        insort(leaf.line, waiting, key=_rank)
        if displaced is not None:
            self._take_out(displaced, Stage.DISPLACED)
        return Queued(waiting=waiting, displaced=displaced)

    def start_next(self, cost: int) -> Waiting | None:
        """Take the claim whose turn it is, charged `cost`; None when nobody waits."""
        node = self._root
        if not node.waiting:
            return None
        while node.children:
            child = node.next_child()
            node.virtual = max(node.virtual, child.start)
            node = child
        waiting = node.line[0]
        waiting.cost = max(1, cost)
        self._number += 1
        for part in node.up():
            part.running += 1
            part.order = self._number
            part.start += _charge(waiting, waiting.cost, part)
        self._take_out(waiting, Stage.STARTED)
        return waiting

    def end(self, waiting: Waiting, cost: int) -> None:
        """Charge a claim that was started what it really took, within bounds."""
        assert waiting.stage is Stage.STARTED, "only what was started can end"
        waiting.stage = Stage.GONE
        cost = min(max(1, cost), OVERCHARGE_MAX * waiting.cost)
        for part in waiting.leaf.up():
            part.running -= 1
            part.start += _charge(waiting, cost, part) - _charge(waiting, waiting.cost, part)
            part.forget()
        self._rest()

    def give_up(self, waiting: Waiting) -> None:
        """Take out a claim that no longer waits."""
        if waiting.stage is Stage.WAITING:
            self._take_out(waiting, Stage.GONE)
            self._rest()

    def ahead_of(self, claim: Claim) -> int:
        """Return how many would start before `claim` if it were to wait: an estimate."""
        leaf = self._leaf(claim)
        ahead = sum(other.claim.expires_ms <= claim.expires_ms for other in leaf.line)
        path = leaf.up()
        for node in path:
            assert node.parent is not None, "the root is not part of the path"
            ahead += sum(
                min(other.waiting, -(-(ahead + 1) * other.weight // node.weight))
                for other in node.parent.children.values()
                if other is not node
            )
        for node in path:
            node.forget()
        return ahead

    def share_of(self, claim: Claim, capacity: int) -> int:
        """Return what the claim's agent gets of `capacity` while everybody here wants it all."""
        leaf = self._leaf(claim)
        path = leaf.up()
        for node in reversed(path[2:]):
            assert node.parent is not None, "the root is not part of the path"
            wanting = {
                key: Demand(wanted=capacity, weight=demand.weight)
                for key, demand in node.parent.demands(newcomer=node.key).items()
            }
            capacity = divide(capacity, wanting)[node.key]
        for node in path:
            node.forget()
        return capacity

    def _rest(self) -> None:
        """Count shares anew from the next one that waits, if nobody is served and nobody waits."""
        if not self._root.waiting and not any(c.running for c in self._root.children.values()):
            self._root.children.clear()
            self._root.virtual = 0

    def _leaf(self, claim: Claim) -> Node:
        tenant = self._root.child(claim.tenant, weight=claim.tenant_weight)
        agent = tenant.child(claim.agent, weight=claim.agent_weight)
        return agent.child(claim.session).child(claim.priority)

    def _place_for(self, leaf: Node) -> tuple[Waiting | None, Full | None]:
        """Return whose place a newcomer at `leaf` takes, or the bound that keeps it out."""
        _, session, _, tenant = leaf.up()
        if session.waiting >= self._bounds.per_session:
            return None, Full(scope="session")
        for node, bound, scope in (
            (tenant, self._bounds.per_tenant, "tenant"),
            (self._root, self._bounds.total, "upstream"),
        ):
            if node.waiting >= bound:
                loser = _loser(node, leaf)
                return loser, Full(scope=scope) if loser is None else None
        return None, None

    def _take_out(self, waiting: Waiting, stage: Stage) -> None:
        waiting.stage = stage
        waiting.leaf.line.remove(waiting)
        self._root.waiting -= 1
        for node in waiting.leaf.up():
            node.waiting -= 1
            node.forget()


def _rank(waiting: Waiting) -> tuple[int, int]:
    return waiting.rank


def _charge(waiting: Waiting, cost: int, node: Node) -> int:
    return cost * SCALE // (node.weight * waiting.claim.priority.share)


def _loser(top: Node, leaf: Node) -> Waiting | None:
    """Return who below `top` has to go for a newcomer at `leaf`; None: the newcomer itself."""
    newcomers = {node.parent: node.key for node in leaf.up() if node.parent is not None}
    node = top
    while node is not leaf and node.children:
        node = node.children[short_of_one(node.demands(newcomer=newcomers.get(node)))]
    return None if node is leaf else node.line[-1]
