"""What the turnstile adds to a call that finds its upstream free, and to one that waits."""

import asyncio
import statistics
import time

from ebpf.pressure import PressureReader
from governor.call import CallStatus, ToolCall
from governor.fairness.adaptive import Adapts, Concurrency
from governor.fairness.gate import GateBounds
from governor.ids import CallId, PrincipalId, SessionId, TenantId, ToolName
from governor.scope import ScopeChain
from governor.target import CallKind
from runtime.clock import SystemClock
from runtime.configuration.contention import ContentionTable, contention_of
from tool_gateway.contention import Contention
from tool_gateway.turnstile import Turnstile

CALLS = 20_000
WAITERS = 64
ROUNDS = 9
ONE = Concurrency(start=1, lowest=1, highest=1, adapts=Adapts.NOTHING)


def call_of(agent: int) -> ToolCall:
    """Return a call of an agent's own session."""
    chain = ScopeChain(
        tenant=TenantId("acme"),
        agent=PrincipalId(f"agent-{agent}"),
        session=SessionId(f"session-{agent}"),
    )
    return ToolCall(
        call_id=CallId("call"), tool=ToolName("files__read"), arguments={}, chain=chain, turn=None
    )


async def passes(turnstile: Turnstile, call: ToolCall, times: int) -> None:
    """Go through `times`, one after the other."""
    for _ in range(times):
        with turnstile.entered(call, kind=CallKind.TOOL, backend="files") as passage:
            assert await passage.turn() is None
            passage.note(CallStatus.OK, wall_ms=3)
            if times < CALLS:
                # Give the others a chance to queue up behind.
                await asyncio.sleep(0)


async def measure(contention: Contention, *, agents: int) -> list[float]:
    """Return microseconds per pass, a figure for each round."""
    clock = SystemClock()
    reader = PressureReader(elapsed_ms=clock.elapsed_ms)
    turnstile = Turnstile(contention, clock=clock, pressure=reader)
    figures = []
    for _ in range(ROUNDS):
        began = time.perf_counter_ns()
        async with asyncio.TaskGroup() as tasks:
            for agent in range(agents):
                tasks.create_task(passes(turnstile, call_of(agent), CALLS // agents))
        figures.append((time.perf_counter_ns() - began) / CALLS / 1000)
    return figures


def show(what: str, figures: list[float]) -> None:
    """Print a row of the table."""
    print(f"| {what} | {statistics.median(figures):.1f} ({min(figures):.1f}-{max(figures):.1f}) |")


def main() -> None:
    """Print the table."""
    free = contention_of(ContentionTable(), ())
    print("| a pass | µs |\n|---|---|")
    show("nobody waits", asyncio.run(measure(free, agents=1)))
    busy = Contention(gate=GateBounds(concurrency=ONE))
    show(f"{WAITERS} agents at a slot", asyncio.run(measure(busy, agents=WAITERS)))


if __name__ == "__main__":
    main()
