"""How much a model may still write where it may not write all that was asked for."""

from governor.amounts import Unit
from governor.denial import Denied, Shortage
from governor.pricing import ModelPrice

_PARTS_PER_MICROUSD = 1_000_000
# What a cheaper model may need less of.
_DEAR = frozenset({Unit.COST_MICROUSD, Unit.INPUT_TOKENS, Unit.OUTPUT_TOKENS})


def is_too_dear(denied: Denied) -> bool:
    """Tell whether a call was denied for nothing but its money and its tokens."""
    if denied.shortage is None:
        return False
    return all(short.unit in _DEAR for short in (denied.shortage, *denied.also))


def affordable_output(
    denied: Denied, price: ModelPrice, *, input_tokens: int, choices: int
) -> int | None:
    """Return how many tokens each of `choices` may have for every short budget to cover the call.

    None where fewer tokens of output help nothing: something else is short as well.
    """
    if denied.shortage is None:
        return None
    short = (denied.shortage, *denied.also)
    bounds = [_bound(each, price, input_tokens=input_tokens) for each in short]
    known = [bound for bound in bounds if bound is not None]
    return None if len(known) < len(bounds) else max(0, min(known)) // choices


def _bound(short: Shortage, price: ModelPrice, *, input_tokens: int) -> int | None:
    if short.unit is Unit.OUTPUT_TOKENS:
        return short.remaining
    if short.unit is not Unit.COST_MICROUSD or price.output_microusd_per_mtok == 0:
        return None
    left = short.remaining * _PARTS_PER_MICROUSD - input_tokens * price.input_microusd_per_mtok
    return left // price.output_microusd_per_mtok
