"""A model that the house asks for itself: over the governed path, on the house's own budget."""

import logging

import msgspec

from governor.ids import TaskClass, TurnId
from governor.scope import ScopeChain
from runtime.model_gateway.answering import Models
from runtime.model_gateway.errors import InvalidRequestError
from runtime.model_gateway.ports import Wishes
from runtime.model_gateway.wires.openai_chat import OpenAIChat
from runtime.router.said import said_in
from tool_gateway import telemetry
from tool_gateway.identity import CallContext
from tool_gateway.ports import Clock

logger = logging.getLogger(__name__)
_OK = 200
_CLASS = TaskClass("house")


class HouseModel:
    """Asks one tier; every question is a call of the ledger like any agent's."""

    def __init__(self, models: Models, *, tier: str, output_tokens: int, clock: Clock) -> None:
        """Take who answers model calls, and the tier that is asked."""
        self._models = models
        self._tier = tier
        self._output_tokens = output_tokens
        self._clock = clock
        self._wire = OpenAIChat()

    async def ask(
        self, told: str, shown: str, *, chain: ScopeChain, session_name: str
    ) -> str | None:
        """Return the words of the model; None where it was denied, failed, or was cut short."""
        body = msgspec.json.encode(
            {
                "model": self._tier,
                "messages": [
                    {"role": "system", "content": told},
                    {"role": "user", "content": shown},
                ],
                "max_tokens": self._output_tokens,
            }
        )
        try:
            answer = await self._models.run(
                self._wire.parse(body, headers={}),
                self._wire,
                session_name=session_name,
                chain=chain,
                context=CallContext(
                    session_name=session_name,
                    turn=TurnId(self._clock.fresh("turn")),
                    idempotency_key=None,
                    task_class=_CLASS,
                ),
                outlet=_NoOutlet(),
                wishes=Wishes(may_explore=False),
            )
        except InvalidRequestError as error:
            telemetry.count_failure("house_model")
            logger.warning("the tier %s cannot be asked to reflect: %s", self._tier, error)
            return None
        if answer is None or answer.status != _OK:
            telemetry.count_failure("house_model")
            return None
        said = said_in(self._wire.name, answer.content)
        return None if said.is_cut or said.is_empty else said.text


class _NoOutlet:
    """Where no stream goes, for none is asked for."""

    has_begun = False

    def name(self, headers: object) -> None:
        """Take headers that nobody reads."""

    async def relay(self, events: bytes) -> None:
        """Take events that nobody asked for."""
