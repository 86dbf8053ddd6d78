"""An agent that goes round in circles, through a real sidecar and a real server."""

import signal

import pytest
from scenarios.process import SidecarProcess, denial_of, text_of

pytestmark = pytest.mark.anyio

BREAKING = """
[guidance]
admin_contact = "ops@acme.test"

[[rule]]
name = "echo"
tool = "worker__echo"
loops = { repeatable = true }
tracker = "line"

[[budget]]
id = "each"
scope = "session"
limits = { tool_calls = 10 }
"""
PAUSING = """
[default]
loops = { remind = 0, serve = 0, deny = 0, pause = 2 }
"""


@pytest.mark.requirement("loop.trips-at-its-count")
@pytest.mark.requirement("loop.served-costs-nothing")
@pytest.mark.parametrize("sidecar", [BREAKING], indirect=True)
async def test_the_same_call_six_times_is_reminded_served_and_denied(
    sidecar: SidecarProcess,
) -> None:
    async with sidecar.agent("circles") as client:
        answers = [await client.call_tool("worker__echo", {"text": "x"}) for _ in range(6)]
        other = await client.call_tool("worker__echo", {"text": "y"})

    metas = [answer.meta or {} for answer in (*answers, other)]
    measures = [meta.get("flyball/loop", {}).get("measure") for meta in metas]
    assert measures == [None, None, "remind", "serve", "serve", "deny", None]
    assert [meta["flyball/budget"][0]["used"] for meta in metas] == [1, 2, 3, 3, 3, 3, 4]
    assert [text_of(answer).splitlines()[0] for answer in answers[:5]] == ["x"] * 5
    assert text_of(answers[0]).endswith("[budget HIGH: 9 of 10 tool calls left (90%)]")
    denial = denial_of(answers[5])
    assert denial is not None
    assert denial["reason"] == "loop_detected"
    assert denial["remedy"]["contact"] == "ops@acme.test"
    assert not other.is_error


@pytest.mark.requirement("budget.remaining-is-shown")
@pytest.mark.parametrize("sidecar", [BREAKING], indirect=True)
async def test_the_status_tool_says_what_remains_in_words(sidecar: SidecarProcess) -> None:
    async with sidecar.agent("curious") as client:
        await client.call_tool("worker__echo", {"text": "x"})
        answer = await client.call_tool("governor_status", {})

    assert "session budget each: 9 of 10 tool calls left (90%)" in text_of(answer)
    assert answer.structured_content["budgets"][0]["share_left"] == 0.9


@pytest.mark.requirement("loop.pause-stops-session")
@pytest.mark.parametrize("sidecar", [PAUSING], indirect=True)
async def test_a_paused_session_goes_on_once_an_administrator_has_resumed_it(
    sidecar: SidecarProcess,
) -> None:
    async with sidecar.agent("circles") as client, sidecar.admin() as admin:
        again = [await client.call_tool("worker__echo", {"text": "x"}) for _ in range(2)]
        paused = await client.call_tool("worker__echo", {"text": "other"})
        (session,) = (await admin.get("sessions")).json()["items"]
        resumed = await admin.post(f"sessions/{session['id']}/resume")
        other = await client.call_tool("worker__echo", {"text": "x"})

    reasons = [(denial_of(answer) or {}).get("reason") for answer in (*again, paused, other)]
    assert reasons == [None, "loop_detected", "session_frozen", None]
    assert session["frozen_by"] == "loop breaker"
    assert resumed.json()["was_paused"]


@pytest.mark.requirement("loop.pause-stops-session")
@pytest.mark.parametrize("sidecar", [PAUSING], indirect=True)
async def test_a_paused_session_stays_paused_over_sigkill(sidecar: SidecarProcess) -> None:
    async with sidecar.agent("circles") as client:
        again = [await client.call_tool("worker__echo", {"text": "x"}) for _ in range(2)]
    sidecar.signal(signal.SIGKILL)
    sidecar.wait()
    sidecar.start()
    async with sidecar.agent("circles") as client:
        other = await client.call_tool("worker__echo", {"text": "other"})

    reasons = [(denial_of(answer) or {}).get("reason") for answer in (*again, other)]
    assert reasons == [None, "loop_detected", "session_frozen"]
