"""What a flow decision costs on the path of a call: read, asked for, and stopped."""

import asyncio
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from governor.call import ToolCall
from governor.denial import Denied
from governor.flow.labels import Label
from governor.flow.policy import FlowPolicy
from governor.ids import CallId, PrincipalId, SessionId, TenantId, ToolName, UpstreamName
from governor.limits import ExecutionLimits
from governor.policy import ApprovalTerms, Match, ToolRule
from governor.scope import ScopeChain
from runtime.clock import SystemClock
from tool_gateway.catalog import ToolEntry
from tool_gateway.guards.flow import FlowGuard
from tool_gateway.ports import FlowKnown

CALLS = 5_000
CHAIN = ScopeChain(tenant=TenantId("t"), agent=PrincipalId("a"), session=SessionId("s"))
LIMITS = ExecutionLimits(
    memory_bytes=None, pids=None, cpu_millis=None, cpu_ms=None, wall_ms=5_000, output_bytes=1_000
)
RULE = ToolRule(name="any", match=Match(), allow=True, limits=LIMITS)
WORDS = (
    "Please read the minutes of the kickoff meeting and send a summary to zoe.miller@acme.test "
    "and Sam Carter, with the subject 'Kickoff'. The next meeting is on 2026-05-04 at 10:00. "
) * 3
BODY = "The project begins in May; the budget is as it was agreed. See www.acme.test/kickoff. " * 12


class Store:
    """Where nothing has to be asked for twice."""

    async def known(self, session: SessionId) -> FlowKnown:
        """Return a session that has read what others wrote."""
        return FlowKnown(
            root=session, marks={Label.SEES_UNTRUSTED: ToolName("mail__read")}, words=WORDS
        )


def entry(name: str, *parameters: str) -> ToolEntry:
    """Return a tool with text parameters."""
    properties = {each: {"type": "string"} for each in parameters}
    return ToolEntry(
        exposed=ToolName(f"mail__{name}"),
        original=name,
        backend=UpstreamName("mail"),
        definition={"name": name, "inputSchema": {"type": "object", "properties": properties}},
    )


@dataclass(frozen=True, kw_only=True)
class Looked:
    """What of a job the guard looks at."""

    call: ToolCall
    entry: ToolEntry
    rule: ToolRule


def job_of(tool: ToolEntry, arguments: Mapping[str, object]) -> Looked:
    """Return a call of a tool."""
    call = ToolCall(
        call_id=CallId("c"), tool=tool.exposed, arguments=arguments, chain=CHAIN, turn=None
    )
    return Looked(call=call, entry=tool, rule=RULE)


async def measure(tool: ToolEntry, arguments: Mapping[str, str]) -> tuple[list[float], bool]:
    """Return microseconds per decision, and whether the call may run.

    Each call's text is its own, so that nothing is known from the one before.
    """
    guard = FlowGuard(
        policy=FlowPolicy(),
        approval=ApprovalTerms(wait_ms=0, ttl_ms=1),
        store=cast("Any", Store()),
        clock=SystemClock(),
    )
    figures, passed = [], True
    for number in range(CALLS):
        texts = {k: v + f" #{number}" if k == "body" else v for k, v in arguments.items()}
        job = job_of(tool, texts)
        began = time.perf_counter_ns()
        decided = await guard.checked(cast("Any", job))
        figures.append((time.perf_counter_ns() - began) / 1_000)
        assert not isinstance(decided, Denied)
        passed = decided.rule.approval is None
    return figures, passed


def main() -> None:
    """Print a row for each kind of call."""
    send = entry("send_letter", "recipient", "subject", "body")
    to_zoe = {"recipient": "zoe.miller@acme.test", "subject": "Kickoff", "body": "All is well."}
    rows = {
        "a tool that only reads": (entry("read_inbox"), {}),
        "a letter that was asked for": (send, to_zoe),
        "the same with 1 KB of text": (send, {**to_zoe, "body": BODY.replace("www.", "")}),
        "a letter to somebody else": (send, {**to_zoe, "recipient": "mallory@evil.example"}),
    }
    print("| decision | p50 µs | p99 µs | outcome |\n|---|---|---|---|")
    for what, (tool, arguments) in rows.items():
        figures, passed = asyncio.run(measure(tool, arguments))
        p50, p99 = statistics.median(figures), statistics.quantiles(figures, n=100)[98]
        print(f"| {what} | {p50:.1f} | {p99:.1f} | {'runs' if passed else 'is asked about'} |")


if __name__ == "__main__":
    main()
