"""What the strategies of this process have learned, each memory bounded."""

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from governor.ids import CallId, TierName
from governor.learning.auction import NEW_BIDDER, Bid, Bidder
from governor.learning.averages import CLASSES_MAX
from governor.learning.cascade import NOTHING_SEEN, CascadeSeen
from governor.learning.examples import NOTHING_SHOWN, ExamplesSeen

K = TypeVar("K")
V = TypeVar("V")

# Outcomes come late or never; who has not come by then is not waited for.
WAITING_MAX = 10_000
_BIDS_MAX = 200
_PLANS_MAX = 20
# A tier is not asked for bids any more after so many in a row that nobody can read, and is
# given another chance after so many auctions without it.
_UNREAD_MAX = 3
_WITHOUT_MAX = 20


class Latest(Generic[K, V]):
    """A value for each key; of more than so many keys the least recently set is forgotten."""

    def __init__(self, first: V, *, keys_max: int) -> None:
        """Take the value of a key that was never set."""
        self._first = first
        self._keys_max = keys_max
        self._values: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        """Return how many keys are remembered."""
        return len(self._values)

    def __getitem__(self, key: K) -> V:
        """Return the value of a key."""
        return self._values.get(key, self._first)

    def change(self, key: K, change: Callable[[V], V]) -> None:
        """Replace the value of a key by what `change` makes of it."""
        value = change(self._values.pop(key, self._first))
        self._values[key] = value
        if len(self._values) > self._keys_max:
            self._values.popitem(last=False)

    def take(self, key: K) -> V:
        """Return the value of a key and forget it."""
        return self._values.pop(key, self._first)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """An answer whose outcome is not known yet, with what is to be learned of it.

    `query_class` is of the request, `tier_class` of the request at the tier that answered, of
    which `expected` is the chance before it bid. Its `plan` is shown to its `audience` alone.
    """

    query_class: str
    tier_class: str
    was_kept: bool | None = None
    bid: Bid | None = None
    expected: float = 0.0
    plan: str = ""
    audience: str = ""
    examples: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PastPlan:
    """A plan that won an auction, with what its answer came to."""

    tier: TierName
    plan: str
    score: float


class Learned:
    """Remembers how cascades, bids and examples turned out, for each class of query."""

    def __init__(self) -> None:
        """Start with nothing learned."""
        self.cascades: Latest[str, CascadeSeen] = Latest(NOTHING_SEEN, keys_max=CLASSES_MAX)
        self.bidders: Latest[str, Bidder] = Latest(NEW_BIDDER, keys_max=CLASSES_MAX)
        self.examples: Latest[str, ExamplesSeen] = Latest(NOTHING_SHOWN, keys_max=CLASSES_MAX)
        self._unread: Latest[str, int] = Latest(0, keys_max=CLASSES_MAX)
        self._waiting: Latest[CallId, Waiting | None] = Latest(None, keys_max=WAITING_MAX)
        self._claims: Latest[str, tuple[tuple[float, float], ...]] = Latest(
            (), keys_max=CLASSES_MAX
        )
        self._plans: deque[tuple[tuple[str, str], PastPlan]] = deque(maxlen=_PLANS_MAX * 10)

    def is_asked_for_bids(self, tier_class: str) -> bool:
        """Tell whether the bids of a tier could be read of late."""
        return self._unread[tier_class] < _UNREAD_MAX

    def note_bid(self, tier_class: str, *, was_read: bool) -> None:
        """Note whether a bid could be read."""
        self._unread.change(tier_class, lambda count: 0 if was_read else count + 1)

    def note_no_bid(self, tier_class: str) -> None:
        """Note that an auction was held without a tier whose bids could not be read."""
        last = _UNREAD_MAX + _WITHOUT_MAX
        self._unread.change(
            tier_class, lambda count: _UNREAD_MAX - 1 if count + 1 >= last else count + 1
        )

    def wait_for(self, call_id: CallId, waiting: Waiting) -> None:
        """Note that the outcome of a call will tell something, should it become known."""

        def joined(before: Waiting | None) -> Waiting:
            # Examples are put in below whoever answers in rounds, and are learned of beside it.
            shown = waiting.examples if before is None else before.examples
            return replace(waiting, examples=shown)

        self._waiting.change(call_id, joined)

    def waiting(self, call_id: CallId) -> Waiting | None:
        """Return what the outcome of a call would tell."""
        return self._waiting[call_id]

    def claims(self, query_class: str) -> tuple[tuple[float, float], ...]:
        """Return what bidders claimed for a class and what it came to, against the expected."""
        return self._claims[query_class]

    def plans(self, audience: str, query_class: str) -> Mapping[bool, PastPlan]:
        """Return an audience's latest plan of a class that went well, and that did not."""
        return {
            past.score >= 0.5: past  # noqa: PLR2004 - half of the way
            for kind, past in self._plans
            if kind == (audience, query_class)
        }

    def scored(self, call_id: CallId, score: float) -> Waiting | None:
        """Learn the outcome of a call; return what it was, None where nobody waited for it."""
        waiting = self._waiting.take(call_id)
        if waiting is None:
            return None
        kept, bid, shown = waiting.was_kept, waiting.bid, waiting.examples
        if kept is not None:
            self.cascades.change(
                waiting.query_class, lambda seen: seen.scored(was_kept=kept, score=score)
            )
        if bid is not None:
            self._learn_bid(waiting, bid, score)
        if shown is not None:
            self.examples.change(waiting.tier_class, lambda seen: seen.noted(score, examples=shown))
        return waiting

    def _learn_bid(self, waiting: Waiting, bid: Bid, score: float) -> None:
        self.bidders.change(
            waiting.tier_class, lambda bidder: bidder.scored(claimed=bid.claimed, score=score)
        )
        claim = (bid.claimed - waiting.expected, score - waiting.expected)
        self._claims.change(
            waiting.query_class,
            lambda claims: (*claims, claim)[-_BIDS_MAX:],
        )
        if waiting.plan:
            past = PastPlan(tier=bid.tier, plan=waiting.plan, score=score)
            self._plans.append(((waiting.audience, waiting.query_class), past))
