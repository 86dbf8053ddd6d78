"""One round of an answer in several: a governed call of its own, and what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from governor.ids import CallId, TierName
from runtime.model_gateway.answer import Answer
from runtime.model_gateway.model_request import ModelRequest, WireName
from runtime.model_gateway.preparation import Linked
from runtime.router.said import NOTHING_SAID, Said, said_in

_OK = 200


class Asker(Protocol):
    """Whoever has one call of a turn admitted, made, settled and recorded."""

    async def ask(self, request: ModelRequest, linked: Linked) -> Answer:
        """Return the whole answer to a request that names its tier; a denial is one too.

        What links it to the first call of the same answer stands on its record.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one call of an answer came to."""

    tier: TierName
    answer: Answer
    said: Said
    call_id: CallId | None
    cost_microusd: int
    output_tokens: int | None

    @property
    def is_served(self) -> bool:
        """Tell whether a model answered."""
        return self.answer.status == _OK

    @property
    def is_denied(self) -> bool:
        """Tell whether a budget or a rule did not let the call begin."""
        return "denial" in self.answer.flyball


def round_of(tier: TierName, wire: WireName, answer: Answer) -> Round:
    """Return what an answer of the gateway says of its call."""
    member = answer.flyball
    usage = member.get("usage")
    usage = usage if isinstance(usage, Mapping) else {}
    call_id, named = member.get("call_id"), member.get("tier")
    return Round(
        # Another may have answered where the one that was asked could not.
        tier=TierName(named) if isinstance(named, str) else tier,
        answer=answer,
        said=said_in(wire, answer.content) if answer.status == _OK else NOTHING_SAID,
        call_id=CallId(call_id) if isinstance(call_id, str) else None,
        cost_microusd=_whole(usage.get("cost_microusd")) or 0,
        output_tokens=_whole(usage.get("output_tokens")),
    )


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
