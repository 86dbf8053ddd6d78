"""Starting an agent where nobody hears it: the error says what to do."""

from pathlib import Path

import pytest

from runtime.agent_runs.launcher import Start, run_agent
from runtime.agent_runs.words import Begin, Ready
from runtime.errors import RuntimeFaultError

pytestmark = pytest.mark.anyio

BEGIN = Begin(token="t", session="one", command=["true"], cwd="/")


def nothing(_: Ready) -> Start:
    return Start(command=(), environment={})


@pytest.mark.parametrize(
    ("folder", "advice"), [("state", "start one with `flyball up`"), ("d" * 120, "a shorter")]
)
async def test_a_launcher_that_reaches_nobody_says_what_to_do(
    tmp_path: Path, folder: str, advice: str
) -> None:
    with pytest.raises(RuntimeFaultError, match=advice):
        await run_agent(BEGIN, state=tmp_path / folder, started_as=nothing, tell=print)
