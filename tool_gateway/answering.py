"""The built-in tool by which an agent answers the puzzle of a gate."""

from collections.abc import Awaitable, Callable

from governor.call import CallStatus, ToolCall
from governor.ids import PrincipalId, ToolName
from tool_gateway.errors import LedgerUnavailableError
from tool_gateway.results import Json, Outcome, text_result

ANSWER = ToolName("governor_answer")
_ANSWER_CHARS_MAX = 500

# Why an answer is not taken, None if it is: of an agent, to a challenge.
Taking = Callable[[PrincipalId, str, str], Awaitable[str | None]]

ANSWER_DEFINITION: Json = {
    "name": ANSWER,
    "title": "Answer a puzzle",
    "description": (
        "Answer the puzzle of a denial (gate_required) with its challenge, then make the denied "
        "call again. A challenge takes one answer."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "challenge": {"type": "string", "maxLength": _ANSWER_CHARS_MAX},
            "answer": {"type": "string", "maxLength": _ANSWER_CHARS_MAX},
        },
        "required": ["challenge", "answer"],
        "additionalProperties": False,
    },
    "annotations": {"readOnlyHint": False, "openWorldHint": False},
}


async def answered(call: ToolCall, taking: Taking | None) -> Outcome:
    """Return what an answer came to."""
    refused = "no rule has a gate here"
    if taking is not None:
        asked = call.arguments
        try:
            why = await taking(call.chain.agent, str(asked["challenge"]), str(asked["answer"]))
        except LedgerUnavailableError:
            why = "nobody can say whether the challenge was used before; try again soon"
        if why is None:
            return Outcome(result=text_result("Right. Make the call again."))
        refused = why
    text = f"Not taken: {refused}."
    return Outcome(
        result=text_result(text, is_error=True), status=CallStatus.TOOL_ERROR, detail=text
    )
