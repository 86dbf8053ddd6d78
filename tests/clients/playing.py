"""What a scripted model says to a framework: call a tool, then say what came of it."""

import json

from tests.model_upstream.chat_goldens import completion
from tests.model_upstream.messages_goldens import message
from tests.model_upstream.responses_goldens import whole
from tests.model_upstream.upstream import Play, answering

TOOL = "worker__echo"
ARGUMENTS = {"text": "from the tool"}
SAID = "The tool said it."


def chat() -> tuple[Play, Play]:
    """Return the script in OpenAI's chat completions."""
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": TOOL, "arguments": json.dumps(ARGUMENTS)},
    }
    calls = completion(content=None, tool_calls=[call])
    calls["choices"][0]["finish_reason"] = "tool_calls"  # type: ignore[index]
    return answering(calls), answering(completion(content=SAID))


def responses() -> tuple[Play, Play]:
    """Return the script in OpenAI's responses."""
    call = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": TOOL,
        "arguments": json.dumps(ARGUMENTS),
        "status": "completed",
    }
    said = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": SAID, "annotations": []}],
    }
    return answering(whole(output=[call])), answering(whole(output=[said]))


def messages() -> tuple[Play, Play]:
    """Return the script in Anthropic's messages."""
    call = {"type": "tool_use", "id": "toolu_1", "name": TOOL, "input": ARGUMENTS}
    return (
        answering(message(content=[call], stop_reason="tool_use")),
        answering(message(content=[{"type": "text", "text": SAID}])),
    )
