"""The memory's pages, asked without a browser."""

import httpx
import pytest

from governor.ids import ExperienceId, PrincipalId
from memory_store.experiences.values import UseNote
from runtime.admin import create_admin_app
from runtime.console import ConsoleParts, WithConsole, console_app
from tests.runtime.admin.admin_world import TENANT
from tests.runtime.console.conftest import ORIGIN, Desk

pytestmark = pytest.mark.anyio


async def taught(desk: Desk, content: str) -> str:
    """Return the index of what an administrator wrote."""
    answer = await desk.world.post("/memory/experiences", {"tenant": TENANT, "content": content})
    assert answer.status_code == 201, answer.text
    index: str = answer.json()["index"]
    return index


@pytest.mark.requirement("memory-page.off")
async def test_a_memory_that_is_switched_off_says_how_it_is_offered_again(desk: Desk) -> None:
    api, world = create_admin_app(desk.world.parts), desk.world
    parts = ConsoleParts(
        api=api,
        doorkeeper=world.parts.store.principals,
        visits=world.parts.store.visits,
        now_ms=world.clock.now_ms,
        draw=iter(map(str, range(1_000))).__next__,
        has_memory=False,
    )
    transport = httpx.ASGITransport(WithConsole(api, console_app(parts)))
    async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as browser:
        there = Desk(world=world, browser=browser)
        await there.sign_in()
        off = await there.get("/memory")
    await desk.sign_in()
    on = await desk.get("/memory")

    assert (off.status_code, on.status_code) == (200, 200)
    assert "enabled = true" in off.text
    assert "enabled = true" not in on.text
    assert "Nothing is kept yet" in on.text


@pytest.mark.requirement("memory-page.provenance")
async def test_a_long_text_is_read_part_by_part_and_no_character_is_cut_in_two(desk: Desk) -> None:
    index = await taught(desk, "a" + "ä" * 40_000 + "end")
    await desk.sign_in()

    first = (await desk.get(f"/memory/{index}")).text
    (offset,) = {part.partition('"')[0] for part in first.split("?offset=")[1:]}
    rest = (await desk.get(f"/memory/{index}?offset={offset}")).text

    assert first.count("ä") + rest.count("ä") >= 40_000
    assert "\ufffd" not in first + rest
    assert "end</code>" in rest
    assert "From the beginning" in rest


@pytest.mark.requirement("memory-page.deeds")
async def test_what_is_refused_or_not_there_is_said_in_words(desk: Desk) -> None:
    index = await taught(desk, "Close the gate.")
    await desk.sign_in()
    csrf = await desk.csrf()

    refused = await desk.post(f"/memory/{index}/evidence", {"csrf": csrf})
    unknown = await desk.post(f"/memory/{index}/sell", {"csrf": csrf})
    revoked = await desk.post(f"/memory/{index}/revoke", {"csrf": csrf, "why": "no gate"})
    after = await desk.get(f"/memory/{index}")

    assert refused.status_code == 409
    assert "stays where it is" in refused.text
    assert unknown.status_code == 404
    assert revoked.status_code == 303
    assert "no gate" in after.text
    assert (await desk.get("/memory/none")).status_code == 404
    assert (await desk.get("/memory?cursor=nonsense")).status_code == 200


@pytest.mark.requirement("memory-page.provenance")
async def test_words_are_looked_for_in_one_lane_and_kind_and_uses_are_told(desk: Desk) -> None:
    index = await taught(desk, "Close the gate at night.")
    used = UseNote(
        experience_id=ExperienceId(index), reader=PrincipalId("ada"), at_ms=1, used=True, score=0.25
    )
    await desk.world.parts.memory.book.note_use((used,), tenant=TENANT)
    await desk.sign_in()

    found = {
        query: index in (await desk.get(f"/memory?words=the+gate{query}")).text
        for query in ("", "&lane=operator&kind=lesson", "&lane=web", "&kind=fact")
    }
    one = (await desk.get(f"/memory/{index}")).text

    assert list(found.values()) == [True, True, False, False]
    assert "<td>ada</td>" in one
    assert "0.25" in one
    assert (await desk.get("/memory?words=gate&lane=none")).status_code == 200
