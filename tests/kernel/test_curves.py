"""How memory and processor time of a command went, on each kind of domain of this machine."""

import anyio
import pytest

from ebpf.capability import Host
from ebpf.command import CommandResult
from ebpf.executor import LocalExecutor
from governor.curve import POINTS_MAX
from tests.ebpf.commands import MIB, Pipe, limits, python
from tests.kernel.conftest import Made

pytestmark = [pytest.mark.kernel, pytest.mark.anyio]

# Holds memory until it is told to go on, then none, and works for a while.
SCRIPT = """
import time
held = b"x" * (96 << 20)
open({path!r}, "w").write("held")
open({path!r}).read()
del held
open({path!r}, "w").write("let go")
open({path!r}).read()
while time.process_time() < 0.4:
    pass
"""


async def _until_sampled(executor: LocalExecutor, name: str, *, above: bool) -> None:
    """Return when the last sample of a command found more, or less, than the threshold."""
    while True:
        curve = executor._running[name].measure().curve
        if curve is not None and len(curve.points) > 1:
            is_above = curve.points[-1].memory_bytes >= 96 * MIB
            if is_above == above:
                return
        await anyio.sleep(0.02)


@pytest.mark.requirement("curves.from-the-domain")
async def test_a_curve_shows_memory_rise_and_fall_and_processor_time_add_up(
    any_host: Host, made: Made, pipe: Pipe
) -> None:
    executor = made(any_host)
    results: list[CommandResult] = []

    async def run() -> None:
        script = python(SCRIPT.format(path=str(pipe.path)))
        results.append(await executor.run("call", script, limits(wall_ms=60_000)))

    with anyio.fail_after(90):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await pipe.receive()
            await _until_sampled(executor, "call", above=True)
            await pipe.send("go on")
            await pipe.receive()
            await _until_sampled(executor, "call", above=False)
            await pipe.send("go on")

    curve = results[0].curve
    assert curve is not None
    held = [point.memory_bytes for point in curve.points]
    peak = held.index(max(held))
    assert held[peak] >= 96 * MIB
    assert min(held[peak:]) < 96 * MIB
    assert 1 < len(curve.points) <= POINTS_MAX
    used = [point.cpu_ms for point in curve.points if point.cpu_ms is not None]
    assert used == sorted(used)
    assert len(used) == len(curve.points)
    assert used[-1] >= 350
    assert used[-1] == results[0].cpu_ms
    assert curve.points[-1].at_ms <= results[0].wall_ms + 2_000
