"""The built-in tools by which an agent divides its own budget: spawn a sub-session, close it."""

import json
from collections.abc import Mapping
from typing import Any

from governor.amounts import AMOUNT_MAX, Amounts, Unit
from governor.call import CallStatus, ToolCall
from governor.denial import Denied
from tool_gateway.denials import denial_result
from tool_gateway.errors import (
    LedgerOverloadedError,
    LedgerUnavailableError,
    SubSessionRefusedError,
)
from tool_gateway.identity import NAME_LENGTH_MAX
from tool_gateway.ports import SubSessionStore
from tool_gateway.results import Outcome, ToolResult, text_block, text_result

SPAWN = "governor_spawn"
CLOSE = "governor_close"

_NAME = {"type": "string", "minLength": 1, "maxLength": NAME_LENGTH_MAX}
_LIMIT = {"type": "integer", "minimum": 0, "maximum": AMOUNT_MAX}

DEFINITIONS: tuple[Mapping[str, Any], ...] = (
    {
        "name": SPAWN,
        "title": "Give part of the budget to a sub-session",
        "description": (
            "Set aside part of what remains of this session's budgets for a helper. Whoever "
            "sends the name as Flyball-Session spends from that part and can never take more. "
            "governor_close gives the rest back."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": {**_NAME, "description": "A name that you have not used before."},
                "limits": {
                    "type": "object",
                    "description": "How much of which unit the sub-session may use.",
                    "properties": {unit.value: _LIMIT for unit in Unit},
                    "minProperties": 1,
                    "additionalProperties": False,
                },
            },
            "required": ["name", "limits"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": False, "openWorldHint": False},
    },
    {
        "name": CLOSE,
        "title": "Close a sub-session",
        "description": (
            "Close a sub-session of this session, and those below it. What they did not use "
            "comes back to this session's budgets."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {"name": _NAME},
            "required": ["name"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": False, "idempotentHint": True, "openWorldHint": False},
    },
)


class Spawning:
    """Answers both tools."""

    def __init__(self, store: SubSessionStore) -> None:
        """Take the port."""
        self._store = store

    async def run(self, call: ToolCall) -> Outcome:
        """Spawn or close; a refusal is a result that the model can act on."""
        try:
            return await (self._spawn(call) if call.tool == SPAWN else self._close(call))
        except SubSessionRefusedError as error:
            return _failed(str(error))
        except (LedgerUnavailableError, LedgerOverloadedError):
            return _failed("The ledger does not answer; nothing was changed. Try again.")

    async def _spawn(self, call: ToolCall) -> Outcome:
        asked, name = call.arguments["limits"], str(call.arguments["name"])
        assert isinstance(asked, Mapping), "the schema says so"
        limits = Amounts({Unit(unit): int(limit) for unit, limit in asked.items()})
        spawned = await self._store.spawn(call.chain, name=name, limits=limits)
        if isinstance(spawned, Denied):
            result = denial_result(spawned, has_output_schema=False)
            return Outcome(result=result, status=CallStatus.TOOL_ERROR, detail="not carved out")
        return _told(
            {"session": spawned.session, "name": name, "limits": limits.as_dict()},
            f"{name!r} is open. Send it as Flyball-Session to spend from it.",
        )

    async def _close(self, call: ToolCall) -> Outcome:
        name = str(call.arguments["name"])
        given = await self._store.close(call.chain, name=name)
        return _told({"name": name, "given_back": given.as_dict()}, f"{name!r} is closed.")


def _told(shape: dict[str, object], text: str) -> Outcome:
    shown = text_block(json.dumps(shape, ensure_ascii=False))
    return Outcome(result=ToolResult(content=(shown, text_block(text)), structured=shape))


def _failed(text: str) -> Outcome:
    return Outcome(
        result=text_result(text, is_error=True), status=CallStatus.TOOL_ERROR, detail=text
    )
