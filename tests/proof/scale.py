"""How much of a proof is run: all of it, or the small part that finds a seeded bug."""

import os

SCALE_VARIABLE = "FLYBALL_PROOF_SCALE"
IS_SCALED = SCALE_VARIABLE in os.environ


def scaled(count: int) -> int:
    """Return `count`, or the share of it that the environment asks for."""
    return max(1, int(count * float(os.environ.get(SCALE_VARIABLE, "1"))))
