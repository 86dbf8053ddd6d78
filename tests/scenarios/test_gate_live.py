"""The reasoning gate through a real sidecar: denied, answered, served."""

import pytest
from scenarios.process import SidecarProcess, denial_of, text_of

from governor.ids import PrincipalId
from runtime.clock import SystemClock
from tool_gateway.guards.gate import ReasoningGate

pytestmark = pytest.mark.anyio

GATED = """
[[rule]]
name = "think"
tool = "worker__*"
gate = { hops = 2 }
"""


@pytest.mark.requirement("gate.think-first")
@pytest.mark.requirement("gate.single-use")
@pytest.mark.parametrize("sidecar", [GATED], indirect=True)
async def test_an_agent_that_answers_is_served_and_no_answer_counts_twice(
    sidecar: SidecarProcess,
) -> None:
    async with sidecar.agent() as client:
        denied = await client.call_tool("worker__echo", {"text": "x"})
        challenge = (denied.meta or {})["flyball/gate"]["challenge"]
        # Only the key tells the answer without thinking.
        gate = ReasoningGate(key=(sidecar.state / "gate.key").read_bytes(), clock=SystemClock())
        read = gate._read(challenge, PrincipalId("agent"))
        assert read is not None
        answer = {"challenge": challenge, "answer": gate._puzzle(read[0], read[3]).answer}
        taken = await client.call_tool("governor_answer", answer)
        again = await client.call_tool("governor_answer", answer)
        served = await client.call_tool("worker__echo", {"text": "x"})

    assert (denial_of(denied) or {})["reason"] == "gate_required"
    assert text_of(taken).startswith("Right")
    assert again.is_error
    assert text_of(served) == "x"
