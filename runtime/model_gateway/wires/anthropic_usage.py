"""Anthropic's usage figures, and what they say of a payload."""

from collections.abc import Mapping

from runtime.model_gateway.measured import Measured, Metered, Unmeasured
from runtime.model_gateway.wires.reported import OUTPUT_TOKENS_BELIEVED_MAX, whole

# Of the input each counts a part of its own: what was read anew, from the cache, and into it.
_FRESH, _READ, _WRITTEN = "input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"
_OUTPUT = "output_tokens"
FIGURES = (_FRESH, _READ, _WRITTEN, _OUTPUT)


def figures_in(reported: object) -> dict[str, int] | None:
    """Return the figures of a usage object, None where one of them is no number of tokens."""
    if reported is None:
        return {}
    if not isinstance(reported, Mapping):
        return None
    figures: dict[str, int] = {}
    for name in FIGURES:
        value = reported.get(name)
        if value is None:
            continue
        if not whole(value):
            return None
        figures[name] = value
    return figures


def metered(figures: Mapping[str, int] | None, *, input_tokens_max: int | None) -> Metered:
    """Return what the figures say, if they can be true; without a bound any input can.

    More output than was allowed is believed: it is on the provider's bill.
    """
    if figures is None:
        return Unmeasured(why="the provider's usage is not in whole tokens")
    if _OUTPUT not in figures or _FRESH not in figures:
        return Unmeasured(why="the provider reported no usage")
    read, written = figures.get(_READ, 0), figures.get(_WRITTEN, 0)
    total = figures[_FRESH] + read + written
    if total == 0 or (input_tokens_max is not None and total > input_tokens_max):
        return Unmeasured(why=f"the provider reported input tokens outside 1..{input_tokens_max}")
    if figures[_OUTPUT] > OUTPUT_TOKENS_BELIEVED_MAX:
        return Unmeasured(why="the provider reported more output than any model writes")
    return Measured(
        input_tokens=total,
        output_tokens=figures[_OUTPUT],
        cached_tokens=read,
        cache_write_tokens=written,
    )
