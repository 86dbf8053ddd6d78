"""The admin API as pages ask it."""

import json
import re
from typing import Any

import anyio
import pytest
from starlette.types import Message

from memory_store.audit import Actor
from runtime.admin import create_admin_app
from runtime.console.inside import AnsweredProblemError, Inside, part
from tests.runtime.admin.admin_world import AGENT, TENANT, World
from tests.runtime.console.conftest import ORIGIN, Desk

pytestmark = pytest.mark.anyio

EVE = Actor(name="eve")
BUDGET = {"id": "b", "tenant": TENANT, "scope": "tenant", "limits": {"tool_calls": 5}}


@pytest.fixture
def inside(world: World) -> Inside:
    return Inside(create_admin_app(world.parts), by=EVE)


@pytest.mark.requirement("console.by-whom")
async def test_a_change_is_made_in_the_name_of_who_asked_and_as_it_was_read(
    inside: Inside, world: World
) -> None:
    made = await inside.ask("POST", "/budgets", body=BUDGET)
    read = await inside.ask("GET", "/budgets/b")
    change = {"limits": {"tool_calls": 9}}
    kept = await inside.ask("PUT", "/budgets/b", body=change, if_match=read.etag)
    late = await inside.ask("PUT", "/budgets/b", body=change, if_match=read.etag)

    assert (made.status, kept.status, late.status) == (201, 200, 412)
    assert late.problem is not None
    assert late.problem["title"] == "Version conflict"
    changes = (await world.get("/audit", params={"actor": "eve"})).json()["items"]
    assert [one["action"] for one in changes] == ["budget.put", "budget.create"]


async def test_a_problem_is_raised_where_a_page_cannot_be_made_without_the_answer(
    inside: Inside,
) -> None:
    with pytest.raises(AnsweredProblemError) as raised:
        await inside.get("/budgets/none")

    assert raised.value.answer.status == 404


@pytest.mark.requirement("preview.whole")
async def test_a_preview_of_the_form_comes_in_lines_the_last_of_which_is_a_part_of_the_page(
    desk: Desk,
) -> None:
    await desk.world.run_call("c1")
    await desk.sign_in()
    fields = {"csrf": await desk.csrf(), "tenant": TENANT, "scope": "agent", "kind": "allowance"}
    fields |= {"window": "lifetime", "mode": "enforce", "overdraft": "deny"}

    async def said(**more: str) -> list[dict[str, Any]]:
        answer = await desk.browser.post(
            "/console/budgets/~preview",
            data=fields | more,
            headers={"Origin": ORIGIN, "HX-Request": "true"},
        )
        assert answer.status_code == 200, answer.text
        return [json.loads(line) for line in answer.text.splitlines()]

    first, last = await said(**{"limit.tool_calls": "1"})
    (refused,) = await said(**{"limit.tool_calls": "1", "subject": "nobody"})
    (unread,) = await said(**{"limit.tool_calls": "a few"})

    assert first == {"progress": {"calls": 0, "permille": 0}}
    assert "What it would have done" in last["html"]
    assert "nobody" in refused["html"]
    assert "write a whole number from 0 on" in unread["html"]


@pytest.mark.requirement("session-pages.budgets")
async def test_a_budget_is_made_with_a_word_and_shows_how_far_it_is_used_and_by_whom(
    desk: Desk,
) -> None:
    await desk.sign_in()
    fields = {"csrf": await desk.csrf(), "tenant": TENANT, "scope": "agent", "kind": "allowance"}
    fields |= {"window": "lifetime", "mode": "enforce", "overdraft": "deny"}
    made = await desk.post("/budgets", fields | {"id": "four", "limit.tool_calls": "4"})
    assert made.status_code == 303, made.text
    before = (await desk.get("/budgets")).text
    unused = (await desk.get("/budgets/four")).text
    many = await desk.post("/budgets", fields | {"id": "many", "limit.tool_calls": "4000"})
    assert many.status_code == 303, many.text
    for name in ("c1", "c2", "c3"):
        await desk.world.run_call(name)

    listed, shown = (await desk.get("/budgets")).text, (await desk.get("/budgets/four")).text

    assert "Budget four was made." in before
    assert "unused now" in before
    assert "Nobody has used it" in unused
    assert re.search(rf"most used: 75 % by <a [^>]*>{AGENT}</a>", listed)
    assert "most used: under 1 % by" in listed
    table = shown[shown.index("How far it is used") :]
    words = " ".join(re.sub(r"<[^>]*>", " ", table).split())
    assert re.search(rf"{AGENT} tool calls 3 of 4 75 % 0 1 for good", words), words


@pytest.mark.requirement("preview.whole")
async def test_a_preview_that_nobody_waits_for_any_more_is_stopped(
    inside: Inside, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, stopped = anyio.Event(), anyio.Event()

    async def endless(*_: object, **__: object) -> None:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()

    async def leaving() -> Message:
        await begun.wait()
        return {"type": "http.disconnect"}

    async def staying() -> Message:
        await anyio.sleep_forever()
        raise AssertionError

    said = b""

    async def send(message: Message) -> None:
        nonlocal said
        said += message.get("body", b"")

    monkeypatch.setattr(world.parts.store.past_calls, "page", endless)
    lines = inside.lines("/budgets/preview/whole", body={"new": BUDGET}, told=lambda line: line)
    with anyio.fail_after(60):
        await lines({"type": "http"}, leaving, send)
        await stopped.wait()
        monkeypatch.undo()
        await lines({"type": "http"}, staying, send)

    assert [list(json.loads(line)) for line in said.splitlines()] == [
        ["progress"],
        ["progress"],
        ["preview"],
    ]


async def test_names_with_any_letters_are_one_part_of_a_path(inside: Inside) -> None:
    for name in ("ä ö", "a?b#c", "..", "100%"):
        answer = await inside.ask("GET", f"/principals/{part(name)}")

        assert answer.status in {404, 422}, name


async def test_what_is_not_asked_for_is_left_out_of_the_query(inside: Inside) -> None:
    found = await inside.get("/calls", {"tenant": None, "name": "a&b=c", "limit": 5})

    assert found == {"items": [], "next": None}
