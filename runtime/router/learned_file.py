"""The bytes that a bandit and what stands beside it are kept in between two lessons."""

from dataclasses import dataclass, field
from hashlib import sha256

import msgspec
import numpy as np

from governor.learning.bandit import ARMS_MAX, ArmSums, Bandit, BanditTerms, Vector
from governor.learning.drift import DriftWatch
from governor.learning.online import NOBODY_SPOKE, Influence
from runtime.errors import RuntimeFaultError

_FORM = 1
_DIGEST_BYTES = 32


class LearnedFileError(RuntimeFaultError):
    """What a bandit has learned cannot be read; it begins anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLearning:
    """What was learned beside a model: corrections, drifts, and whose word counted how much."""

    model: str
    bandit: Bandit
    watches: dict[str, DriftWatch] = field(default_factory=dict)
    influence: Influence = NOBODY_SPOKE
    capped: int = 0
    last_drift_at_ms: int | None = None


class _Arm(msgspec.Struct, frozen=True, array_like=True):
    name: str
    seen: bytes
    earned: bytes
    evidence: float
    period: int


class _Watch(msgspec.Struct, frozen=True, array_like=True):
    tier: str
    heard: int
    mean: float
    up: float
    down: float
    drifts: int


class _File(msgspec.Struct, frozen=True, array_like=True):
    form: int
    model: str
    dimensions: int
    arms: list[_Arm]
    watches: list[_Watch]
    spent: dict[str, float]
    capped: int
    last_drift_at_ms: int | None


_decode = msgspec.msgpack.Decoder(_File).decode
_encode = msgspec.msgpack.Encoder().encode


def packed(learned: KeptLearning) -> bytes:
    """Return what was learned as bytes, with a checksum before them."""
    body = _encode(
        _File(
            form=_FORM,
            model=learned.model,
            dimensions=learned.bandit.terms.dimensions,
            arms=[
                _Arm(
                    name=name,
                    seen=sums.seen.astype("<f8").tobytes(),
                    earned=sums.earned.astype("<f8").tobytes(),
                    evidence=sums.evidence,
                    period=sums.period,
                )
                for name, sums in learned.bandit.arms.items()
            ],
            watches=[
                _Watch(
                    tier=tier,
                    heard=watch.heard,
                    mean=watch.mean,
                    up=watch.up,
                    down=watch.down,
                    drifts=watch.drifts,
                )
                for tier, watch in learned.watches.items()
            ],
            spent=dict(learned.influence.spent),
            capped=learned.capped,
            last_drift_at_ms=learned.last_drift_at_ms,
        )
    )
    return sha256(body).digest() + body


def unpacked(content: bytes, *, terms: BanditTerms, model: str) -> KeptLearning:
    """Return what was learned beside `model`.

    Raises:
        LearnedFileError: the bytes are damaged, of another model, or of another kind.
    """
    digest, body = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if sha256(body).digest() != digest:
        raise LearnedFileError("what a bandit has learned is damaged; it begins anew")
    try:
        file = _decode(body)
    except msgspec.DecodeError as error:
        raise LearnedFileError("what a bandit has learned is of another kind") from error
    if (file.form, file.model, file.dimensions) != (_FORM, model, terms.dimensions):
        raise LearnedFileError("what a bandit has learned is of another model; it begins anew")
    if len(file.arms) > ARMS_MAX:
        raise LearnedFileError(f"a bandit has learned of more than {ARMS_MAX} tiers")
    arms = {arm.name: _sums(arm, terms.dimensions) for arm in file.arms}
    return KeptLearning(
        model=model,
        bandit=Bandit(terms, arms),
        watches={
            one.tier: DriftWatch(
                heard=one.heard, mean=one.mean, up=one.up, down=one.down, drifts=one.drifts
            )
            for one in file.watches
        },
        influence=Influence(spent=file.spent),
        capped=file.capped,
        last_drift_at_ms=file.last_drift_at_ms,
    )


def _sums(arm: _Arm, size: int) -> ArmSums:
    return ArmSums(
        seen=_floats(arm.seen, size * size).reshape(size, size),
        earned=_floats(arm.earned, size),
        evidence=arm.evidence,
        period=arm.period,
    )


def _floats(content: bytes, count: int) -> Vector:
    found = np.frombuffer(content, "<f8")
    if len(found) != count or not np.isfinite(found).all():
        raise LearnedFileError("what a bandit has learned is not all there; it begins anew")
    return found.astype(np.float64)
