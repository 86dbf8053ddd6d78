"""The route that takes a changed configuration over; what it does is told by the scenarios."""

import pytest

from tests.runtime.admin.admin_world import World

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("reload.all-or-nothing")
async def test_a_configuration_that_cannot_be_taken_over_is_a_problem_that_says_why(
    world: World,
) -> None:
    answer = await world.post("/reload")

    assert answer.status_code == 422
    assert answer.json()["errors"] == [{"field": "config", "detail": "started without a file"}]


async def test_an_agent_reloads_nothing(world: World) -> None:
    answer = await world.post("/reload", token=world.agent_secret)

    assert answer.status_code == 403
