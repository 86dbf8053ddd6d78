"""What was learned of searches, as administrators see it, put it in force and take it back."""

import json

import pytest

from governor.experience.tier_choice import SearchProfile, context_of
from governor.ids import PrincipalId, SessionId, TenantId
from memory_store.memory_choices import MemoryChoice, What
from runtime.memory.noting.choices import numbers_bytes, options_text
from runtime.memory.tiers.learning import TierLearner
from runtime.token_files import TENANT
from tests.runtime.admin.admin_world import World

pytestmark = pytest.mark.anyio
PATH = "/memory/tiers"
WORTH = {"low": 0.2, "mid": 0.9}


@pytest.fixture(autouse=True)
async def its_tenant(world: World) -> None:
    made = await world.ask("POST", "/tenants", json={"id": TENANT})
    assert made.status_code == 201, made.text


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def spoken_of(world: World, count: int) -> None:
    """Keep searches by two plans alike, of which the better one is spoken of better."""
    log = world.parts.store.choices
    for number in range(count):
        plan = "low" if number % 2 else "mid"
        choice = MemoryChoice(
            tenant=TenantId(TENANT),
            what=What.SEARCH,
            key=f"call-{number}",
            agent=PrincipalId("ada"),
            session=SessionId(f"s{number}"),
            decided_at_ms=number,
            arm=plan,
            propensity=0.5,
            explored=plan == "low",
            options=options_text({"mid": 0.5, "low": 0.5}, {"mid": 60.0, "low": 20.0}),
            context=numbers_bytes(context_of(SearchProfile(words=("where",), items=10))),
            price=0.0005,
        )
        await log.record((choice,))
        said = json.dumps([WORTH[plan], 1.0, True])
        await log.say(TenantId(TENANT), What.SEARCH, choice.key, said)


@pytest.mark.requirement("memory.tiers-rolled-back")
async def test_what_was_learned_is_shown_promoted_and_rolled_back(world: World) -> None:
    nothing = (await world.get(PATH)).json()
    await spoken_of(world, 60)
    await TierLearner(world.parts.store.choices, clock=world.parts.clock).learn()
    shown = (await world.get(PATH)).json()

    promoted = await world.ask("POST", f"{PATH}/promote", json={"force": True})
    back = await world.ask("POST", f"{PATH}/rollback", json={})
    again = await world.ask("POST", f"{PATH}/rollback", json={})

    ways = {one["name"]: one["quality"]["value"] for one in shown["ways"]}
    assert (nothing["spoken_of"], nothing["ways"]) == (0, [])
    assert (shown["spoken_of"], shown["in_force"]) == (60, False)
    assert ways["low"] < ways["mid"]
    assert (promoted.status_code, promoted.json()["in_force"]) == (200, True)
    assert (back.status_code, back.json()["in_force"]) == (200, False)
    assert again.status_code == 404


async def test_what_nobody_spoke_of_is_not_promoted(world: World) -> None:
    refused = await world.ask("POST", f"{PATH}/promote", json={})

    assert refused.status_code == 409
    assert "not known" in refused.json()["detail"]
