"""What a whole chat completion holds, read only where its usage is missing or odd."""

import msgspec

from runtime.model_gateway.measured import Produced


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _ToolCall(msgspec.Struct):
    function: _Function | None = None


class _Message(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_ToolCall] | None = None
    function_call: _Function | None = None


class _Choice(msgspec.Struct):
    message: _Message | None = None


_choices = msgspec.json.Decoder(list[_Choice]).decode


def written_in(choices: bytes | bytearray | memoryview, *, keeps_text: bool) -> Produced | None:
    """Return what the choices of an answer hold; None where they are of another shape."""
    try:
        read = _choices(choices)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    produced = Produced(pieces={} if keeps_text else None)
    for index, choice in enumerate(read):
        if choice.message is not None:
            _note(produced, str(index), choice.message)
    return produced


def note_call(produced: Produced, part: str, name: str | None, arguments: str | None) -> None:
    """Take more of a call of a tool; its name comes first, and once."""
    if name:
        produced.calls += 1
        produced.note(f"{part}.name", name)
    if arguments:
        produced.note_arguments(part, arguments)


def _note(produced: Produced, index: str, message: _Message) -> None:
    shown = message.reasoning_content or message.reasoning
    texts = {"content": message.content, "refusal": message.refusal, "reasoning": shown}
    for kind, text in texts.items():
        if text:
            produced.note(f"{index}.{kind}", text)
    calls = [call.function for call in message.tool_calls or ()]
    for place, function in enumerate([*calls, message.function_call]):
        if function is not None:
            note_call(produced, f"{index}.tool.{place}", function.name, function.arguments)
