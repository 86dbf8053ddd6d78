"""A request for a chat completion, as Anthropic's messages ask for the same."""

from collections.abc import Mapping, Sequence
from typing import Any

from runtime.model_gateway.errors import InvalidRequestError
from runtime.model_gateway.translation.content import Block, blocks_of
from runtime.model_gateway.translation.refusing import refuse_untold, rows, untold
from runtime.model_gateway.translation.tools import called, messages_choice, messages_tools

_TOLD = frozenset(
    {
        *("model", "messages", "stream", "temperature", "top_p", "stop", "user"),
        *("max_completion_tokens", "max_tokens", "tools", "tool_choice", "parallel_tool_calls"),
        *("response_format", "reasoning_effort", "safety_identifier"),
        # Neither the answer nor its price depends on these.
        *("stream_options", "store", "metadata", "prompt_cache_key", "prompt_cache_retention"),
        *("prompt_cache_options",),
    }
)
_NEUTRAL: Mapping[str, Sequence[object]] = {
    "n": (1,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "logit_bias": ({},),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "modalities": (["text"],),
    "verbosity": ("medium",),
    "service_tier": ("auto", "default"),
    "functions": ([],),
    "enable_search": (False,),
    "models": ([],),
    "plugins": ([],),
    "mcp_servers": ([],),
}
_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_INSTRUCTING = frozenset({"system", "developer"})
_TOLD_OF_MESSAGE = frozenset({"role", "content", "tool_calls", "tool_call_id", "refusal"})
# What providers put into answers, and clients send back with the conversation.
_FROM_ANSWERS = frozenset({"annotations", "reasoning_content", "reasoning"})
# The call that a tool answers names the function already.
_TOLD_BY_THE_CALL = frozenset({"name"})
_NOBODY_SPEAKS = (
    "messages: at least one of them has to say something to the model; an empty text is nothing "
    "to the provider that serves this tier."
)
_TEMPERATURE_MAX = 1

Fields = dict[str, Any]


def messages_request(chat: Mapping[str, Any], *, output_tokens_max: int) -> Fields:
    """Return the request in messages' fields; `output_tokens_max` is for one that names none.

    Raises:
        InvalidRequestError: a field cannot be said there.
    """
    refuse_untold(chat, told=_TOLD, neutral=_NEUTRAL)
    system, turns = _conversation(chat["messages"])
    if not turns:
        raise InvalidRequestError(_NOBODY_SPEAKS, param="messages")
    fields: Fields = {
        "model": chat["model"],
        "max_tokens": chat.get("max_completion_tokens")
        or chat.get("max_tokens")
        or output_tokens_max,
        "messages": turns,
    }
    if system:
        fields["system"] = system
    for name in ("stream", "top_p"):
        if chat.get(name) is not None:
            fields[name] = chat[name]
    return {**fields, **_sampling(chat), **_tools(chat), **_output(chat)}


def _sampling(chat: Mapping[str, Any]) -> Fields:
    fields: Fields = {}
    temperature = chat.get("temperature")
    if temperature is not None:
        if isinstance(temperature, (int, float)) and temperature > _TEMPERATURE_MAX:
            raise untold("temperature", f"above {_TEMPERATURE_MAX} cannot be said")
        fields["temperature"] = temperature
    stop = chat.get("stop")
    if stop:
        fields["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    user = chat.get("safety_identifier") or chat.get("user")
    if user is not None:
        fields["metadata"] = {"user_id": user}
    return fields


def _tools(chat: Mapping[str, Any]) -> Fields:
    tools = rows(chat.get("tools"), where="tools")
    if not tools:
        return {}
    fields: Fields = {"tools": messages_tools(tools)}
    is_parallel = chat.get("parallel_tool_calls") is not False
    choice = messages_choice(chat.get("tool_choice"), is_parallel=is_parallel)
    if choice is not None:
        fields["tool_choice"] = choice
    return fields


def _output(chat: Mapping[str, Any]) -> Fields:
    """Return how the answer is to be shaped and thought about."""
    told: Fields = {}
    fields: Fields = {}
    match chat.get("response_format"):
        case None | {"type": "text"}:
            pass
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            told["format"] = {"type": "json_schema", "schema": schema}
        case _:
            raise untold("response_format", "without a schema cannot be said")
    effort = chat.get("reasoning_effort")
    if effort == "none":
        fields["thinking"] = {"type": "disabled"}
    elif effort is not None:
        # There is no less than low, except not to think at all.
        told["effort"] = "low" if effort == "minimal" else effort
        if told["effort"] not in _EFFORTS:
            raise untold("reasoning_effort")
    if told:
        fields["output_config"] = told
    return fields


def _conversation(messages: object) -> tuple[list[Block], list[Fields]]:
    """Return the opening instructions, and the turns after them."""
    system: list[Block] = []
    turns: list[Fields] = []
    for at, message in enumerate(rows(messages, where="messages")):
        where, role = f"messages.{at}", str(message.get("role"))
        refuse_untold(
            message,
            told=_told_of(role),
            neutral={"tool_calls": ([],)},
            within=f"{where}.",
        )
        if role in _INSTRUCTING:
            told = blocks_of(message.get("content"), where=f"{where}.content", is_text_alone=True)
            if turns:
                _add(turns, "system", told)
            else:
                system += told
        else:
            _add(turns, _speaker(role, where), _said(message, where))
    if turns and turns[-1]["role"] == "assistant":
        raise untold("messages", "that end with the assistant's own words cannot be said")
    return system, turns


def _told_of(role: str) -> frozenset[str]:
    told = _TOLD_OF_MESSAGE | _FROM_ANSWERS
    return told | _TOLD_BY_THE_CALL if role == "tool" else told


def _speaker(role: str, where: str) -> str:
    if role in ("user", "assistant"):
        return role
    if role == "tool":
        return "user"
    raise untold(f"{where}.role")


def _said(message: Mapping[str, Any], where: str) -> list[Block]:
    """Return what a user, a model or a tool says, as blocks."""
    role, content = message.get("role"), message.get("content")
    if role == "tool":
        said = blocks_of(content, where=f"{where}.content", is_text_alone=True)
        result: Block = {"type": "tool_result", "tool_use_id": message.get("tool_call_id")}
        return [{**result, "content": said} if said else result]
    said = blocks_of(content, where=f"{where}.content", is_text_alone=role == "assistant")
    if role == "assistant":
        said += blocks_of(message.get("refusal"), where=f"{where}.refusal")
        for at, call in enumerate(rows(message.get("tool_calls"), where=f"{where}.tool_calls")):
            said.append(called(call, where=f"{where}.tool_calls.{at}"))
    return said


def _add(turns: list[Fields], role: str, said: list[Block]) -> None:
    """Add to the turns; what one side says in a row is one turn."""
    if not said:
        return
    if turns and turns[-1]["role"] == role:
        turns[-1]["content"] += said
    else:
        turns.append({"role": role, "content": said})
