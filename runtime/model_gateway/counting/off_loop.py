"""Counting beside the loop: a tokenizer takes its time, which other calls need not wait for."""

from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.to_thread

from governor.tiers import ModelTier
from runtime.model_gateway.counting.tokenizer import TOKENIZERS
from runtime.model_gateway.errors import TokenizerError

T = TypeVar("T")


async def loaded(tier: ModelTier) -> None:
    """Wait until the tokenizer of a tier was loaded, or could not be: only its first call does."""
    path = tier.tokenizer
    if path is None or TOKENIZERS.is_known(path):
        return
    try:
        await anyio.to_thread.run_sync(TOKENIZERS.load, path)
    except TokenizerError:
        # Whoever needs it is told that it cannot be used.
        return


async def counted(tier: ModelTier, count: Callable[[], T]) -> T:
    """Return what `count` returns, in a thread where the tier's tokenizer may be used.

    A call that was taken back is counted all the same, which is bounded by its text.
    """
    if tier.tokenizer is None:
        return count()
    with anyio.CancelScope(shield=True) as shielded:
        found = await anyio.to_thread.run_sync(count)
    assert not shielded.cancelled_caught, "nobody cancels it from inside"
    return found
