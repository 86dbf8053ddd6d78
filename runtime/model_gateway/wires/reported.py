"""Figures that a provider reports, as far as they can be believed."""

from typing import TypeGuard

# More than any model writes for one request; a provider that reports it is not believed.
OUTPUT_TOKENS_BELIEVED_MAX = 2**31


def whole(value: object) -> TypeGuard[int]:
    """Tell whether a figure is a number of tokens."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
