"""Long conversations of agents, as two wires write them, and somebody who keeps what gives way."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from governor.experience.keepsake import Keepsake
from governor.ids import ExperienceId
from governor.scope import ScopeChain
from runtime.model_gateway.compaction.compacting import Compactor
from runtime.model_gateway.compaction.terms import CompactionTerms

SYSTEM = "You book flights. Policy: no refunds after departure."
TASK = "Book me the cheapest flight to Oslo, below 400 dollars."
KEY = b"a secret of the house"


def flights(turn: int, *, rows: int = 40) -> str:
    """Return what a search for flights answers: a few thousand characters."""
    return json.dumps(
        [
            {"flight_number": f"FB{turn:02}{row:03}", "price_usd": 200 + row, "status": "available"}
            for row in range(rows)
        ]
    )


@dataclass(frozen=True)
class Turn:
    """One turn: which tool was asked, what it answered, what the user said then."""

    tool: str = "search_flights"
    result: str | None = None
    said: str = ""


def chat(turns: Sequence[Turn], *, system: str = SYSTEM) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": system},
        {"role": "user", "content": TASK},
    ]
    for number, turn in enumerate(turns, 1):
        call, asked = f"call_{number}", json.dumps({"day": number})
        function = {"name": turn.tool, "arguments": asked}
        messages += [
            {
                "role": "assistant",
                "content": f"Looking at day {number}.",
                "tool_calls": [{"id": call, "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": call, "content": _answered(turn, number)},
        ]
        if turn.said:
            messages.append({"role": "user", "content": turn.said})
    return messages


def blocks(turns: Sequence[Turn]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": TASK}]
    for number, turn in enumerate(turns, 1):
        call = f"toolu_{number}"
        used = {"type": "tool_use", "id": call, "name": turn.tool, "input": {"day": number}}
        words = {"type": "text", "text": f"Looking at day {number}."}
        told = {
            "type": "tool_result",
            "tool_use_id": call,
            "content": [{"type": "text", "text": _answered(turn, number)}],
        }
        said = [{"type": "text", "text": turn.said}] if turn.said else []
        messages += [
            {"role": "assistant", "content": [words, used]},
            {"role": "user", "content": [told, *said]},
        ]
    return messages


def _answered(turn: Turn, number: int) -> str:
    return flights(number) if turn.result is None else turn.result


@dataclass
class Shelf:
    """Keeps what it is given; `is_down` or `refuses` say what it cannot keep."""

    kept: dict[ExperienceId, bytes] = field(default_factory=dict)
    asked: list[tuple[Keepsake, ...]] = field(default_factory=list)
    is_down: bool = False
    refuses: frozenset[bytes] = frozenset()

    async def keep(
        self, keepsakes: Sequence[Keepsake], *, chain: ScopeChain
    ) -> frozenset[ExperienceId]:
        self.asked.append(tuple(keepsakes))
        if self.is_down:
            return frozenset()
        fine = {one.index: one.content for one in keepsakes if one.content not in self.refuses}
        self.kept.update(fine)
        return frozenset(fine)

    def read(self, index: ExperienceId) -> bytes:
        return self.kept[index]


def a_compactor(shelf: Shelf, *policy: CompactionTerms) -> Compactor:
    return Compactor(shelf, policy=lambda: policy)
