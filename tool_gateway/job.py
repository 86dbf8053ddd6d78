"""One call on its way through the pipeline, and the record that stays of it."""

from dataclasses import dataclass, field, replace

from governor.amounts import Amounts, Unit
from governor.call import CallKind, CallRecord, CallStatus, Isolated, ToolCall
from governor.denial import DenialReason
from governor.estimate import estimate_tool_call
from governor.events import Reserved
from governor.ids import ArchiveId
from governor.policy import ToolRule
from governor.usage import Usage
from tool_gateway.catalog import ToolEntry
from tool_gateway.ports import Backend, Meter
from tool_gateway.results import Outcome, ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One call with everything that was resolved for it before admission."""

    call: ToolCall
    session_name: str
    entry: ToolEntry
    rule: ToolRule
    backend: Backend
    isolated: Isolated | None
    started_at_ms: int
    policy_version: str

    @property
    def estimate(self) -> Amounts:
        """Return what the call may cost at the most, turns aside."""
        measures_cpu = Unit.CPU_MS not in self.backend.unmeasurable
        return estimate_tool_call(self.rule, measures_cpu=measures_cpu)

    def under(self, reserved: Reserved) -> "Job":
        """Return the job as the call that `reserved` was held for.

        That is an identical call before this one where a person approved it meanwhile.
        """
        if reserved.reservation.call_id == self.call.call_id:
            return self
        return replace(self, call=replace(self.call, call_id=reserved.reservation.call_id))


@dataclass(slots=True)
class Progress:
    """What is known of a running call; its first values are the honest ones if it never ends."""

    status: CallStatus = CallStatus.CANCELLED
    meter: Meter = field(default_factory=Meter)
    outcome: Outcome | None = None
    detail: str = "the client went away"
    never_left: bool = False
    result: ToolResult | None = None
    archive_id: ArchiveId | None = None


def record_of(
    job: Job,
    progress: Progress,
    *,
    ended_at_ms: int,
    arguments: str,
    estimate: Amounts,
    usage: Usage | None,
    denial: DenialReason | None,
) -> CallRecord:
    """Return what is kept of a call; `arguments` is already as the privacy setting wants it."""
    outcome = progress.outcome
    return CallRecord(
        call_id=job.call.call_id,
        kind=CallKind.TOOL,
        name=job.call.tool,
        chain=job.call.chain,
        turn=job.call.turn,
        status=progress.status,
        started_at_ms=job.started_at_ms,
        ended_at_ms=ended_at_ms,
        arguments=arguments,
        backend=job.backend.name,
        rule=job.rule.name,
        policy_version=job.policy_version,
        estimate=estimate,
        usage=usage,
        denial=denial,
        detail=progress.detail,
        isolated=job.isolated if outcome is None else outcome.isolated,
        result_bytes=None if outcome is None else outcome.result.size_bytes,
        archive_id=progress.archive_id,
    )
