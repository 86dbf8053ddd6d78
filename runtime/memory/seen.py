"""Whether a session has seen what strangers wrote, as the flow marks tell."""

from typing import Protocol

from governor.flow.labels import Label
from governor.scope import ScopeChain
from tool_gateway.errors import LedgerOverloadedError, LedgerUnavailableError


class Seeing(Protocol):
    """Knows what sessions have seen; it may raise that the ledger does not answer."""

    async def seen_by(self, chain: ScopeChain) -> frozenset[Label]:
        """Return what is known that a session has seen."""
        ...


async def has_seen_untrusted(marks: Seeing, chain: ScopeChain, *, where_unknown: bool) -> bool:
    """Tell whether a session has seen what anybody may have written.

    `where_unknown` is the answer where nobody can say: yes for what is written, because what
    nobody knows is not taken for clean; no for what is shown, because such a session gets less.
    """
    try:
        return Label.SEES_UNTRUSTED in await marks.seen_by(chain)
    except (LedgerUnavailableError, LedgerOverloadedError):
        return where_unknown
