"""SIGKILL at random instants and at every named point: no acknowledged word is lost."""

from pathlib import Path

import pytest
from postgresql_server import PostgresqlServer
from proof.kills import Campaign, kill_again_and_again
from proof.replicas import kill_in_turn, restart_the_database
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


@pytest.mark.requirement("proof.kill-loses-nothing")
async def test_no_kill_loses_an_acknowledgement_on_a_server(
    tmp_path: Path, seed: int, postgresql_server: PostgresqlServer, postgresql_model: str
) -> None:
    campaign = Campaign(
        kills=scaled(10),
        seed=seed,
        points=POINTS,
        databases=lambda: postgresql_server.database(like=postgresql_model),
    )

    counts = await kill_again_and_again(campaign, tmp_path)

    at_points = [times for what, times in counts.items() if what.startswith("killed at ")]
    assert sum(at_points) + counts["killed anywhere"] == campaign.kills
    assert sum(at_points) == campaign.kills // 2


@pytest.mark.requirement("proof.replicas-take-over")
async def test_replicas_that_are_killed_in_turn_lose_nothing(
    tmp_path: Path, seed: int, database: str
) -> None:
    kills = scaled(8)

    counts = await kill_in_turn(database, tmp_path, kills=kills, seed=seed)

    assert counts["killed"] == kills
    # The server mends a deadlock after a second, so that nobody would notice but who waits.
    assert counts["deadlocks"] == 0
    assert counts["asked again"] > 0


@pytest.mark.requirement("proof.database-restarts")
async def test_a_database_that_is_restarted_under_load_loses_nothing(
    tmp_path: Path, seed: int, postgresql_server: PostgresqlServer, database: str
) -> None:
    counts = await restart_the_database(
        database, tmp_path, postgresql_server.restart, restarts=1, seed=seed
    )

    assert counts["unavailable"] > 0
