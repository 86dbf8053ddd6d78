"""The bytes that what a bank learned is kept in between two lessons."""

from hashlib import sha256

import msgspec

from governor.experience.sharing import Sharing, nothing_known
from governor.ids import PrincipalId
from governor.learning.averages import Average
from runtime.router import learned_file
from runtime.router.learned_file import LearnedFileError
from tool_gateway.telemetry import count_failure

_MODEL = "memory-sharing-1"
_DIGEST_BYTES = 32


class _Writer(msgspec.Struct, frozen=True, array_like=True):
    mean: float
    weight: float


class _File(msgspec.Struct, frozen=True, array_like=True):
    learned: bytes
    writers: dict[str, _Writer]


_decode = msgspec.msgpack.Decoder(_File).decode
_encode = msgspec.msgpack.Encoder().encode


def packed(state: Sharing) -> bytes:
    """Return what a bank learned as bytes, with a checksum before them."""
    learned = learned_file.packed(learned_file.KeptLearning(model=_MODEL, bandit=state.bandit))
    writers = {
        str(name): _Writer(mean=one.mean, weight=one.weight) for name, one in state.writers.items()
    }
    body = _encode(_File(learned=learned, writers=writers))
    return sha256(body).digest() + body


def unpacked(content: bytes | None, *, salt: str) -> Sharing:
    """Return what a bank learned; where nothing can be read, it is counted and begins anew."""
    fresh = nothing_known(salt)
    if content is None:
        return fresh
    digest, body = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    try:
        file = _decode(body if sha256(body).digest() == digest else b"")
        known = learned_file.unpacked(file.learned, terms=fresh.bandit.terms, model=_MODEL)
    except (LearnedFileError, msgspec.DecodeError):
        count_failure("memory sharing")
        return fresh
    return Sharing(
        bandit=known.bandit,
        salt=salt,
        writers={
            PrincipalId(name): Average(mean=one.mean, weight=one.weight)
            for name, one in file.writers.items()
        },
    )
