from pathlib import Path
from typing import Any

import anyio
import pytest
from scenarios.process import SidecarProcess, appears, denial_of, text_of

pytestmark = pytest.mark.anyio

CALLS = 10
EACH_SESSION = f"""
[[budget]]
id = "each"
scope = "session"
limits = {{ tool_calls = {CALLS} }}
"""


@pytest.mark.requirement("budget.never-overrun")
@pytest.mark.parametrize("sidecar", [EACH_SESSION], indirect=True)
async def test_exactly_n_of_2n_concurrent_callers_run(sidecar: SidecarProcess) -> None:
    answers: list[Any] = []

    async def caller(number: int) -> None:
        async with sidecar.agent("race") as client:
            answers.append(await client.call_tool("worker__echo", {"text": str(number)}))

    async with anyio.create_task_group() as tasks:
        for number in range(2 * CALLS):
            tasks.start_soon(caller, number)

    ran = [answer for answer in answers if not answer.is_error]
    denials = [denial_of(answer) for answer in answers if answer.is_error]
    assert len(ran) == CALLS
    assert all(denial is not None and denial["budget_id"] == "each" for denial in denials)
    async with sidecar.agent("another") as client:
        assert not (await client.call_tool("worker__echo", {"text": "own allowance"})).is_error


@pytest.mark.requirement("denial.shape")
@pytest.mark.parametrize("sidecar", [EACH_SESSION], indirect=True)
async def test_a_denial_tells_the_budget_and_the_way_out_and_what_remains_is_on_each_result(
    sidecar: SidecarProcess,
) -> None:
    async with sidecar.agent("chatty") as client:
        for number in range(CALLS):
            answer = await client.call_tool("worker__echo", {"text": "x"})
            [line] = (answer.meta or {})["flyball/budget"]
            assert (line["used"], line["remaining"]) == (number + 1, CALLS - number - 1)
        denied = await client.call_tool("worker__echo", {"text": "x"})

    denial = denial_of(denied)
    assert denial is not None
    assert denial["reason"] == "budget_exhausted"
    assert (denial["unit"], denial["limit"], denial["used"]) == ("tool_calls", CALLS, CALLS)
    assert (denial["reserved"], denial["requested"]) == (0, 1)
    assert (denial["resets_at_ms"], denial["retry_after_ms"]) == (None, None)
    assert set(denial["remedy"]) == {"action", "text"}
    assert denied.is_error


@pytest.mark.parametrize("sidecar", [EACH_SESSION], indirect=True)
async def test_a_raised_budget_counts_from_the_next_call_and_survives_a_restart(
    sidecar: SidecarProcess,
) -> None:
    async with sidecar.agent("busy") as client:
        for _ in range(CALLS):
            await client.call_tool("worker__echo", {"text": "x"})
        assert denial_of(await client.call_tool("worker__echo", {"text": "x"})) is not None
        async with sidecar.admin() as admin:
            budget = (await admin.get("budgets/each")).json()
            names = ("tenant", "scope", "subject", "window")
            changed = await admin.put(
                "budgets/each",
                json={**{n: budget[n] for n in names}, "limits": {"tool_calls": CALLS + 2}},
            )
            assert changed.status_code == 200, changed.text
        assert not (await client.call_tool("worker__echo", {"text": "x"})).is_error

    sidecar.stop()
    sidecar.start()
    async with sidecar.agent("busy") as client:
        assert not (await client.call_tool("worker__echo", {"text": "last"})).is_error
        assert denial_of(await client.call_tool("worker__echo", {"text": "x"})) is not None
    async with sidecar.admin() as admin:
        actions = [item["action"] for item in (await admin.get("audit")).json()["items"]]
    assert "budget.put" in actions


async def test_killing_a_session_stops_its_running_call_and_closes_it(
    sidecar: SidecarProcess, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    answers = []

    async def sleeper() -> None:
        async with sidecar.agent("doomed") as client:
            arguments = {"seconds": 30, "started": str(started)}
            answers.append(await client.call_tool("worker__sleep", arguments))
            answers.append(await client.call_tool("worker__echo", {"text": "again"}))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sleeper)
            await appears(started)
            async with sidecar.admin() as admin:
                sessions = (await admin.get("sessions")).json()["items"]
                [session] = [item["id"] for item in sessions if item["name"] == "doomed"]
                killed = await admin.post(f"sessions/{session}/kill")
                assert killed.status_code == 200, killed.text

    stopped, refused = answers
    assert stopped.is_error
    assert "administrator" in text_of(stopped)
    denial = denial_of(refused)
    assert denial is not None
    assert denial["reason"] == "session_closed"


@pytest.mark.requirement("archive.byte-exact")
async def test_a_large_result_is_cut_and_read_back_byte_for_byte_by_its_agent_alone(
    sidecar: SidecarProcess,
) -> None:
    async with sidecar.admin() as admin:
        made = await admin.post(
            "principals", json={"id": "other", "tenant": "default", "role": "agent"}
        )
        assert made.status_code == 201, made.text
        other = (await admin.post("principals/other/tokens", json={})).json()["secret"]
    async with sidecar.agent() as client:
        cut = await client.call_tool("worker__big", {"lines": 3000})
        entry = (cut.meta or {})["flyball/archive"]
        content, offset = b"", 0
        while offset is not None:
            part = await client.call_tool(
                "memory_read", {"index": entry["archive_id"], "offset": offset, "max_bytes": 9001}
            )
            content += part.content[0].text.encode()
            offset = (part.meta or {})["flyball/archive"]["next_offset"]
    async with sidecar.agent(token=other) as client:
        foreign = await client.call_tool("memory_read", {"index": entry["archive_id"]})
        unknown = await client.call_tool("memory_read", {"index": "arc_nosuch"})

    expected = "".join(f"line {n}: größer als erlaubt\n" for n in range(3000)).encode()
    assert content == expected
    assert len(text_of(cut).encode()) < 16_384
    assert foreign.is_error
    assert unknown.is_error
    without_id = text_of(foreign).replace(entry["archive_id"], "")
    assert without_id == text_of(unknown).replace("arc_nosuch", "")


@pytest.mark.requirement("idempotency.same-replays")
async def test_a_retry_with_the_same_key_returns_the_first_outcome_and_is_charged_once(
    sidecar: SidecarProcess,
) -> None:
    key = {"flyball/idempotency_key": "once"}
    async with sidecar.agent("keyed") as client:
        first = await client.call_tool("worker__echo", {"text": "a"}, meta=key)
        retried = await client.call_tool("worker__echo", {"text": "a"}, meta=key)
        async with sidecar.admin() as admin:
            calls = (await admin.get("calls")).json()["items"]

    assert text_of(first) == text_of(retried) == "a"
    assert (retried.meta or {})["flyball/call"]["replayed"] is True
    assert len(calls) == 1


WARNING = """
[[budget]]
id = "each"
scope = "session"
limits = { tool_calls = 4 }
warn_at_permille = [500]
"""


@pytest.mark.requirement("budget.warns-once")
@pytest.mark.parametrize(
    "sidecar",
    [WARNING],
    indirect=True,
)
async def test_the_call_that_reaches_a_share_tells_the_model_and_the_next_one_does_not(
    sidecar: SidecarProcess,
) -> None:
    async with sidecar.agent("warned") as client:
        texts = [text_of(await client.call_tool("worker__echo", {"text": "x"})) for _ in range(3)]

    notice = "50 % of the session budget each is reached, 2 of 4 tool calls used"
    assert [notice in text for text in texts] == [False, True, False]
