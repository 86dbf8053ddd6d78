"""A double of the store's sub-sessions for tests of the built-in tools."""

from governor.amounts import Amounts
from governor.denial import Denied
from governor.scope import ScopeChain
from tool_gateway.errors import SubSessionRefusedError


class NoSubSessions:
    """Refuses everything, as the store does for what it does not know."""

    async def spawn(self, parent: ScopeChain, *, name: str, limits: Amounts) -> ScopeChain | Denied:
        raise SubSessionRefusedError

    async def close(self, above: ScopeChain, *, name: str) -> Amounts:
        raise SubSessionRefusedError
