"""What an experience is found by, made of its content: words, a vector, traits, its length."""

from functools import partial

import anyio.to_thread
import numpy as np

from governor.experience.experience import Draft
from governor.experience.tokens import tokens_of_bytes
from governor.retrieval.analysis import TEXT_CHARS_MAX, index_terms, traits_of
from governor.retrieval.vectors import StaticVectors
from memory_store.experiences.values import Indexed

# A longer text is cut into words beside the loop, so that nobody waits for it.
_AT_ONCE_BYTES = 8_192


async def indexed(draft: Draft, vectors: StaticVectors | None, *, said: str = "") -> Indexed:
    """Return a draft with what it is found by; `said` are words of its writer about it."""
    if len(draft.content) <= _AT_ONCE_BYTES:
        return _indexed(draft, vectors, said=said)
    return await anyio.to_thread.run_sync(partial(_indexed, draft, vectors, said=said))


def text_of(content: bytes) -> str | None:
    """Return a content as the text that it is, None where it is none."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _indexed(draft: Draft, vectors: StaticVectors | None, *, said: str) -> Indexed:
    text = text_of(draft.content)
    words = "\n".join(filter(None, (said, " ".join(draft.tags))))
    if text is None:
        found_by = f"{draft.summary}\n{words}"
    elif len(text) > TEXT_CHARS_MAX:
        found_by = f"{draft.summary}\n{words}\n{text}"
    else:
        found_by = f"{text}\n{words}" if words else text
    vector = None if vectors is None else vectors.embed(found_by[:TEXT_CHARS_MAX])
    return Indexed(
        draft=draft,
        terms=index_terms(found_by),
        vector=None if vector is None else vector.astype(np.dtype("<f2")).tobytes(),
        traits=traits_of(found_by),
        tokens=tokens_of_bytes(draft.content),
    )
