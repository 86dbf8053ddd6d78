"""An effort written into a request, in the parameter that its tier's provider takes.

The parameters as the providers state them: `reasoning_effort` of chat completions and
`reasoning.effort` of responses (OpenAI's API reference; models differ in the levels they take),
`thinking.budget_tokens` from 1,024 and below `max_tokens`, with the temperature left alone, no
`top_k` and no forced tool (Anthropic, extended thinking), `output_config.effort` beside adaptive
thinking (Anthropic, effort), `chat_template_kwargs.enable_thinking` with
`thinking_budget_tokens` (llama.cpp's server) or `thinking_token_budget` (vLLM, reasoning
outputs), `enable_thinking` with `thinking_budget` (Qwen's own service), and `reasoning_effort`
again for Gemini, where a level stands for a number of tokens.
"""

from dataclasses import dataclass
from typing import Any

from governor.effort import Effort, EffortLevel, EffortStyle, EffortTarget, target_of
from governor.tiers import ModelTier
from runtime.model_gateway.model_request import ModelRequest, WireName
from runtime.router.conversation import with_fields, with_output_max

_WIRES = {
    EffortStyle.OPENAI: (WireName.OPENAI_CHAT, WireName.OPENAI_RESPONSES),
    EffortStyle.GEMINI: (WireName.OPENAI_CHAT,),
    EffortStyle.ANTHROPIC_BUDGET: (WireName.ANTHROPIC_MESSAGES,),
    EffortStyle.ANTHROPIC_EFFORT: (WireName.ANTHROPIC_MESSAGES,),
    EffortStyle.LLAMA_CPP: (WireName.OPENAI_CHAT,),
    EffortStyle.VLLM: (WireName.OPENAI_CHAT,),
    EffortStyle.QWEN: (WireName.OPENAI_CHAT,),
}
# Whichever of these a client sets says how hard the model is to think: that is not overruled.
_CLIENTS_OWN = (
    "reasoning_effort",
    "reasoning",
    "thinking",
    "thinking_budget",
    "thinking_budget_tokens",
    "thinking_token_budget",
    "enable_thinking",
)
_TOP_P_MIN = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A request with what was written into it, the words for why, and whether it was told."""

    request: ModelRequest
    why: str = ""
    is_told: bool = False


def with_effort(
    request: ModelRequest, tier: ModelTier, effort: Effort, *, usual_tokens: int | None
) -> Written:
    """Return the request with an effort in the terms of its tier; why says what became of it."""
    own = effort_of_client(request)
    if own is not None:
        return Written(request=request, why=f"effort: the client's own {own} stands")
    style = _style_on(request.wire, tier.effort_style)
    if request.wire not in _WIRES.get(style, ()):
        own_style = tier.effort_style
        why = f"takes none on this wire ({own_style.value})"
        if own_style is EffortStyle.NONE:
            why = "has no effort_style"
        return Written(request=request, why=f"effort: the tier {why}, nothing is sent")
    target = target_of(
        effort,
        style=style,
        levels=tier.effort_levels,
        usual_tokens=usual_tokens,
        output_tokens_asked=request.output_tokens_asked,
        output_tokens_max=tier.output_tokens_max,
    )
    assert target is not None, "a style with a wire has a target"
    if style is EffortStyle.ANTHROPIC_BUDGET and not target.is_off:
        against = _against_thinking(request)
        if against is not None:
            why = f"effort: {against} goes with no thinking, nothing is sent"
            return Written(request=request, why=why)
    changed = with_fields(request, _fields_for(request, style, target))
    if target.output_tokens_max is not None:
        changed = with_output_max(changed, target.output_tokens_max)
    return Written(request=changed, why=f"effort: {_said(effort, target)}", is_told=True)


def _style_on(wire: WireName, style: EffortStyle) -> EffortStyle:
    """Return how an effort is said on a client's wire, where it is translated for the tier.

    Between chat completions and messages, levels are what a translation carries over.
    """
    if wire is WireName.OPENAI_CHAT and style is EffortStyle.ANTHROPIC_EFFORT:
        return EffortStyle.OPENAI
    if wire is WireName.ANTHROPIC_MESSAGES and style is EffortStyle.OPENAI:
        return EffortStyle.ANTHROPIC_EFFORT
    return style


def effort_of_client(request: ModelRequest) -> str | None:
    """Return the name of the field by which a client itself set an effort; None without one."""
    fields = request.fields
    for name in _CLIENTS_OWN:
        if fields.get(name) is not None:
            # A summary of the reasoning is no word on how much there is to be.
            if name == "reasoning" and not _says_how_hard(fields[name]):
                continue
            return name
    template = fields.get("chat_template_kwargs")
    if isinstance(template, dict) and template.keys() & {"enable_thinking", "thinking_budget"}:
        return "chat_template_kwargs"
    config = fields.get("output_config")
    if isinstance(config, dict) and config.get("effort") is not None:
        return "output_config.effort"
    return None


def _says_how_hard(reasoning: object) -> bool:
    return not isinstance(reasoning, dict) or bool(
        reasoning.keys() & {"effort", "max_tokens", "enabled"}
    )


def _against_thinking(request: ModelRequest) -> str | None:
    """Return what of the request Anthropic refuses beside a budget to think."""
    fields = request.fields
    choice, top_p = fields.get("tool_choice"), fields.get("top_p")
    messages = fields.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else None
    if not isinstance(last, dict):
        last = {}
    against = {
        "a forced tool": isinstance(choice, dict) and choice.get("type") in ("any", "tool"),
        "a temperature": fields.get("temperature") not in (None, 1),
        "top_k": fields.get("top_k") is not None,
        "a top_p below 0.95": isinstance(top_p, (int, float)) and top_p < _TOP_P_MIN,
        "an answer that is begun": last.get("role") == "assistant",
        # What was said to use a tool was said without thinking, and is gone on with so.
        "a tool's result": _holds_result(last),
    }
    return next((name for name, is_so in against.items() if is_so), None)


def _holds_result(turn: dict[str, Any]) -> bool:
    content = turn.get("content")
    parts = content if isinstance(content, list) else ()
    return any(isinstance(part, dict) and part.get("type") == "tool_result" for part in parts)


def _fields_for(request: ModelRequest, style: EffortStyle, target: EffortTarget) -> dict[str, Any]:
    """Return the fields that say an effort; what stands beside it in them is kept."""
    if target.level is not None:
        return _level_fields(request, style, target.level)
    thinks, tokens = not target.is_off, target.thinking_tokens
    template = request.fields.get("chat_template_kwargs") or {}
    switched = {"chat_template_kwargs": {**template, "enable_thinking": thinks}}
    switches: dict[EffortStyle, tuple[dict[str, Any], dict[str, Any]]] = {
        EffortStyle.ANTHROPIC_BUDGET: (
            {"thinking": {"type": "disabled"}},
            {"thinking": {"type": "enabled", "budget_tokens": tokens}},
        ),
        EffortStyle.QWEN: (
            {"enable_thinking": False},
            {"enable_thinking": True, "thinking_budget": tokens},
        ),
        EffortStyle.VLLM: (switched, {**switched, "thinking_token_budget": tokens}),
        EffortStyle.LLAMA_CPP: (switched, {**switched, "thinking_budget_tokens": tokens}),
    }
    off, on = switches[style]
    return on if thinks else off


def _level_fields(request: ModelRequest, style: EffortStyle, level: EffortLevel) -> dict[str, Any]:
    if style is EffortStyle.ANTHROPIC_EFFORT:
        name = "output_config"
    elif request.wire is WireName.OPENAI_RESPONSES:
        name = "reasoning"
    else:
        return {"reasoning_effort": level.value}
    return {name: {**(request.fields.get(name) or {}), "effort": level.value}}


def _said(effort: Effort, target: EffortTarget) -> str:
    if target.is_off:
        return "no thinking"
    if target.level is not None:
        word = "low as can be" if target.level is EffortLevel.NONE else target.level.value
        return f"{effort.fraction:g} of the usual is {word}"
    return f"{effort.fraction:g} of the usual is {target.thinking_tokens} tokens"
