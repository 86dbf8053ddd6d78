"""What the log of the router keeps of a choice, as bytes and text."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from governor.learning.bandit import Vector
from governor.learning.choice import Option
from governor.learning.likeness import Rows
from runtime.errors import RuntimeFaultError

# The form, how many axes of meaning, how many other numbers, and the step of an axis.
_HEAD = struct.Struct("<BHHf")
_FORM = 1
_STEPS = 127
_BITS = 8


class WrittenError(RuntimeFaultError):
    """What the log keeps of a choice cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenOption:
    """What was expected of a tier when it was chosen or not, and how probable it was."""

    tier: str
    quality: float
    cost_microusd: float
    propensity: float


_decode = msgspec.json.Decoder(tuple[tuple[str, float, float, float], ...]).decode
_encode = msgspec.json.Encoder().encode


def packed(features: Rows, *, meaning_axes: int) -> bytes:
    """Return features as few bytes; a prompt cannot be read from them.

    Meaning is rounded to steps; of the rest, which is mostly nothing, what is there is kept, with
    a bit for each that says whether it is.
    """
    meaning, rest = features[:meaning_axes], features[meaning_axes:]
    largest = float(np.abs(meaning).max(initial=0.0))
    step = largest / _STEPS if largest > 0 else 1.0
    head = _HEAD.pack(_FORM, len(meaning), len(rest), step)
    steps = np.rint(meaning / step).astype(np.int8)
    is_there = rest != 0
    held = rest[is_there].astype("<f2")
    return b"".join((head, steps.tobytes(), np.packbits(is_there).tobytes(), held.tobytes()))


def unpacked(content: bytes) -> Rows:
    """Return the features in these bytes.

    Raises:
        WrittenError: they are none.
    """
    if len(content) < _HEAD.size:
        raise WrittenError
    form, axes, others, step = _HEAD.unpack_from(content)
    bits_at = _HEAD.size + axes
    held_at = bits_at + -(-others // _BITS)
    if form != _FORM or len(content) < held_at:
        raise WrittenError
    bits = np.frombuffer(content, np.uint8, count=held_at - bits_at, offset=bits_at)
    is_there = np.unpackbits(bits, count=others).astype(np.bool_)
    if len(content) != held_at + 2 * int(is_there.sum()):
        raise WrittenError
    found = np.zeros(axes + others, dtype=np.float32)
    found[:axes] = np.frombuffer(content, np.int8, count=axes, offset=_HEAD.size) * step
    found[axes:][is_there] = np.frombuffer(content, "<f2", offset=held_at)
    return found


def options_text(options: Sequence[Option], chances: Vector) -> str:
    """Return what was believed of each tier, and how probable it was, as text."""
    return _encode(
        [
            (one.tier, round(one.quality, 5), round(one.cost_microusd, 2), round(float(chance), 6))
            for one, chance in zip(options, chances, strict=True)
        ]
    ).decode()


def options_of(text: str) -> Mapping[str, WrittenOption]:
    """Return what `options_text` wrote, by tier.

    Raises:
        WrittenError: it is something else.
    """
    try:
        found = _decode(text)
    except msgspec.DecodeError as error:
        raise WrittenError from error
    return {
        tier: WrittenOption(tier=tier, quality=quality, cost_microusd=cost, propensity=chance)
        for tier, quality, cost, chance in found
    }
