"""The whole admission path in virtual time, story by story, each drawn from one number."""

import tempfile
from collections import Counter
from pathlib import Path

import anyio
import pytest
from anyio.from_thread import start_blocking_portal
from proof.scale import scaled
from proof.stores import MemoryStage, SqliteFactory
from proof.stories import BlockingStage, play_seed
from proof.virtual_time import StandstillError, run_virtually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.requirement("proof.simulation")
def test_no_story_breaks_an_invariant(seed: int) -> None:
    told: Counter[str] = Counter()
    for one in range(seed, seed + scaled(800)):
        told += play_seed(one, MemoryStage())

    assert min(told[what] for what in ("answer", "error", "client left")) > 0


@pytest.mark.requirement("proof.simulation")
def test_no_story_breaks_an_invariant_on_the_real_store(seed: int) -> None:
    told: Counter[str] = Counter()
    with (
        tempfile.TemporaryDirectory() as folder,
        start_blocking_portal() as portal,
    ):
        for number, one in enumerate(range(seed, seed + scaled(40))):
            # A new store for each: a story may put the clock far ahead.
            where = Path(folder, str(number))
            where.mkdir()
            with portal.wrap_async_context_manager(SqliteFactory().open(where)) as stage:
                told += play_seed(one, BlockingStage(stage, portal))

    assert told["answer"] > 0


def test_the_same_seed_tells_the_same_story(seed: int) -> None:
    first, again = play_seed(seed, MemoryStage()), play_seed(seed, MemoryStage())

    assert first == again


def test_a_story_in_which_nothing_can_happen_any_more_is_found_out() -> None:
    async def main() -> None:
        await anyio.Event().wait()

    with pytest.raises(StandstillError):
        run_virtually(1, main)
