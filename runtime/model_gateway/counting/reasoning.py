"""Whether a model may write tokens in a call that nobody is shown."""

from fnmatch import fnmatchcase

from governor.tiers import ModelTier
from runtime.model_gateway.measured import Produced
from runtime.model_gateway.model_request import Payload

# Members of a request that ask for reasoning, in one wire format or another.
_ASKS = ("reasoning_effort", "reasoning", "thinking", "enable_thinking", "thinking_budget")
_ASKS_NOT = frozenset({"none", "disabled", "off"})
# Models that reason without being asked and show nothing of it, or a summary.
_KNOWN = (
    *("o[1-9]", "o[1-9]-*", "gpt-[5-9]*", "codex-*", "computer-use-*"),
    *("gemini-2.5*", "gemini-[3-9]*", "grok-3-mini*", "grok-[4-9]*"),
)


def may_reason_hidden(produced: Produced, payload: Payload, tier: ModelTier) -> bool:
    """Tell whether a call may be billed for reasoning that its answer does not hold.

    What the tier says counts; else whether the model was seen to reason, is known to do so
    without being asked, or was asked to, by the client or on the way to the provider.
    """
    if tier.hidden_reasoning is not None:
        return tier.hidden_reasoning
    if produced.hides:
        return True
    fields = payload.request.fields
    for name in _ASKS:
        if _asks(fields[name]) if name in fields else b'"%b":' % name.encode() in payload.content:
            return True
    plain = tier.model.lower().rpartition("/")[2]
    return any(fnmatchcase(plain, pattern) for pattern in _KNOWN)


def _asks(value: object) -> bool:
    if isinstance(value, dict):
        said = value.get("type", value.get("effort"))
        return said is None or said not in _ASKS_NOT
    return value not in (None, False, 0) and value not in _ASKS_NOT
