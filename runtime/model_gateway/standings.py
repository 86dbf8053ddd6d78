"""How sessions' budgets stood a moment ago, for what is told of them before a stream."""

from collections import OrderedDict

from governor.ids import SessionId
from governor.scope import ScopeChain
from tool_gateway.books import Books
from tool_gateway.ports import Clock
from tool_gateway.tracking import Tracked

SESSIONS_MAX = 2_048
# To ask the ledger takes about as long as all else that is done before a request leaves.
FRESH_MS = 5_000


class Standings:
    """Remembers what each settlement says; the ledger is asked where that is old."""

    def __init__(self, books: Books, clock: Clock) -> None:
        """Begin with nothing known."""
        self._books = books
        self._clock = clock
        self._known: OrderedDict[SessionId, Tracked] = OrderedDict()

    def note(self, chain: ScopeChain, standing: Tracked | None) -> None:
        """Remember how the budgets of a session stand."""
        if standing is None:
            return
        self._known[chain.session] = standing
        self._known.move_to_end(chain.session)
        if len(self._known) > SESSIONS_MAX:
            self._known.popitem(last=False)

    async def lately(self, chain: ScopeChain) -> Tracked | None:
        """Return how the budgets stood lately; None while nobody can say."""
        known = self._known.get(chain.session)
        if known is not None and self._clock.now_ms() - known.now_ms <= FRESH_MS:
            return known
        standing = await self._books.tracked(chain)
        self.note(chain, standing)
        return standing
