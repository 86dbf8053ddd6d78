"""Whoever answers model calls, as those who hand requests on know it."""

from typing import Protocol

from governor.scope import ScopeChain
from governor.tiers import ModelTier
from runtime.model_gateway.answer import Answer
from runtime.model_gateway.model_request import ModelRequest
from runtime.model_gateway.ports import Wishes
from runtime.model_gateway.replaying import NamedOutlet
from runtime.model_gateway.wires.wire import Wire
from tool_gateway.identity import CallContext


class Models(Protocol):
    """The gateway, who asks it several times, or who makes requests shorter first."""

    @property
    def tiers(self) -> tuple[ModelTier, ...]:
        """Return what can be asked for, at its present price."""
        ...

    async def run(
        self,
        request: ModelRequest,
        wire: Wire,
        *,
        session_name: str,
        chain: ScopeChain,
        context: CallContext,
        outlet: NamedOutlet,
        wishes: Wishes,
    ) -> Answer | None:
        """Return the answer, None where it was relayed to `outlet` as a stream."""
        ...
