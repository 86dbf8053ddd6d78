"""Calls of tools whose upstream is not there: waited for while it starts, recorded if denied."""

from collections.abc import Callable

import anyio

from governor.amounts import NOTHING
from governor.call import CallRecord, CallStatus, ToolCall
from governor.denial import Denied
from governor.ids import UpstreamName
from governor.policy import Policy
from governor.target import CallKind
from tool_gateway.redaction import ArgumentsKept, render_arguments
from tool_gateway.relays import PresenceState, Relay

# What is offered for the first time is stored before it is shown.
_TOLD_SECONDS_MAX = 5.0
_LOOK_SECONDS = 0.05


async def awaited(relay: Relay, is_told: Callable[[], bool]) -> None:
    """Return when an upstream that is starting shows its tools, or did not come up in its time."""
    await relay.started()
    if relay.presence.state is not PresenceState.OK:
        return
    with anyio.move_on_after(_TOLD_SECONDS_MAX):
        while not is_told():  # noqa: ASYNC110 - the catalog tells nobody
            await anyio.sleep(_LOOK_SECONDS)


def record_of_absence(
    call: ToolCall, upstream: UpstreamName, denied: Denied, *, policy: Policy, now_ms: int
) -> CallRecord:
    """Return what is kept of a call that its upstream was not there for.

    Of the arguments that is a hash, whatever is kept of others': nobody can say yet which of them
    a record may show.
    """
    rule = policy.rule_for(tool=call.tool, tenant=call.chain.tenant, agent=call.chain.agent)
    return CallRecord(
        call_id=call.call_id,
        kind=CallKind.TOOL,
        name=call.tool,
        chain=call.chain,
        turn=call.turn,
        status=CallStatus.DENIED,
        started_at_ms=now_ms,
        ended_at_ms=now_ms,
        arguments=render_arguments(call.tool, call.arguments, ArgumentsKept.HASH),
        backend=upstream,
        rule=rule.name,
        policy_version=policy.version,
        estimate=NOTHING,
        denial=denied.reason,
        detail=denied.remedy.text,
    )
