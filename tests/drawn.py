"""The number from which tests draw: the same in each run, so that no run fails by chance alone.

`TESTS_SEED=random pytest …` draws another one, and so does `make prove`, which is where what few
draws meet is looked for; `TESTS_SEED=7` draws as a run did that named 7.
"""

import os
import random

VARIABLE = "TESTS_SEED"
_USUAL = 20_261_122


def _drawn() -> int:
    said = os.environ.get(VARIABLE, "")
    return random.SystemRandom().randrange(2**31) if said == "random" else int(said or _USUAL)


SEED = _drawn()
