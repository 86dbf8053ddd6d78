"""The path that every tool call takes: resolve, admit, run, settle, record."""

from dataclasses import replace

from governor.admission import AdmissionRequest
from governor.amounts import Amounts
from governor.call import CallKind, CallRecord, CallStatus, Enforcement, ToolCall
from governor.denial import DenialReason, Denied
from governor.estimate import unexcused
from governor.events import KeyReused, Replayed, Reserved
from governor.ids import ReservationId
from governor.limits import Isolation
from governor.target import CallTarget
from governor.usage import Usage
from tool_gateway import telemetry
from tool_gateway.approver import Approver
from tool_gateway.books import Books
from tool_gateway.catalog import ToolEntry
from tool_gateway.denials import (
    advised,
    denial_result,
    isolation_unavailable,
    ledger_unavailable,
    policy_denied,
)
from tool_gateway.errors import (
    IdempotencyConflictError,
    UpstreamFailedError,
    UpstreamNotReachedError,
)
from tool_gateway.job import Job, Progress, record_of
from tool_gateway.keeping import ResultKeeper
from tool_gateway.loop_texts import loop_json
from tool_gateway.loop_watch import LoopWatch
from tool_gateway.metering import call_json, usage_of
from tool_gateway.ports import Backend, Clock, PolicySource
from tool_gateway.redaction import ArgumentsKept, render_arguments
from tool_gateway.results import BUDGET_META, CALL_META, LOOP_META, ToolResult, text_result
from tool_gateway.running import Running, RunningCalls
from tool_gateway.turn_gate import TurnGate
from tool_gateway.turnstile import Passage, Turnstile

# A hold outlives the longest run by this much before the reaper ends it.
EXPIRY_GRACE_MS = 60_000


