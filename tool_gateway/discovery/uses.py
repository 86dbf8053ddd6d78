"""What helped before: which tools of a tenant were used with success, and after which requests.

Kept in memory, per tenant, and never read for another. It is small on purpose: a sum per tool and
some words per tool, each halved every fortnight, so that it follows what the agents do now. At
the start it is fed from the latest call records; where those keep only hashes of arguments the
words begin at nothing, and the sums are known all the same.
"""

from collections import Counter, OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from governor.ids import SessionId, TenantId
from governor.retrieval.terms import terms_of

TENANTS_MAX = 256
TOOLS_MAX = 2_000
WORDS_MAX = 48
SESSIONS_MAX = 512
# A search explains the calls that follow at once, not those of an hour later.
FOLLOWERS_MAX = 5
HALF_LIFE_MS = 14 * 24 * 60 * 60 * 1000
# From so many uses on another one says little more.
_ENOUGH = 3.0
_FORGOTTEN = 0.05


@dataclass(slots=True)
class _Use:
    """What is known of one tool of one tenant, as it stood at `at_ms`."""

    at_ms: int
    uses: float = 0.0
    words: dict[str, float] = field(default_factory=dict)

    def share_at(self, now_ms: int) -> float:
        """Return how much of the weights is left by now."""
        return float(0.5 ** (max(0, now_ms - self.at_ms) / HALF_LIFE_MS))

    def add(self, words: Collection[str], *, now_ms: int) -> None:
        """Count one use, after a request of `words`."""
        left = self.share_at(now_ms)
        self.at_ms, self.uses = max(self.at_ms, now_ms), self.uses * left + 1
        weights = {word: weight * left for word, weight in self.words.items()}
        for word in words:
            weights[word] = weights.get(word, 0.0) + 1
        heaviest = sorted(weights.items(), key=lambda item: (-item[1], item[0]))[:WORDS_MAX]
        self.words = {word: weight for word, weight in heaviest if weight > _FORGOTTEN}


@dataclass(slots=True)
class _Search:
    """The latest search of a session: its words, what it found, how many calls it explains.

    `before` are the words of the search before it, if that one led to no call: whoever asks
    again in other words wants the same, and it is the first words that need to be learned.
    """

    words: frozenset[str]
    before: frozenset[str]
    found: frozenset[str]
    followers: int = FOLLOWERS_MAX
    has_led: bool = False


class PastUses:
    """Learns from searches and from the calls that follow them."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._tenants: OrderedDict[TenantId, OrderedDict[str, _Use]] = OrderedDict()
        self._searches: OrderedDict[SessionId, _Search] = OrderedDict()

    def note_search(self, session: SessionId, *, request: str, found: Collection[str]) -> None:
        """Remember what a session asked for and which tools it was shown."""
        words = frozenset(sorted(terms_of(request).stems)[:WORDS_MAX])
        last = self._searches.get(session)
        before = frozenset[str]() if last is None or last.has_led else last.words
        self._searches[session] = _Search(words=words, before=before, found=frozenset(found))
        self._searches.move_to_end(session)
        if len(self._searches) > SESSIONS_MAX:
            self._searches.popitem(last=False)

    def note_success(self, tenant: TenantId, session: SessionId, *, tool: str, now_ms: int) -> None:
        """Count a call that went well, for the request before it if that had found the tool."""
        tools = self._tenants.setdefault(tenant, OrderedDict())
        self._tenants.move_to_end(tenant)
        if len(self._tenants) > TENANTS_MAX:
            self._tenants.popitem(last=False)
        use = tools.setdefault(tool, _Use(at_ms=now_ms))
        tools.move_to_end(tool)
        if len(tools) > TOOLS_MAX:
            tools.popitem(last=False)
        use.add(self._words_before(session, tool), now_ms=now_ms)

    def _words_before(self, session: SessionId, tool: str) -> frozenset[str]:
        search = self._searches.get(session)
        if search is None:
            return frozenset()
        search.followers -= 1
        if search.followers <= 0:
            del self._searches[session]
        if tool not in search.found:
            return frozenset()
        search.has_led = True
        return search.words | search.before

    def usual(self, tenant: TenantId, *, now_ms: int) -> Mapping[str, float]:
        """Return how much each tool of the tenant was used with success, from 0 to below 1."""
        return {
            tool: _saturated(use.uses * use.share_at(now_ms))
            for tool, use in self._tenants.get(tenant, {}).items()
        }

    def fitting(self, tenant: TenantId, request: str, *, now_ms: int) -> Mapping[str, float]:
        """Return how well the words fit those that led to each tool before, from 0 to below 1."""
        tools: Mapping[str, _Use] = self._tenants.get(tenant, {})
        asked = frozenset(terms_of(request).stems)
        known = {tool: words for tool, use in tools.items() if (words := asked & use.words.keys())}
        # A word that leads everywhere leads nowhere.
        leading = Counter(word for words in known.values() for word in words)
        worth = {word: 1 / (1 + leading[word]) for word in asked}
        whole, fits = sum(worth[word] for word in sorted(asked)), {}
        for tool, words in known.items():
            use = tools[tool]
            left = use.share_at(now_ms)
            fit = sum(worth[word] * _saturated(use.words[word] * left) for word in sorted(words))
            fits[tool] = fit / whole
        return fits


def _saturated(weight: float) -> float:
    return weight / (weight + _ENOUGH)
