"""A model gateway that answers in as many rounds as pay, each a call of the gateway below it."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from governor.effort import AnswerMode
from governor.ids import TurnId
from governor.scope import ScopeChain
from governor.tiers import ModelTier
from runtime.model_gateway.answer import Answer
from runtime.model_gateway.answers import BAD_GATEWAY, invalid_answer, provider_answer
from runtime.model_gateway.errors import InvalidRequestError
from runtime.model_gateway.gateway import ModelGateway
from runtime.model_gateway.model_request import ModelRequest
from runtime.model_gateway.models import AUTO
from runtime.model_gateway.ports import Wishes
from runtime.model_gateway.preparation import Linked
from runtime.model_gateway.replaying import NamedOutlet
from runtime.model_gateway.wires.wire import Wire
from runtime.router.retelling import events_of
from runtime.router.strategist import Query, Strategist
from tool_gateway import telemetry
from tool_gateway.identity import CallContext

logger = logging.getLogger(__name__)
ROUNDS_HEADER = "Flyball-Rounds"
_OK = 200
_NOT_KEPT = "no-store"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asker:
    """Asks the gateway for one caller, each time in the same turn."""

    gateway: ModelGateway
    wire: Wire
    session_name: str
    chain: ScopeChain
    context: CallContext
    outlet: NamedOutlet
    wishes: Wishes

    async def ask(self, request: ModelRequest, linked: Linked) -> Answer:
        """Return the whole answer to a request that names its tier."""
        assert not request.is_streamed, "a round is answered in one piece"
        # A question of our own needs no thinking, and has no room for it.
        wishes = Wishes(mode=AnswerMode.INSTANT) if linked.is_aside else self.wishes
        if linked.must_be_new:
            wishes = replace(wishes, cache_control=_NOT_KEPT)
        try:
            answer = await self.gateway.run(
                request,
                self.wire,
                session_name=self.session_name,
                chain=self.chain,
                context=self.context,
                outlet=self.outlet,
                wishes=wishes,
                linked=linked,
            )
        except InvalidRequestError as error:
            # What only one tier does not serve is no reason to lose another's answer.
            if linked.parent is None and not linked.is_aside:
                raise
            return invalid_answer(self.wire, error)
        assert answer is not None, "what is not streamed is answered in one piece"
        return answer


class InRounds:
    """Answers model calls through a gateway, `auto` in as many rounds as are expected to pay."""

    def __init__(
        self, gateway: ModelGateway, strategist: Strategist, *, fresh: Callable[[str], str]
    ) -> None:
        """Take the gateway, who decides, and what makes fresh names."""
        self._gateway = gateway
        self._strategist = strategist
        self._fresh = fresh

    @property
    def tiers(self) -> tuple[ModelTier, ...]:
        """Return what can be asked for, at its present price."""
        return self._gateway.tiers

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
        """Return the answer, None where it was relayed to `outlet` as a stream.

        Raises:
            InvalidRequestError: the tier cannot serve what the request asks for.
        """
        if request.model == AUTO and self._strategist.may_take(wishes.strategy):
            query = Query(
                request=request,
                tiers=self._gateway.tiers_for(request, wire),
                audience=f"{chain.tenant}/{chain.agent}",
                task_class=context.task_class,
                wished=wishes.strategy,
                has_key=context.idempotency_key is not None,
            )
            # All rounds are of one turn: what the client asked for is one thing.
            turn = context.turn or TurnId(self._fresh("turn"))
            asker = _Asker(
                gateway=self._gateway,
                wire=wire,
                session_name=session_name,
                chain=chain,
                context=replace(context, turn=turn),
                outlet=outlet,
                wishes=replace(wishes, strategy=None),
            )
            answer = await self._strategist.answer(query, asker)
            if answer is not None:
                return await _given(request, wire, answer, outlet)
            context = asker.context
        return await self._gateway.run(
            request,
            wire,
            session_name=session_name,
            chain=chain,
            context=context,
            outlet=outlet,
            wishes=wishes,
        )


async def _given(
    request: ModelRequest, wire: Wire, answer: Answer, outlet: NamedOutlet
) -> Answer | None:
    """Return an answer, or relay it to a client that asked for a stream."""
    told = answer.flyball.get("strategy")
    count = len(told["rounds"]) if isinstance(told, dict) else 1
    named = answer.with_flyball({}, headers={ROUNDS_HEADER: str(count)})
    if not request.is_streamed or answer.status != _OK:
        return named
    try:
        # All of them before the first is sent: half a stream could not be taken back.
        events = list(events_of(request, answer.content))
    except Exception:
        telemetry.count_failure("retelling")
        logger.exception("an answer in rounds cannot be told as a stream")
        fault = provider_answer(
            wire,
            BAD_GATEWAY,
            "The provider's answer is none that can be streamed.",
            code="provider_failed",
        )
        return fault.with_flyball(named.flyball, headers=named.headers)
    outlet.name(named.headers)
    for event in events:
        await outlet.relay(event)
    return None
