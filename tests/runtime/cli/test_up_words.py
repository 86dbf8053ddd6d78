"""What `flyball up` says after it has begun to serve."""

from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from governor.ids import UpstreamName
from runtime.cli.up import _tell_late
from tool_gateway.upstreams.standing import Standing

pytestmark = pytest.mark.anyio


def connected(standing: Standing, name: str, *, tools: int) -> Any:
    class Connection:
        problem = ""
        entries = ("tool",) * tools
        settled = standing.settled

        @property
        def name(self) -> str:
            return name

        @property
        def state(self) -> str:
            return standing.state

    return Connection()


async def test_an_upstream_that_starts_late_is_told_of_once_it_is_up(
    capsys: pytest.CaptureFixture[str],
) -> None:
    slow, quick = Standing(UpstreamName("time")), Standing(UpstreamName("git"))
    quick.ready()
    connections = [connected(quick, "git", tools=12), connected(slow, "time", tools=1)]
    sidecar: Any = SimpleNamespace(fleet=SimpleNamespace(connections=connections))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_tell_late, sidecar, ["time"])
            await anyio.wait_all_tasks_blocked()
            assert capsys.readouterr().out == ""
            slow.ready()

    assert capsys.readouterr().out == "  upstream time       ready, 1 tool\n"