class Pipeline:
    """Runs tool calls under budgets; whatever happens, each reservation is ended once."""

    def __init__(
        self,
        *,
        books: Books,
        turns: TurnGate,
        approver: Approver,
        keeper: ResultKeeper,
        clock: Clock,
        policy: PolicySource,
        running: RunningCalls,
        arguments_kept: ArgumentsKept,
        turnstile: Turnstile,
        loops: LoopWatch,
        admin_contact: str | None = None,
    ) -> None:
        """Take the ports; nothing is started. Denials name `admin_contact` as whom to ask."""
        self._turnstile = turnstile
        self._books = books
        self._turns = turns
        self._approver = approver
        self._keeper = keeper
        self._clock = clock
        self._policy = policy
        self._running = running
        self._arguments_kept = arguments_kept
        self._loops = loops
        self._admin_contact = admin_contact

    async def run(
        self,
        call: ToolCall,
        *,
        session_name: str,
        entry: ToolEntry,
        backend: Backend,
        patience_ms: int = 0,
    ) -> ToolResult:
        """Run `call` if the policy and every budget allow it; a denial is a result too.

        `patience_ms` is how long its client may be asked things meanwhile.

        Raises:
            IdempotencyConflictError: the key was used before with another payload.
        """
        policy = self._policy()
        rule = policy.rule_for(tool=call.tool, tenant=call.chain.tenant, agent=call.chain.agent)
        job = Job(
            call=call,
            session_name=session_name,
            entry=entry,
            rule=rule,
            backend=backend,
            isolated=backend.isolation_for(call, rule.limits),
            started_at_ms=self._clock.now_ms(),
            policy=policy,
            patience_ms=patience_ms,
        )
        refused = _refused(job)
        if refused is None:
            job = await self._loops.checked(job)
            refused = job.repeat.denied
        if refused is not None:
            return await self._deny(job, refused)
        approved: Reserved | None = None
        if job.rule.approval is not None:
            # A person may take long, and nobody else should wait for a slot meanwhile.
            decision = await self._approver.admit(job, self._request(job))
            if not isinstance(decision, Reserved):
                return await self._not_run(job, decision)
            approved, job = decision, job.under(decision)
        entered = self._turnstile.entered(call, kind=CallKind.TOOL, backend=backend.name)
        async with entered as passage:
            if approved is not None:
                return await self._run_reserved(job, approved, passage)
            if passage.has_waited:
                job = replace(job, started_at_ms=self._clock.now_ms())
            return await self._run_admitted(job, passage)

    async def _run_admitted(self, job: Job, passage: Passage) -> ToolResult:
        decision = passage.denied or await self._turns.admit(
            self._request(job), task_class=job.call.task_class
        )
        if isinstance(decision, Reserved):
            return await self._run_reserved(job, decision, passage)
        return await self._not_run(job, decision)

    async def _not_run(self, job: Job, decision: Denied | KeyReused | Replayed) -> ToolResult:
        """Return what a call that is not run is answered with."""
        match decision:
            case Denied():
                return await self._deny(job, decision)
            case KeyReused():
                raise IdempotencyConflictError
            case Replayed():
                replayed = await self._keeper.replay(job.call, decision)
                return replayed.with_meta(
                    **{BUDGET_META: await self._books.standing(job.call.chain)}
                )

    def _request(self, job: Job) -> AdmissionRequest:
        call, rule = job.call, job.rule
        unmeasurable = job.backend.unmeasurable
        return AdmissionRequest(
            reservation_id=ReservationId(self._clock.fresh("res")),
            call_id=call.call_id,
            target=CallTarget(kind=CallKind.TOOL, name=call.tool, upstream=job.backend.name),
            chain=call.chain,
            session_name=job.session_name,
            estimate=job.estimate,
            turn=job.turn,
            now_ms=job.started_at_ms,
            expires_at_ms=job.started_at_ms
            + rule.limits.wall_ms
            + job.patience_ms
            + EXPIRY_GRACE_MS,
            unmeasurable=unexcused(rule, unmeasurable),
            idempotency=call.idempotency,
            # What a person is asked about has not begun: it outlives the process that asked.
            outlives_process=rule.approval is not None,
        )

    async def _run_reserved(self, job: Job, reserved: Reserved, passage: Passage) -> ToolResult:
        progress = Progress()
        began = self._clock.elapsed_ms()
        with self._running.track(job.call.call_id, job.call.chain.session) as running:
            try:
                with telemetry.tracer.start_as_current_span("flyball.run"):
                    if passage.denied is None:
                        await self._run_backend(job, reserved, progress, running)
                    else:
                        # A person said yes, and then there was no place for the call.
                        progress.note_turned_away(passage.denied, job.entry)
            except Exception as error:
                progress.status = CallStatus.UPSTREAM_FAILED
                progress.detail = f"the sidecar failed: {type(error).__name__}"
                raise
            finally:
                wall_ms = self._clock.elapsed_ms() - began
                passage.note(progress.status, wall_ms=wall_ms)
                record = self._record(
                    job,
                    progress,
                    _usage(job, progress, reserved, wall_ms),
                    estimate=reserved.amount,
                )
                telemetry.count_ended(
                    kind=CallKind.TOOL.value,
                    backend=job.backend.name,
                    status=progress.status,
                    wall_ms=wall_ms,
                )
                settled = await self._books.end(reserved.reservation.reservation_id, record)
        standing = await self._books.after(settled, job.call.chain)
        annotated = self._loops.noted(job, progress).with_meta(
            **{CALL_META: call_json(record, job.policy.unified)}
        )
        annotated = self._turns.observed(annotated, record)
        if standing is None:
            return annotated.with_meta(**{BUDGET_META: None})
        return annotated.with_meta(**{BUDGET_META: standing.shown}).with_note(
            standing.line(job.rule.tracker)
        )

    async def _run_backend(
        self, job: Job, reserved: Reserved, progress: Progress, running: Running
    ) -> None:
        """Run the backend and note in `progress` how it went."""
        if job.repeat.served is not None:
            progress.note_served(job.repeat.served)
            return
        with running.scope:
            # Until the mark is stored nothing leaves, whoever cancels: the hold is refundable.
            progress.never_left = True
            if not await self._books.forward(reserved.reservation.reservation_id):
                progress.status, progress.detail = CallStatus.RELEASED, "the ledger failed"
                progress.result = denial_result(
                    ledger_unavailable(), has_output_schema=job.entry.has_output_schema
                )
                return
            progress.never_left = False
            try:
                outcome = await job.backend.run(job.call, job.rule.limits, progress.meter)
            except UpstreamNotReachedError as error:
                progress.never_left = True
                progress.status, progress.detail = CallStatus.RELEASED, str(error)
                progress.result = text_result(
                    f"{job.call.tool} was not run: {error}", is_error=True
                )
            except UpstreamFailedError as error:
                progress.result = progress.note_failed(error, job.call.tool)
            else:
                progress.outcome, progress.detail = outcome, outcome.detail
                progress.status, progress.result = outcome.status, outcome.result
            if not progress.never_left:
                kept = await self._keeper.keep(
                    progress.result, call=job.call, entry=job.entry, rule=job.rule
                )
                progress.result, progress.archive_id = kept.result, kept.archive_id
                return
        if running.scope.cancelled_caught:
            # The scope was cancelled: an administrator or the shutdown stopped the call.
            progress.status = CallStatus.CANCELLED
            progress.detail = running.stopped_why or "stopped"
            progress.result = text_result(
                f"The call was stopped: {progress.detail}.", is_error=True
            )

    def _record(
        self,
        job: Job,
        progress: Progress,
        usage: Usage | None,
        *,
        estimate: Amounts | None = None,
        denial: DenialReason | None = None,
    ) -> CallRecord:
        call = job.call
        return record_of(
            job,
            progress,
            ended_at_ms=self._clock.now_ms(),
            arguments=render_arguments(call.tool, call.arguments, self._arguments_kept),
            estimate=job.estimate if estimate is None else estimate,
            usage=usage,
            denial=denial,
        )

    async def _deny(self, job: Job, denied: Denied) -> ToolResult:
        denied = advised(denied, cheaper=job.rule.cheaper, contact=self._admin_contact)
        telemetry.count_denied(kind=CallKind.TOOL.value, reason=denied.reason)
        nothing_ran = Progress(status=CallStatus.DENIED, detail=denied.remedy.text)
        record = self._record(job, nothing_ran, None, denial=denied.reason)
        # A call that waits for a person holds its estimate: its record is written at its end.
        if denied.reason is not DenialReason.APPROVAL_PENDING:
            await self._books.note_denied(record)
        result = denial_result(denied, has_output_schema=job.entry.has_output_schema)
        standing = await self._books.standing(job.call.chain)
        loop = job.repeat.loop
        return result.with_meta(
            **{
                CALL_META: {"call_id": job.call.call_id},
                BUDGET_META: standing,
                LOOP_META: None if loop is None else loop_json(loop),
            }
        )


def _refused(job: Job) -> Denied | None:
    """Return the denial of what needs no budget to be refused."""
    rule, isolated = job.rule, job.isolated
    if not rule.allow:
        return policy_denied(rule.name, job.call.tool)
    if isolated is None or rule.isolation is Isolation.BEST_EFFORT:
        return None
    if isolated.enforcement is not Enforcement.ENFORCED or not isolated.contained:
        return isolation_unavailable(isolated.why or f"limits are only {isolated.enforcement}")
    return None


def _usage(job: Job, progress: Progress, reserved: Reserved, wall_ms: int) -> Usage | None:
    """Return what to settle; None when provably nothing was consumed."""
    if progress.never_left:
        return None
    return usage_of(
        job.rule,
        held=reserved.amount,
        wall_ms=wall_ms,
        # Whoever went away reads nothing. The gateway's own notes, which are told only once
        # the call is settled, are not counted.
        text_chars=0 if progress.result is None else progress.result.text_chars,
        backend=progress.meter.usage if progress.outcome is None else progress.outcome.usage,
        unmeasurable=job.backend.unmeasurable,
    )
