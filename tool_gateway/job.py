"""One call on its way through the pipeline, and the record that stays of it."""

from dataclasses import dataclass, field, replace

from governor.amounts import NOTHING, Amounts
from governor.breaker import Sign
from governor.call import CallRecord, CallStatus, Isolated, ToolCall
from governor.denial import DenialReason, Denied
from governor.estimate import estimate_tool_call
from governor.events import Reserved
from governor.expectation import Work
from governor.ids import ArchiveId, CallId, SessionId, ToolName, TurnId
from governor.loops import Entry, Loop
from governor.policy import Policy, ToolRule
from governor.target import CallKind
from governor.usage import Usage
from tool_gateway.catalog import ToolEntry
from tool_gateway.denials import denial_result
from tool_gateway.errors import (
    UpstreamDownError,
    UpstreamFailedError,
    UpstreamLostError,
    UpstreamNotReachedError,
    UpstreamSaidError,
)
from tool_gateway.exchange import NOBODY, Exchange
from tool_gateway.ports import Backend, Meter
from tool_gateway.redaction import ArgumentsKept, likeness_hash, render_arguments
from tool_gateway.results import Fault, Json, Outcome, ToolResult, text_result


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """An earlier result that answers a call again, the call that it was of, and its turn."""

    answer: CallId
    turn: TurnId | None
    result: ToolResult
    session: SessionId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """What the earlier calls of its session mean for a call.

    `entry` is how the call will be remembered. Where its run would only lengthen `loop`,
    it is `denied`, or `served` in its stead.
    """

    entry: Entry | None = None
    loop: Loop | None = None
    denied: Denied | None = None
    served: Served | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a call may have and what is held for it, by which kind of work; `shown` says why."""

    rule: ToolRule
    work: Work
    shown: Json | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One call with everything that was resolved for it before admission.

    `is_retry` tells that it brings what its server asked for: the same arguments again, and
    yet no repetition. `cache_scope` is where its answer may be kept, None where it may not.
    `arguments_bytes` is the size of the arguments as JSON, `exchange` reaches the client.
    `needs` is what its rule was narrowed to, and why. `cut` tells, for programs
    and in words, that a budget was too short for all that was asked for.
    """

    call: ToolCall
    session_name: str
    entry: ToolEntry
    rule: ToolRule
    backend: Backend
    isolated: Isolated | None
    started_at_ms: int
    policy: Policy
    patience_ms: int = 0
    is_retry: bool = False
    repeat: Repeat = field(default_factory=Repeat)
    cache_scope: object = None
    arguments_bytes: int = 0
    exchange: Exchange = NOBODY
    needs: Needs | None = None
    cut: tuple[Json, str] | None = None

    @property
    def turn(self) -> TurnId | None:
        """Return the turn that pays for the call.

        A client that cannot name turns is counted by its calls where the rule says so. A
        call that is served rides on the turn that it is served from: it costs nothing.
        """
        if self.repeat.served is not None:
            return self.repeat.served.turn
        call = self.call
        return TurnId(call.call_id) if self.rule.turn_per_call and call.turn is None else call.turn

    @property
    def estimate(self) -> Amounts:
        """Return what the call may cost at the most, turns aside."""
        if self.repeat.served is not None:
            return NOTHING
        return estimate_tool_call(
            self.rule,
            unmeasurable=self.backend.unmeasurable,
            milliwatts_per_core=self.policy.milliwatts_per_core,
        )

    def arguments_kept(self, kept: ArgumentsKept) -> str:
        """Return what its record keeps of the arguments."""
        call = self.call
        return render_arguments(call.tool, call.arguments, kept, unrecorded=self.entry.unrecorded)

    @property
    def granted(self) -> tuple[Json | None, str | None]:
        """Return what it got where that is not what was asked for, with a note of it."""
        if self.cut is not None:
            return self.cut
        return None if self.needs is None else self.needs.shown, None

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
    # Nothing leaves for the backend before the mark of the hold is stored.
    never_left: bool = True
    began_ms: int | None = None
    denial: DenialReason | None = None
    result: ToolResult | None = None
    archive_id: ArchiveId | None = None
    # What the end says of the upstream: that it answers, that it fails, or nothing.
    sign: Sign = Sign.NOTHING

    def note_not_reached(self, error: UpstreamNotReachedError, tool: ToolName) -> ToolResult:
        """Note that nothing of the call was sent after all; return how that is told."""
        self.never_left = True
        self.status, self.detail = CallStatus.RELEASED, str(error)
        self.sign = Sign.ILL if isinstance(error, UpstreamDownError) else Sign.NOTHING
        return text_result(f"{tool} was not run: {error}", is_error=True)

    def note_served(self, served: Served) -> None:
        """Note that an earlier result answers the call and nothing ran."""
        self.status, self.detail = CallStatus.OK, "served from an earlier result"
        self.result = served.result

    def note_outcome(self, outcome: Outcome) -> ToolResult:
        """Note how the backend ended the call; return what it answered."""
        self.outcome, self.detail = outcome, outcome.detail
        self.status, self.result = outcome.status, outcome.result
        self.sign = Sign.ILL if outcome.status is CallStatus.TIMED_OUT else Sign.WELL
        return outcome.result

    def note_failed(self, error: UpstreamFailedError, tool: ToolName) -> ToolResult:
        """Note that the backend failed after the call was sent; return how that is told."""
        self.status, self.detail = CallStatus.UPSTREAM_FAILED, str(error)
        told = text_result(f"{tool} failed: {error}", is_error=True)
        self.sign = Sign.ILL if isinstance(error, UpstreamLostError) else Sign.NOTHING
        if isinstance(error, UpstreamSaidError):
            self.sign = Sign.WELL  # it refuses the call, and answers
            fault = Fault(code=error.code, words=error.words, data=error.data)
            told = replace(told, fault=fault)
        return told

    def note_denied(self, denied: Denied, entry: ToolEntry) -> None:
        """Note that the call was denied, before anything of it left for its backend."""
        self.status, self.detail = CallStatus.DENIED, denied.remedy.text
        self.denial = denied.reason
        self.result = denial_result(denied, has_output_schema=entry.has_output_schema)


def record_of(
    job: Job,
    progress: Progress,
    *,
    ended_at_ms: int,
    arguments: str,
    estimate: Amounts,
    usage: Usage | None,
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
        policy_version=job.policy.version,
        estimate=estimate,
        usage=usage,
        denial=progress.denial,
        detail=progress.detail,
        isolated=job.isolated if outcome is None else outcome.isolated,
        result_bytes=None if outcome is None else outcome.result.size_bytes,
        archive_id=progress.archive_id,
        **_hashes(job, progress),
    )


def _hashes(job: Job, progress: Progress) -> dict[str, str | None]:
    """Return what tells whether a call repeats an earlier one of its session.

    The session is part of what is hashed, so that nothing can be looked up from outside of it.
    The governor's own answers are left out: asking for one's budget is no work.
    """
    outcome = progress.outcome
    if outcome is None or job.entry.is_bounded:
        return {}
    session = job.call.chain.session
    result = outcome.result
    answered = {"content": result.content, "structured": result.structured, **result.extra}
    return {
        "arguments_hash": likeness_hash(f"{session}/{job.call.tool}", job.call.arguments),
        "result_hash": likeness_hash(session, answered),
    }
