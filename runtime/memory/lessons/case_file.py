"""What was learned of cases as bytes: JSON, for it is a hundred numbers."""

from collections.abc import Mapping

import msgspec
import numpy as np

from governor.learning.bandit import ArmSums


class _Arm(msgspec.Struct, frozen=True):
    seen: list[list[float]]
    earned: list[float]
    evidence: float
    period: int


_read = msgspec.json.Decoder(dict[str, _Arm]).decode


def packed(arms: Mapping[str, ArmSums]) -> bytes:
    """Return what is known of arms as bytes."""
    return msgspec.json.encode(
        {
            name: _Arm(
                seen=one.seen.tolist(),
                earned=one.earned.tolist(),
                evidence=one.evidence,
                period=one.period,
            )
            for name, one in arms.items()
        }
    )


def unpacked(content: bytes | None, *, axes: int) -> dict[str, ArmSums]:
    """Return what bytes say of arms; of what was learned of other traits, nothing."""
    if content is None:
        return {}
    return {
        name: ArmSums(
            seen=np.array(one.seen),
            earned=np.array(one.earned),
            evidence=one.evidence,
            period=one.period,
        )
        for name, one in _read(content).items()
        if len(one.earned) == axes
    }
