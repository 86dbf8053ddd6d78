"""The tree of those who wait, whose nodes remember what each was served."""

from dataclasses import dataclass, field
from enum import Enum, auto

from governor.fairness.claim import Claim
from governor.fairness.division import Demand

# Tags are integers: one millisecond of a slot at weight one and the lowest priority.
SCALE = 1 << 20
# Who left with more than a fair share is remembered; of so many siblings at the most.
REMEMBERED_MAX = 256


class Stage(Enum):
    """Where a claim stands."""

    WAITING = auto()
    STARTED = auto()
    DISPLACED = auto()
    GONE = auto()


@dataclass(slots=True, eq=False)
class Waiting:
    """A claim in the queue, and what it was charged once it started."""

    claim: Claim
    number: int
    leaf: "Node" = field(repr=False)
    stage: Stage = Stage.WAITING
    cost: int = 0

    @property
    def rank(self) -> tuple[int, int]:
        """Return its place among those of its own session: the earliest deadline first."""
        return self.claim.expires_ms, self.number


@dataclass(slots=True, eq=False)
class Node:
    """A tenant, an agent of it, its session, or the session's calls of one priority.

    `start` is the virtual time at which its next call is due, `virtual` the latest `start`
    that was served below it. The lines of claims are at the leaves alone.
    """

    key: str
    parent: "Node | None" = None
    weight: int = 1
    start: int = 0
    order: int = 0
    virtual: int = 0
    waiting: int = 0
    running: int = 0
    children: "dict[str, Node]" = field(default_factory=dict)
    line: list[Waiting] = field(default_factory=list)

    def child(self, key: str, *, weight: int = 1) -> "Node":
        """Return the child of that name, made if there is none, with the weight it has now."""
        found = self.children.get(key)
        if found is None:
            found = self.children[key] = Node(key, parent=self, start=self.virtual)
        found.weight = weight
        return found

    def up(self) -> "list[Node]":
        """Return this node and those above it, without the root."""
        nodes, node = [], self
        while node.parent is not None:
            nodes.append(node)
            node = node.parent
        return nodes

    def next_child(self) -> "Node":
        """Return the child with waiting claims whose turn it is; there must be one."""
        return min(
            (child for child in self.children.values() if child.waiting),
            key=lambda child: (child.start, child.order),
        )

    def demands(self, *, newcomer: str | None) -> dict[str, Demand]:
        """Return what each child wants of the places, a newcomer's named last."""
        wanted = {
            key: Demand(wanted=child.waiting, weight=child.weight)
            for key, child in self.children.items()
            if child.waiting and key != newcomer
        }
        if newcomer is not None:
            child = self.children[newcomer]
            wanted[newcomer] = Demand(wanted=child.waiting + 1, weight=child.weight)
        return wanted

    def forget(self) -> None:
        """Leave the tree if nothing is worth remembering; make room among the siblings."""
        if self.parent is None or self.waiting or self.running:
            return
        # Shares below count anew once nobody there is served or waits.
        self.children.clear()
        self.virtual = 0
        siblings = self.parent.children
        if self.start <= self.parent.virtual:
            siblings.pop(self.key, None)
        elif len(siblings) > REMEMBERED_MAX:
            _make_room(self.parent)


def _make_room(parent: Node) -> None:
    """Drop the idle children that owe nothing, else the one that owes the least."""
    idle = [child for child in parent.children.values() if not child.waiting + child.running]
    settled = [child for child in idle if child.start <= parent.virtual]
    for child in settled or [min(idle, key=lambda child: child.start)]:
        del parent.children[child.key]
