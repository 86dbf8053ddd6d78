"""What an upstream says of itself and its prompts are pinned beside its tools."""

from dataclasses import replace

import pytest
from mcp.shared.exceptions import MCPError

from governor.ids import UpstreamName
from governor.manifest import INSTRUCTIONS, Pin, Standing, prompt_part
from tests.tool_gateway.protocol.everything import Everything
from tests.tool_gateway.protocol.stage import Stage, upstream
from tests.tool_gateway.test_pins import FakeManifestStore
from tool_gateway.guards.pins import Pins

pytestmark = pytest.mark.anyio
ONE = UpstreamName("one")
GREET = prompt_part("greet")


def first_use(store: FakeManifestStore) -> Pins:
    return Pins({ONE: Pin.FIRST_USE}, store=store)


async def met() -> FakeManifestStore:
    """Return a store that has met the server of these tests in an earlier life."""
    store = FakeManifestStore()
    pins = first_use(store)
    async with upstream(Everything()) as one, Stage(pins=pins).serving(one):
        assert await pins.pin_met()
    return store


def altered(store: FakeManifestStore, part: str, description: str) -> None:
    """Have approved what is not offered any more."""
    known = store.kept[ONE]
    parts = {**known.tools, part: {**known.tools[part], "description": description}}
    store.kept[ONE] = replace(known, tools=parts)


@pytest.mark.requirement("pin.change-is-quarantined")
async def test_a_prompt_that_is_another_than_was_approved_is_kept_out_until_it_is() -> None:
    store = await met()
    altered(store, GREET, "Greet somebody, and nothing else.")
    pins = first_use(store)
    await pins.refresh()

    async with (
        upstream(Everything()) as one,
        Stage(pins=pins).serving(one) as on,
        on.client() as client,
    ):
        before = (await client.list_prompts()).prompts
        with pytest.raises(MCPError, match="waits until an administrator approves it"):
            await client.get_prompt("one__greet", {"name": "Eve"})
        with pytest.raises(MCPError, match="unknown prompt 'one__nothing'"):
            await client.get_prompt("one__nothing")
        review = pins.review(ONE)
        assert review is not None
        await pins.approve(review, names=[GREET], by="root")
        after = (await client.list_prompts()).prompts
        greeting = await client.get_prompt("one__greet", {"name": "Eve"})

    assert before == []
    assert review.quarantined == (GREET,)
    (changed,) = [one.tool for one in review.tools if one.tool.name == GREET]
    assert (changed.standing, changed.changes[0].path) == (Standing.CHANGED, "/description")
    assert [prompt.name for prompt in after] == ["one__greet"]
    assert greeting.messages


@pytest.mark.requirement("pin.change-is-quarantined")
async def test_what_a_server_says_of_itself_is_not_handed_on_once_it_changed() -> None:
    store = await met()
    altered(store, INSTRUCTIONS, "Be quick.")
    pins = first_use(store)
    await pins.refresh()

    async with (
        upstream(Everything(), prefixed=False) as one,
        Stage(pins=pins).serving(one) as on,
    ):
        assert on.relaying is not None
        before = on.relaying.face.instructions
        review = pins.review(ONE)
        assert review is not None
        await pins.approve(review, names=None, by="root")
        after = on.relaying.face.instructions

    assert (before, after) == (None, "Ask politely.")


async def test_a_tool_with_the_name_of_a_part_is_not_exposed() -> None:
    everything = Everything()

    @everything.server.tool(name=INSTRUCTIONS)
    def disguised() -> str:
        return "boo"

    store = FakeManifestStore()
    pins = first_use(store)
    async with (
        upstream(everything) as one,
        Stage(pins=pins).serving(one) as on,
        on.client() as client,
    ):
        await pins.pin_met()
        shown = [tool.name for tool in (await client.list_tools()).tools]

    assert "one__echo" in shown
    assert not any("instructions" in name for name in shown)
    assert store.kept[ONE].tools[INSTRUCTIONS] == {"description": "Ask politely."}


async def test_an_upstream_that_is_not_pinned_shows_all_that_it_has() -> None:
    pins = Pins({ONE: Pin.OFF}, store=FakeManifestStore())

    async with (
        upstream(Everything()) as one,
        Stage(pins=pins).serving(one) as on,
        on.client() as client,
    ):
        prompts = (await client.list_prompts()).prompts
        greeting = await client.get_prompt("one__greet", {"name": "Eve"})

    assert [prompt.name for prompt in prompts] == ["one__greet"]
    assert greeting.messages
