"""The whole admission path in virtual time, story by story, each drawn from one number."""

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from governor.budget import Budget
from proof.facts import Facts
from proof.scale import scaled
from proof.simulation import play
from proof.stores import MemoryStage, SqliteFactory, SqlStage, Stage
from proof.virtual_time import StandstillError, run_virtually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


class SeedFailedError(Exception):
    """A story went wrong; play it alone with `make prove PART=simulation SEED=... COUNT=1`."""


class BlockingStage:
    """A stage in another thread: each of its answers is waited for with the world stopped.

    So the real store, with its threads, stands in virtual time and stays repeatable.
    """

    def __init__(self, stage: SqlStage, portal: BlockingPortal) -> None:
        self._stage = stage
        self._portal = portal

    @property
    def ledger(self) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._stage.ledger, name)

        async def call(*arguments: Any, **named: Any) -> Any:
            return self._portal.call(lambda: method(*arguments, **named))

        return call

    async def put_budget(self, budget: Budget) -> None:
        self._portal.call(self._stage.put_budget, budget)

    async def facts(self, tenant: str | None = None) -> Facts:
        facts: Facts = self._portal.call(self._stage.facts, tenant)
        return facts


def play_seed(seed: int, stage: Stage | BlockingStage) -> Counter[str]:
    told: Counter[str] = Counter()

    async def main() -> None:
        told.update(await play(seed, stage))

    try:
        run_virtually(seed, main)
    except Exception as error:
        message = f"seed {seed}"
        raise SeedFailedError(message) from error
    return told


@pytest.mark.requirement("proof.simulation")
def test_no_story_breaks_an_invariant(seed: int) -> None:
    told: Counter[str] = Counter()
    for one in range(seed, seed + scaled(1_600)):
        told += play_seed(one, MemoryStage())

    assert min(told[what] for what in ("answer", "error", "client left")) > 0


@pytest.mark.requirement("proof.simulation")
def test_no_story_breaks_an_invariant_on_the_real_store(seed: int) -> None:
    told: Counter[str] = Counter()
    with (
        tempfile.TemporaryDirectory() as folder,
        start_blocking_portal() as portal,
    ):
        for number, one in enumerate(range(seed, seed + scaled(100))):
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
    import anyio

    async def main() -> None:
        await anyio.Event().wait()

    with pytest.raises(StandstillError):
        run_virtually(1, main)
