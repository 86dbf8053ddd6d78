"""Words of one wire that stand for words of the other: ends, efforts, faults, tokens."""

from collections.abc import Mapping
from typing import Any

_STOP_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
_FINISH_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
# By status where a fault has no name of its own: the word of Anthropic, then of OpenAI.
_FAULTS = {
    400: ("invalid_request_error", "invalid_request_error"),
    401: ("authentication_error", "authentication_error"),
    402: ("billing_error", "insufficient_quota"),
    403: ("permission_error", "permission_error"),
    404: ("not_found_error", "not_found_error"),
    413: ("request_too_large", "invalid_request_error"),
    429: ("rate_limit_error", "rate_limit_error"),
    504: ("timeout_error", "timeout_error"),
    529: ("overloaded_error", "server_error"),
}
_FAILED = ("api_error", "server_error")
_BY_ANTHROPIC = dict((*_FAULTS.values(), _FAILED))


def finish_reason(stop_reason: object) -> str:
    """Return how chat calls the end that messages calls `stop_reason`."""
    return _STOP_REASONS.get(str(stop_reason), "stop")


def stop_reason(finish_reason: object) -> str:
    """Return how messages calls the end that chat calls `finish_reason`."""
    return _FINISH_REASONS.get(str(finish_reason), "end_turn")


def chat_fault(kind: object) -> str:
    """Return what chat calls a fault of Anthropic's `kind`."""
    return _BY_ANTHROPIC.get(str(kind), _FAILED[1])


def messages_fault(status: int) -> str:
    """Return what messages calls the fault of a status."""
    return _FAULTS.get(status, _FAILED)[0]


def chat_usage(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tokens of a message as chat counts them: cached input is input."""
    cached = _count(usage, "cache_read_input_tokens")
    written = _count(usage, "cache_creation_input_tokens")
    prompt = _count(usage, "input_tokens") + cached + written
    completion = _count(usage, "output_tokens")
    counted: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
    }
    details = usage.get("output_tokens_details")
    if isinstance(details, Mapping):
        thought = _count(details, "thinking_tokens")
        counted["completion_tokens_details"] = {"reasoning_tokens": thought}
    return counted


def messages_usage(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tokens of a chat completion as messages counts them: cached input is apart."""
    details = usage.get("prompt_tokens_details")
    details = details if isinstance(details, Mapping) else {}
    prompt = _count(usage, "prompt_tokens")
    cached = min(_count(details, "cached_tokens"), prompt)
    written = min(_count(details, "cache_write_tokens"), prompt - cached)
    counted: dict[str, Any] = {
        "input_tokens": prompt - cached - written,
        "output_tokens": _count(usage, "completion_tokens"),
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": written,
    }
    produced = usage.get("completion_tokens_details")
    if isinstance(produced, Mapping) and _count(produced, "reasoning_tokens"):
        thought = _count(produced, "reasoning_tokens")
        counted["output_tokens_details"] = {"thinking_tokens": thought}
    return counted


def _count(usage: Mapping[str, Any], name: str) -> int:
    value = usage.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
