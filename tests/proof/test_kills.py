"""SIGKILL at random instants and at every named point: no acknowledged word is lost."""

from pathlib import Path

import pytest
from proof.kills import Campaign, kill_again_and_again
from proof.scale import scaled

from memory_store.crash_points import POINTS
from memory_store.engine import Durability

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.requirement("proof.kill-loses-nothing")
async def test_no_kill_loses_an_acknowledgement_or_charges_twice(tmp_path: Path, seed: int) -> None:
    campaign = Campaign(kills=scaled(50), seed=seed, points=POINTS)

    counts = await kill_again_and_again(campaign, tmp_path)

    died = [times for what, times in counts.items() if what.startswith("killed")]
    assert sum(died) == campaign.kills
    assert counts["granted"] > campaign.kills
    points = {what for what in counts if what.startswith("killed at ")}
    assert len(points) == min(len(POINTS), campaign.kills // 2)


@pytest.mark.requirement("proof.kill-loses-nothing")
async def test_a_kill_of_the_process_alone_needs_no_fsync(tmp_path: Path, seed: int) -> None:
    campaign = Campaign(kills=scaled(5), seed=seed, durability=Durability.PROCESS)

    counts = await kill_again_and_again(campaign, tmp_path)

    assert counts["killed anywhere"] == campaign.kills
