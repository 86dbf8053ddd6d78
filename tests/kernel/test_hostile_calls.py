"""No hostile call outlives, escapes or harms its sidecar, whoever that runs as."""

import anyio
import pytest
from drawn import SEED

from tests.kernel.hostile import NoInterpreterError, be_hostile, be_hostile_as, hostile_folder
from tests.kernel.hostile_kinds import KINDS
from tests.kernel.other_user import NOBODY

pytestmark = [pytest.mark.kernel, pytest.mark.slow, pytest.mark.usefixtures("host")]

# `make prove PART=hostile` makes a thousand of them on each side.
CALLS = 120
SECONDS_MAX = 100


@pytest.mark.anyio
@pytest.mark.requirement("process.none-escapes-its-call")
async def test_no_call_of_a_sidecar_that_is_root_survives_escapes_or_leaves_anything() -> None:
    with anyio.fail_after(SECONDS_MAX), hostile_folder() as folder:
        tally = await be_hostile(folder, calls=CALLS, seed=SEED, force_rlimit=False)

    assert tally.harm == [], f"seed {SEED}"
    assert tally.calls == CALLS + 1
    assert {"exited", "memory", "output", "signalled", "wall"} <= tally.causes.keys()


@pytest.mark.anyio
@pytest.mark.requirement("process.none-escapes-its-call")
async def test_no_call_of_a_sidecar_that_is_not_root_survives_escapes_or_leaves_anything() -> None:
    try:
        with anyio.fail_after(SECONDS_MAX):
            tally = await be_hostile_as(NOBODY, calls=CALLS, seed=SEED)
    except NoInterpreterError:
        pytest.skip("no Python 3.11 that another user can run finds the packages")

    assert tally.harm == [], f"seed {SEED}"
    assert tally.calls == CALLS + 1


def test_each_kind_of_hostility_has_a_name_of_its_own() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS) >= 25
