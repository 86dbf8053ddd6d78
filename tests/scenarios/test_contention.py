"""A greedy agent and a small one, in front of a real upstream that takes two calls at once."""

import re
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import anyio
import pytest
from mcp import Client
from scenarios.process import SidecarProcess, appears, denial_of, text_of

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


@dataclass
class Order:
    """Calls whose order at the upstream is known by the files that they write as they begin."""

    sidecar: SidecarProcess
    folder: Path

    async def hold(self, name: str) -> None:
        """Keep one of the upstream's places until the file `until` is there."""
        async with self.sidecar.agent(name) as client:
            begun = {"started": str(self.folder / name), "until": str(self.folder / "until")}
            assert text_of(await client.call_tool("worker__hold", begun)) == "held"

    async def calls(self, who: str, count: int, *, token: str | None = None) -> None:
        """Have so many calls at once wait for their turn."""
        async with (
            self.sidecar.agent(who, token=token) as client,
            anyio.create_task_group() as tasks,
        ):
            for number in range(count):
                tasks.start_soon(self._call, client, f"{who}.{number}")

    async def _call(self, client: Client, name: str) -> None:
        begun = {"started": str(self.folder / name), "seconds": 0.01}
        answer = await client.call_tool("worker__sleep", begun)
        assert not answer.is_error, text_of(answer)

    async def waiting(self, count: int) -> None:
        """Return when exactly so many calls wait at the sidecar."""
        async with self.sidecar.admin() as admin:
            path = str(admin.base_url.copy_with(path="/metrics"))
            while not re.search(
                rf'^flyball_waiting{{backend="worker".*}} {count}(\.0)?$',
                (await admin.get(path)).text,
                re.MULTILINE,
            ):
                await anyio.sleep(0.05)

    def passed_by(self, who: str) -> list[int]:
        """Return how many other calls began before each of the calls of `who` that waited."""
        begun = sorted(self.folder.glob("*.*"), key=lambda path: path.stat().st_mtime_ns)
        places = [at for at, path in enumerate(begun) if path.name.startswith(who)]
        return [at - before - 1 for before, at in pairwise([-1, *places])]


@pytest.mark.requirement("contention.nobody-starves")
@pytest.mark.parametrize("sidecar", [TWO_AT_ONCE, TWO_AT_ONCE + COMMONS], indirect=True)
async def test_a_small_agent_is_passed_by_a_handful_of_the_greedy_ones_calls(
    sidecar: SidecarProcess, tmp_path: Path
) -> None:
    secret = await token_for(sidecar, "small")
    order = Order(sidecar, tmp_path / "begun")
    order.folder.mkdir()

    with anyio.fail_after(100):
        async with anyio.create_task_group() as tasks:
            for number in range(AT_ONCE):
                tasks.start_soon(order.hold, f"held-{number}")
                await appears(order.folder / f"held-{number}")
            for number in range(GREEDY_SESSIONS):
                tasks.start_soon(order.calls, f"greedy-{number}", GREEDY_CALLS_EACH)
            await order.waiting(GREEDY_SESSIONS * GREEDY_CALLS_EACH)
            tasks.start_soon(partial(order.calls, "small", SMALL_CALLS, token=secret))
            await order.waiting(GREEDY_SESSIONS * GREEDY_CALLS_EACH + SMALL_CALLS)
            (order.folder / "until").touch()

    # Each agent has its turn, twice at a tie; those that run at once begin in any order.
    passed_by = order.passed_by("small")
    assert len(passed_by) == SMALL_CALLS
    assert max(passed_by) <= 2 * AT_ONCE, passed_by
    assert sum(passed_by) <= SMALL_CALLS * AT_ONCE, passed_by


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
