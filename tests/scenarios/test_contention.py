"""A greedy agent and a small one, in front of a real upstream that takes two calls at once."""

import re
from pathlib import Path

import anyio
import pytest
from mcp import Client
from scenarios.process import SidecarProcess, denial_of, text_of

pytestmark = pytest.mark.anyio

AT_ONCE = 2
GREEDY_SESSIONS = 3
GREEDY_CALLS_EACH = 10
SMALL_CALLS = 12
TWO_AT_ONCE = f"""
[contention.concurrency]
start = {AT_ONCE}
min = {AT_ONCE}
max = {AT_ONCE}
adapts = "nothing"
"""
COMMONS = """
[[commons]]
upstream = "worker"
per_s = 20
"""


async def token_for(sidecar: SidecarProcess, agent: str) -> str:
    async with sidecar.admin() as admin:
        made = await admin.post(
            "principals", json={"id": agent, "tenant": "default", "role": "agent"}
        )
        assert made.status_code == 201, made.text
        secret: str = (await admin.post(f"principals/{agent}/tokens", json={})).json()["secret"]
        return secret


class Crowd:
    """Calls of the greedy agent, as many under way as it can have, until told to stop."""

    def __init__(self, sidecar: SidecarProcess, folder: Path) -> None:
        self.ended = 0
        self.full = anyio.Event()
        self._sidecar = sidecar
        self._folder = folder
        self._stopped = False

    async def session(self, name: str) -> None:
        async with self._sidecar.agent(name) as client, anyio.create_task_group() as tasks:
            for number in range(GREEDY_CALLS_EACH):
                tasks.start_soon(self._call_on, client, self._folder / f"{name}-{number}")

    def stop(self) -> None:
        self._stopped = True

    async def _call_on(self, client: Client, started: Path) -> None:
        while not self._stopped:
            answer = await client.call_tool(
                "worker__sleep", {"seconds": 0.01, "started": str(started)}
            )
            assert not answer.is_error, text_of(answer)
            self.ended += 1
            if self.ended >= GREEDY_SESSIONS * GREEDY_CALLS_EACH:
                self.full.set()


@pytest.mark.requirement("contention.nobody-starves")
@pytest.mark.parametrize("sidecar", [TWO_AT_ONCE, COMMONS], indirect=True)
async def test_a_small_agent_is_passed_by_a_handful_of_the_greedy_ones_calls(
    sidecar: SidecarProcess, tmp_path: Path
) -> None:
    secret = await token_for(sidecar, "small")
    crowd, passed_by = Crowd(sidecar, tmp_path), []

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in range(GREEDY_SESSIONS):
                tasks.start_soon(crowd.session, f"greedy-{number}")
            await crowd.full.wait()
            async with sidecar.agent("small", token=secret) as client:
                for number in range(SMALL_CALLS):
                    before = crowd.ended
                    answer = await client.call_tool("worker__echo", {"text": str(number)})
                    assert text_of(answer) == str(number)
                    passed_by.append(crowd.ended - before)
            crowd.stop()

    # Those in flight end, and each agent has its turn, twice at a tie; answers that are on
    # their way to either client may be counted with it.
    assert max(passed_by) <= 3 * AT_ONCE + 2, passed_by
    assert sum(passed_by) <= SMALL_CALLS * (AT_ONCE + 2), passed_by


@pytest.mark.requirement("contention.deadline-is-kept")
@pytest.mark.parametrize("sidecar", [COMMONS.replace("per_s = 20", "per_min = 1")], indirect=True)
async def test_a_deadline_and_a_priority_travel_with_the_call(sidecar: SidecarProcess) -> None:
    async with sidecar.agent() as client:
        first = await client.call_tool("worker__echo", {"text": "first"})
        asked = {"flyball/deadline_ms": 50, "flyball/priority": "high"}
        late = await client.call_tool("worker__echo", {"text": "late"}, meta=asked)
        async with sidecar.admin() as admin:
            metrics = (await admin.get(str(admin.base_url.copy_with(path="/metrics")))).text

    assert text_of(first) == "first"
    denial = denial_of(late)
    assert denial is not None
    assert (denial["reason"], denial["remedy"]["action"]) == ("overloaded", "retry_later")
    assert 250 <= denial["retry_after_ms"] <= 60_000
    assert re.search(r'flyball_sheds_total\{backend="worker",.*reason="too_late"', metrics)
