"""What is given back of a server's process, whatever its placement does."""

import anyio
import pytest
from scenarios.process import is_alive

from governor.ids import UpstreamName
from tests.tool_gateway.placement import Unfenced
from tool_gateway.upstreams import process
from tool_gateway.upstreams.process import server_process
from tool_gateway.upstreams.spec import StdioSpec
from tool_gateway.upstreams.vitals import Vitals

pytestmark = pytest.mark.anyio
STUBBORN = ("/bin/sh", "-c", "trap '' TERM; while :; do sleep 0.1; done")


class StuckError(Exception):
    """The domain would not go."""


class Stuck(Unfenced):
    """Starts servers as they are, and cannot end them."""

    pid = 0

    def server_started(self, name: str, pid: int) -> None:
        self.pid = pid

    async def server_processes(self, name: str) -> tuple[int, ...]:
        return (self.pid,)

    async def end_server(self, name: str) -> None:
        raise StuckError


@pytest.mark.requirement("process.none-outlives-sidecar")
async def test_a_process_is_buried_though_its_domain_would_not_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "CLOSED_SECONDS_MAX", 0.05)
    monkeypatch.setattr(process, "ASKED_SECONDS_MAX", 0.05)
    placement, vitals = Stuck(), Vitals(name="local")
    spec = StdioSpec(name=UpstreamName("local"), command=STUBBORN)

    with anyio.fail_after(60), pytest.raises(StuckError):
        async with server_process(spec, placed_as="local", placement=placement, vitals=vitals):
            assert vitals.pid == placement.pid

    assert vitals.pid is None
    assert not is_alive(placement.pid)
