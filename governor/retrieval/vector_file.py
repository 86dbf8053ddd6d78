"""The bytes that word vectors are kept in.

Little-endian: eight bytes that name the format, then three counts of four bytes each (pieces,
axes, bytes of the vocabulary), the vocabulary one piece a line, a step's size for each piece as
a float of four bytes, and the steps, a signed byte each, piece by piece. Each part begins at a
multiple of 64, so that the arrays can be used where they lie, in a file mapped into memory.
"""

import struct
from collections.abc import Sequence

import numpy as np

from governor.errors import InvalidVectorsError
from governor.retrieval.vectors import Scales, StaticVectors, Steps
from governor.retrieval.wordpiece import WordPieces

_FORMAT = b"FLYVEC01"
_COUNTS = struct.Struct("<8sIII")
_ALIGNMENT = 64
_PIECES_MAX = 1_000_000
_AXES_MAX = 4_096
_SCALE_BYTES = 4


def packed(pieces: Sequence[str], *, steps: Steps, scales: Scales) -> bytes:
    """Return the file of these pieces and their vectors."""
    vocabulary = "\n".join(pieces).encode()
    counts = _COUNTS.pack(_FORMAT, len(pieces), steps.shape[1], len(vocabulary))
    parts = (counts, vocabulary, scales.astype("<f4").tobytes(), steps.astype("i1").tobytes())
    return b"".join(part.ljust(_aligned(len(part)), b"\0") for part in parts)


def unpacked(file: bytes | memoryview) -> StaticVectors:
    """Return the vectors in a file; they go on reading `file`, which must not change.

    Raises:
        InvalidVectorsError: the bytes are no such file, or not all of it.
    """
    whole = memoryview(file)
    if len(whole) < _COUNTS.size:
        raise InvalidVectorsError("it is shorter than its counts")
    name, total, axes, vocabulary_bytes = _COUNTS.unpack_from(whole)
    if name != _FORMAT:
        raise InvalidVectorsError(f"it begins with {name!r}, not {_FORMAT!r}")
    if not (0 < total <= _PIECES_MAX and 0 < axes <= _AXES_MAX):
        raise InvalidVectorsError(f"{total} pieces of {axes} axes are out of range")
    words_at = _aligned(_COUNTS.size)
    scales_at = words_at + _aligned(vocabulary_bytes)
    steps_at = scales_at + _aligned(total * _SCALE_BYTES)
    if len(whole) != steps_at + _aligned(total * axes):
        raise InvalidVectorsError(f"{len(whole)} bytes do not hold {total} pieces of {axes} axes")
    numbers = _numbers(bytes(whole[words_at : words_at + vocabulary_bytes]), total)
    scales = np.frombuffer(whole, "<f4", count=total, offset=scales_at)
    steps = np.frombuffer(whole, np.int8, count=total * axes, offset=steps_at)
    return StaticVectors(
        pieces=WordPieces(numbers), steps=steps.reshape(total, axes), scales=scales
    )


def _numbers(vocabulary: bytes, total: int) -> dict[str, int]:
    try:
        pieces = vocabulary.decode().split("\n")
    except UnicodeDecodeError as error:
        raise InvalidVectorsError("its vocabulary is not UTF-8") from error
    numbers = {piece: number for number, piece in enumerate(pieces)}
    if len(pieces) != total or len(numbers) != total:
        raise InvalidVectorsError(f"its vocabulary has {len(numbers)} pieces, not {total}")
    return numbers


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
