"""The administration answers whatever is sent to it as its description says."""

import pytest
from drawn import SEED

from tests.runtime.admin.admin_world import World
from tests.runtime.admin.openapi_fuzz import fuzzed

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(400)]


# Of so many routes one is asked here; `make prove PART=openapi` asks all, and longer.
SHARE = 4


@pytest.mark.requirement("admin.answers-as-described")
async def test_no_answer_is_other_than_described(world: World) -> None:
    fuzz = await fuzzed(world, examples=3, seed=SEED, share=SHARE)

    assert not fuzz.found, f"seed {SEED}\n{fuzz.told()}"
    assert min(fuzz.asked.values()) >= 1
