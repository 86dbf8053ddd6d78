"""No hostile call outlives, escapes or harms its sidecar on control groups of version 2."""

import anyio
import pytest
from drawn import SEED

from ebpf.capability import BackendKind, probe_host
from tests.kernel.hostile import be_hostile, hostile_folder

pytestmark = [pytest.mark.kernel, pytest.mark.slow, pytest.mark.anyio]

CALLS = 60
SECONDS_MAX = 100


@pytest.mark.requirement("process.none-escapes-its-call")
async def test_no_call_survives_escapes_or_leaves_anything() -> None:
    assert probe_host().backend is BackendKind.V2

    with anyio.fail_after(SECONDS_MAX), hostile_folder() as folder:
        tally = await be_hostile(folder, calls=CALLS, seed=SEED, force_rlimit=False)

    assert tally.harm == [], f"seed {SEED}"
    assert tally.calls == CALLS + 1
