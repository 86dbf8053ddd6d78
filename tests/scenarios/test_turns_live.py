"""Turn control in a whole sidecar: over MCP, across SIGKILL, on request."""

import signal
from typing import Any

import pytest
from mcp import Client
from scenarios.process import SidecarProcess, denial_of, text_of

pytestmark = pytest.mark.anyio

DYNAMIC = """
[turns]
mode = "dynamic"
turns = 3
extension = 2
extensions_max = 1
remind_at = [1]

[[turn_rule]]
task_class = "quick"
mode = "fixed"
turns = 1
"""


async def echo(client: Client, text: str, turn: str, **meta: str) -> Any:
    return await client.call_tool(
        "worker__echo", {"text": text}, meta={"flyball/turn": turn, **meta}
    )


def reason_of(result: Any) -> str | None:
    denial = denial_of(result)
    return None if denial is None else denial["reason"]


@pytest.mark.requirement("turns.survive-a-restart")
@pytest.mark.parametrize("sidecar", [DYNAMIC], indirect=True)
async def test_turns_and_extensions_count_on_after_sigkill(sidecar: SidecarProcess) -> None:
    async with sidecar.agent("long") as client:
        for turn in ("t1", "t2"):
            await echo(client, turn, turn)
    sidecar.signal(signal.SIGKILL)
    sidecar.wait()
    sidecar.start()
    async with sidecar.agent("long") as client:
        known = await echo(client, "t2 again", "t2")
        last = await echo(client, "t3", "t3")
        beyond = await echo(client, "t4", "t4")
        asked = await client.call_tool(
            "governor_extend", {"reason": "two files are left"}, meta={"flyball/turn": "t4"}
        )
    sidecar.signal(signal.SIGKILL)
    sidecar.wait()
    sidecar.start()
    async with sidecar.agent("long") as client:
        reasons = [reason_of(await echo(client, turn, turn)) for turn in ("t4", "t5", "t6")]

    assert (known.meta or {})["flyball/turns"]["used"] == 2
    assert (last.meta or {})["flyball/turns"]["remaining"] == 0
    assert reason_of(beyond) == "turn_limit"
    assert denial_of(beyond)["remedy"]["action"] == "ask_for_extension"
    assert text_of(asked) == "2 more turns were given; 2 remain."
    assert reasons == [None, None, "turn_limit"]


@pytest.mark.requirement("turns.reminder-is-shown")
@pytest.mark.parametrize("sidecar", [DYNAMIC], indirect=True)
async def test_a_reminder_is_a_text_block_of_its_own(sidecar: SidecarProcess) -> None:
    async with sidecar.agent("reminded") as client:
        first = await echo(client, "one", "t1")
        second = await echo(client, "two", "t2")

    assert [block.text for block in first.content] == ["one"]
    assert [block.text for block in second.content] == [
        "two",
        (
            "1 turn remains after this one, of 3; finish with what you have, "
            "or call governor_extend with a reason."
        ),
    ]


@pytest.mark.parametrize("sidecar", [DYNAMIC], indirect=True)
async def test_a_task_class_has_terms_of_its_own(sidecar: SidecarProcess) -> None:
    quick = {"flyball/task_class": "quick"}
    async with sidecar.agent("quick-one") as client:
        first = await echo(client, "one", "t1", **quick)
        second = await echo(client, "two", "t2", **quick)

    assert (first.meta or {})["flyball/turns"]["task_class"] == "quick"
    assert reason_of(second) == "turn_limit"
    assert denial_of(second)["remedy"]["action"] == "finish_with_what_you_have"
