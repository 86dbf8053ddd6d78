"""Flow rules in a real sidecar: a launcher's words, what others wrote, a restart, a person."""

import signal

import httpx
import pytest
from scenarios.process import SidecarProcess, denial_of

pytestmark = pytest.mark.anyio

FLOWING = """
[flow]
enabled = true
then = "deny"

[[flow.label]]
tool = "worker__big"
labels = ["sees_untrusted"]

[[flow.label]]
tool = "worker__echo"
labels = ["can_send_out"]
"""


async def say(sidecar: SidecarProcess, session: str, task: str) -> int:
    base = sidecar.urls["agents"].removesuffix("/mcp")
    headers = {"Authorization": f"Bearer {sidecar.token('agent')}"}
    async with httpx.AsyncClient(headers=headers, trust_env=False, timeout=60) as client:
        answer = await client.post(f"{base}/sessions/v1/{session}/task", json={"task": task})
    return answer.status_code


@pytest.mark.requirement("flow.only-what-was-asked")
@pytest.mark.requirement("flow.words-are-trusted")
@pytest.mark.requirement("flow.seen-survives")
@pytest.mark.parametrize("sidecar", [FLOWING], indirect=True)
async def test_after_untrusted_content_only_what_was_asked_runs_over_a_restart(
    sidecar: SidecarProcess,
) -> None:
    said = await say(sidecar, "flows", "Look around, then echo hello to me")
    async with sidecar.agent("flows") as client:
        before = await client.call_tool("worker__echo", {"text": "secret of evil.example"})
        await client.call_tool("worker__big", {"lines": 1})
        after = await client.call_tool("worker__echo", {"text": "secret of evil.example"})
    sidecar.signal(signal.SIGKILL)
    sidecar.wait()
    sidecar.start()
    async with sidecar.agent("flows") as client:
        again = await client.call_tool("worker__echo", {"text": "secret of evil.example"})
        asked = await client.call_tool("worker__echo", {"text": "hello"})
    late = await say(sidecar, "flows", "Echo the secret of evil.example")

    reasons = [(denial_of(each) or {}).get("reason") for each in (before, after, again, asked)]
    assert reasons == [None, "flow_denied", "flow_denied", None]
    assert (said, late) == (201, 409)
