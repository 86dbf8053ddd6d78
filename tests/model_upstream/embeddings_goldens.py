"""Answers to requests for embeddings, which are never streamed."""

import base64
import struct
from collections.abc import Sequence


def embeddings(
    *vectors: Sequence[float], input_tokens: int = 8, in_base64: bool = False
) -> dict[str, object]:
    """Return a whole answer; in base64 as the official client asks for it unless told."""
    data = [
        {"object": "embedding", "index": index, "embedding": _written(vector, in_base64=in_base64)}
        for index, vector in enumerate(vectors)
    ]
    return {
        "object": "list",
        "data": data,
        "model": "text-embedding-3-small",
        "usage": {"prompt_tokens": input_tokens, "total_tokens": input_tokens},
    }


def _written(vector: Sequence[float], *, in_base64: bool) -> object:
    if not in_base64:
        return list(vector)
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
