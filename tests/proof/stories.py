"""Plays the story of one seed, on the double or on the real store."""

from collections import Counter
from typing import Any

from anyio.from_thread import BlockingPortal
from proof.facts import Facts
from proof.simulation import play
from proof.stores import SqlStage, Stage
from proof.virtual_time import run_virtually

from governor.budget import Budget


class SeedFailedError(Exception):
    """A story went wrong; play it alone with `tests/prove.py --story SEED`."""


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
