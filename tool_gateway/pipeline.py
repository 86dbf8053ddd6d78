"""The path that every tool call takes: resolve, admit, run, settle, record."""

from dataclasses import replace

import anyio.lowlevel

from governor.admission import AdmissionRequest
from governor.amounts import NOTHING, Amounts
from governor.call import CallRecord, CallStatus, ToolCall
from governor.denial import DenialReason, Denied
from governor.estimate import unexcused
from governor.events import KeyReused, Replayed, Reserved, Settled
from governor.ids import ReservationId, ToolName
from governor.reservation import Reservation, ReservationState
from governor.target import CallKind, CallTarget
from governor.usage import Usage
from tool_gateway import telemetry
from tool_gateway.approver import Approver
from tool_gateway.books import Books
from tool_gateway.catalog import ToolEntry
from tool_gateway.denials import (
    advised,
    ledger_unavailable,
)
from tool_gateway.errors import (
    IdempotencyConflictError,
    LedgerOverloadedError,
    LedgerUnavailableError,
    UpstreamFailedError,
    UpstreamNotReachedError,
)
from tool_gateway.exchange import NOBODY, Exchange
from tool_gateway.guards.answers import AnswerGuard
from tool_gateway.guards.cache import ResultCache
from tool_gateway.guards.flow import FlowGuard
from tool_gateway.guards.gate import ReasoningGate, gated
from tool_gateway.guards.outside import Outside
from tool_gateway.job import Job, Progress, Repeat, Served, record_of
from tool_gateway.keeping import ResultKeeper
from tool_gateway.loop_texts import loop_json
from tool_gateway.loop_watch import LoopWatch
from tool_gateway.memory.charging import MemoryCharging
from tool_gateway.memory.shortening import granted, shortened
from tool_gateway.metering import call_json, threshold_note
from tool_gateway.needs import Needing
from tool_gateway.ports import Backend, Clock, PolicySource
from tool_gateway.raising import MemoryDesk
from tool_gateway.redaction import ArgumentsKept
from tool_gateway.results import (
    BUDGET_META,
    CALL_META,
    GRANTED_META,
    LOOP_META,
    Outcome,
    ToolResult,
    text_result,
)
from tool_gateway.running import Running, RunningCalls
from tool_gateway.turn_gate import TurnGate
from tool_gateway.turnstile import Passage, Turnstile
from tool_gateway.verdicts import is_told_anyway, refused_unasked, usage_to_settle

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
        flow: FlowGuard,
        answers: AnswerGuard,
        gate: ReasoningGate | None = None,
        cache: ResultCache | None = None,
        memory: MemoryDesk | None = None,
        needing: Needing | None = None,
        charging: MemoryCharging | None = None,
        outside: Outside | None = None,
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
        self._flow = flow
        self._answers = answers
        self._gate = gate
        self._cache = cache
        self._memory = memory
        self._needing = needing
        self._charging = charging
        self._outside = outside
        self._admin_contact = admin_contact

    async def run(
        self,
        call: ToolCall,
        *,
        session_name: str,
        entry: ToolEntry,
        backend: Backend,
        patience_ms: int = 0,
        is_retry: bool = False,
        served: Served | None = None,
        arguments_bytes: int = 0,
        answers_for: ToolName | None = None,
        exchange: Exchange = NOBODY,
    ) -> ToolResult:
        """Run `call` if the policy and every budget allow it; a denial is a result too.

        `patience_ms` is how long its client may be asked things meanwhile; `is_retry` tells
        that it brings the answers. `served` answers the call where it may run at all.
        `arguments_bytes` is the size of its arguments as JSON. It `answers_for` the tool whose
        result it brings: then the content is what that tool's rule allows.

        Raises:
            IdempotencyConflictError: the key was used before with another payload.
        """
        policy = self._policy()
        rule = policy.rule_for(
            tool=call.tool,
            tenant=call.chain.tenant,
            agent=call.chain.agent,
            is_own=entry.is_own,
        )
        if answers_for is not None:
            of_tool = policy.rule_for(
                tool=answers_for, tenant=call.chain.tenant, agent=call.chain.agent
            )
            rule = replace(rule, content=of_tool.content)
        needs = None if self._needing is None else self._needing.of(call, rule, backend.name)
        rule = rule if needs is None else needs.rule
        if self._charging is not None and entry.is_own:
            rule = self._charging.narrowed(call, rule)
        job = Job(
            call=call,
            session_name=session_name,
            entry=entry,
            rule=rule,
            needs=needs,
            backend=backend,
            isolated=backend.isolation_for(call, rule.limits),
            started_at_ms=self._clock.now_ms(),
            policy=policy,
            patience_ms=patience_ms,
            is_retry=is_retry,
            repeat=Repeat(served=served),
            arguments_bytes=arguments_bytes,
            exchange=exchange,
        )
        job, refused = await self._guarded(job)
        if refused is not None:
            return await self._deny(job, refused)
        with (
            self._running.track(call.call_id, call.chain.session) as running,
            self._turnstile.entered(
                call,
                kind=CallKind.TOOL,
                backend=backend.name,
                reaches_it=job.repeat.served is None,
            ) as passage,
        ):
            return await self._run_tracked(job, running, passage)

    async def _run_tracked(self, job: Job, running: Running, passage: Passage) -> ToolResult:
        decision: Reserved | Denied | Replayed | KeyReused
        if job.rule.approval is not None:
            # A person may take long, and nobody else should wait for a slot meanwhile: the
            # call takes its turn when it is approved.
            # Nor is anybody asked about a call that would get nowhere.
            decision = passage.turned_away() or await self._approver.admit(
                job, self._request(job), running
            )
        else:
            # Stopped here, it has no slot: then the ledger says why it may not run, or it is
            # stopped where it would.
            if not passage.at_once():
                with running.stoppable():
                    await passage.turn()
            if passage.has_waited:
                job = replace(job, started_at_ms=self._clock.now_ms())
            decision = passage.denied or await self._admitted(job, running)
            if isinstance(decision, Denied) and (shorter := self._shorter(job, decision)):
                job, decision = shorter, await self._admitted(shorter, running)
        if not isinstance(decision, Reserved):
            return await self._not_run(job, decision)
        return await self._run_reserved(job.under(decision), decision, running, passage)

    async def _admitted(
        self, job: Job, running: Running
    ) -> Reserved | Denied | Replayed | KeyReused:
        leaves_at_once = job.repeat.served is None and self._flow.is_noted(job)
        request = self._request(job, leaves_at_once=leaves_at_once)
        # Before it is stored, so that no clock is faster.
        running.runs_on(request.call_id, request.reservation_id)
        return await self._turns.admit(request, task_class=job.call.task_class)

    def _shorter(self, job: Job, denied: Denied) -> Job | None:
        """Return the job cut to what a budget has left, where it can be and is of use."""
        if self._charging is None or not job.entry.is_own or job.repeat.served is not None:
            return None
        call = shortened(job.call, denied, job.rule, self._charging.prices)
        if call is None:
            return None
        rule = self._charging.narrowed(call, job.rule)
        # A shorter answer is none to the question as it was asked.
        return replace(job, call=call, rule=rule, cache_scope=None, cut=granted(call, job.call))

    async def _guarded(self, job: Job) -> tuple[Job, Denied | None]:
        """Return the job with what the guards found about it, or the first denial of theirs."""
        refused = refused_unasked(job)
        if refused is None and self._gate is not None:
            refused = await gated(self._gate, job)
        if refused is not None:
            return job, refused
        if job.repeat.served is None:
            job = await self._loops.checked(job)
            if job.repeat.denied is not None or job.repeat.served is not None:
                return job, job.repeat.denied
        flowing = await self._flow.checked(job)
        if isinstance(flowing, Denied):
            return job, flowing
        if self._outside is not None:
            asked = await self._outside.checked(flowing)
            if isinstance(asked, Denied):
                return flowing, asked
            flowing = asked
        return (flowing if self._cache is None else self._cache.looked_up(flowing)), None

    async def _not_run(self, job: Job, decision: Denied | KeyReused | Replayed) -> ToolResult:
        """Return what a call that is not run is answered with."""
        match decision:
            case Denied() if is_told_anyway(job, decision):
                return await self._told_anyway(job)
            case Denied():
                return await self._deny(job, decision)
            case KeyReused():
                raise IdempotencyConflictError
            case Replayed():
                kept = await self._keeper.replay(job.call, decision)
                replayed = self._answers.redacted(job, kept)
                return replayed.with_meta(
                    **{BUDGET_META: await self._books.standing(job.call.chain)}
                )

    def _request(self, job: Job, *, leaves_at_once: bool = False) -> AdmissionRequest:
        call, rule = job.call, job.rule
        unmeasurable = job.backend.unmeasurable
        return AdmissionRequest(
            reservation_id=ReservationId(self._clock.fresh("res")),
            call_id=call.call_id,
            target=CallTarget(kind=CallKind.TOOL, name=call.tool, upstream=job.backend.name),
            chain=call.chain,
            session_name=job.session_name,
            estimate=job.estimate,
            turn=None if rule.is_free else job.turn,
            now_ms=job.started_at_ms,
            expires_at_ms=job.started_at_ms
            + rule.limits.wall_ms
            + job.patience_ms
            + EXPIRY_GRACE_MS,
            unmeasurable=unexcused(rule, unmeasurable),
            idempotency=call.idempotency,
            # What a person is asked about has not begun: it outlives the process that asked.
            outlives_process=rule.approval is not None,
            is_free=rule.is_free,
            leaves_at_once=leaves_at_once,
        )

    async def _run_reserved(
        self, job: Job, reserved: Reserved, running: Running, passage: Passage
    ) -> ToolResult:
        """Run the call, end its hold, and return its result with how the budgets stand."""
        progress = Progress()
        if self._memory is None or job.isolated is None:
            record, settled = await self._settled(job, progress, reserved, running, passage)
            seen = settled
        else:
            # What raises hold is let go behind the settlement: in between, nobody else may be
            # given what the command has used already.
            async with self._memory.serving(job) as serving:
                record, settled = await self._settled(job, progress, reserved, running, passage)
                seen = None if serving.holds else settled
        if self._needing is not None:
            self._needing.learn(job, record)
        if self._outside is not None and progress.result is not None:
            await self._outside.saw(job, progress.result)
        standing = await self._books.after(seen, job.call.chain)
        shown, note = job.granted
        annotated = self._loops.noted(job, progress).with_meta(
            **{
                CALL_META: call_json(record, job.policy.unified),
                BUDGET_META: None if standing is None else standing.shown,
                GRANTED_META: shown,
            }
        )
        annotated = annotated.with_note(note)
        annotated = self._turns.observed(annotated, record).with_note(threshold_note(settled))
        return annotated.with_note(None if standing is None else standing.line(job.rule.tracker))

    async def _settled(
        self,
        job: Job,
        progress: Progress,
        reserved: Reserved,
        running: Running,
        passage: Passage,
    ) -> tuple[CallRecord, Settled | None]:
        """Run the call, and end its hold whatever happens from here on."""
        reservation_id = reserved.reservation.reservation_id
        running.runs_on(job.call.call_id, reservation_id)
        try:
            with telemetry.span("flyball.run"):
                await self._run_backend(job, progress, running, passage, reserved.reservation)
        except Exception as error:
            progress.status = CallStatus.UPSTREAM_FAILED
            progress.detail = f"the sidecar failed: {type(error).__name__}"
            raise
        finally:
            began_ms, ended_ms = progress.began_ms, self._clock.elapsed_ms()
            wall_ms = 0 if began_ms is None else ended_ms - began_ms
            passage.note(progress.status, wall_ms=wall_ms, sign=progress.sign)
            if self._cache is not None:
                self._cache.ended(job)
            record = self._record(
                job,
                progress,
                usage_to_settle(job, progress, reserved, wall_ms),
                estimate=reserved.amount,
            )
            telemetry.count_ended(
                kind=CallKind.TOOL.value,
                backend=job.backend.name,
                status=progress.status,
                wall_ms=wall_ms,
            )
            settled = await self._books.end(reservation_id, record)
        return record, settled

    async def _run_backend(
        self,
        job: Job,
        progress: Progress,
        running: Running,
        passage: Passage,
        reservation: Reservation,
    ) -> None:
        """Run the backend and note in `progress` how it went."""
        if job.repeat.served is not None:
            await self._serve(job, job.repeat.served, progress)
            return
        with running.stoppable() as scope:
            # Until the mark is stored nothing leaves, whoever cancels: the hold is refundable.
            denied = passage.denied if passage.at_once() else await passage.turn()
            progress.began_ms = self._clock.elapsed_ms()
            denied = denied or await self._forward(job, reservation)
            if denied is not None:
                progress.note_denied(self._told(job, denied), job.entry)
                return
            # Whoever was stopped up to here has sent nothing, whatever the mark says.
            await anyio.lowlevel.checkpoint_if_cancelled()
            progress.never_left = False
            try:
                outcome = await job.backend.run(job.call, job.rule.limits, progress.meter)
            except UpstreamNotReachedError as error:
                told = progress.note_not_reached(error, job.call.tool)
                progress.result = self._failure_told(job, progress, told)
            except UpstreamFailedError as error:
                told = progress.note_failed(error, job.call.tool)
                progress.result = self._failure_told(job, progress, told)
            else:
                progress.outcome = outcome  # its usage stands, whatever becomes of its result
                guarded = await self._answers.checked(job, outcome)
                progress.result = progress.note_outcome(guarded.outcome)
                progress.archive_id = guarded.archive_id
            if not progress.never_left:
                kept = await self._keeper.keep(
                    progress.result, call=job.call, entry=job.entry, rule=job.rule
                )
                progress.result = kept.result
                progress.archive_id = kept.archive_id or progress.archive_id
                self._flow.learn(job, progress.result)
                if self._cache is not None:
                    self._cache.keep(job, progress)
                return
        if scope.cancelled_caught:
            # An administrator or the shutdown stopped the call.
            progress.status = CallStatus.CANCELLED
            progress.detail = running.stopped_why or "stopped"
            progress.result = text_result(
                f"The call was stopped: {progress.detail}.", is_error=True
            )

    def _failure_told(self, job: Job, progress: Progress, told: ToolResult) -> ToolResult:
        """Return what is told of a failure, the words of which can quote the upstream's."""
        progress.detail = self._answers.text_redacted(job, progress.detail)
        return self._answers.redacted(job, told)

    async def _serve(self, job: Job, served: Served, progress: Progress) -> None:
        """Answer with an earlier result, which its session may not have seen yet."""
        progress.note_served(served)
        outcome = Outcome(result=served.result, detail=progress.detail)
        shown = self._answers.again(job, outcome)
        progress.status, progress.detail = shown.status, shown.detail
        progress.result = shown.result
        denied = await self._noted(job)
        if denied is not None:
            progress.note_denied(self._told(job, denied), job.entry)

    async def _forward(self, job: Job, reservation: Reservation) -> Denied | None:
        """Return why a call may not leave: what it will show is kept first, then its mark."""
        if reservation.state is ReservationState.FORWARDED:
            return None
        return await self._noted(job) or await self._books.forward(reservation.reservation_id)

    async def _noted(self, job: Job) -> Denied | None:
        """Keep what a call will show its session, or return why that cannot be."""
        try:
            await self._flow.note(job)
        except (LedgerUnavailableError, LedgerOverloadedError):
            telemetry.count_failure("flow")
            return ledger_unavailable()
        return None

    def _record(
        self,
        job: Job,
        progress: Progress,
        usage: Usage | None,
        *,
        estimate: Amounts | None = None,
    ) -> CallRecord:
        return record_of(
            job,
            progress,
            ended_at_ms=self._clock.now_ms(),
            arguments=job.arguments_kept(self._arguments_kept),
            estimate=job.estimate if estimate is None else estimate,
            usage=usage,
        )

    async def _deny(self, job: Job, denied: Denied) -> ToolResult:
        denied = self._told(job, denied)
        nothing_ran = Progress()
        nothing_ran.note_denied(denied, job.entry)
        # A call that waits for a person holds its estimate: its record is written at its end.
        if denied.reason is not DenialReason.APPROVAL_PENDING:
            await self._books.note_unheld(self._record(job, nothing_ran, None))
        assert nothing_ran.result is not None, "a denial is a result"
        standing = await self._books.standing(job.call.chain)
        loop = job.repeat.loop
        return nothing_ran.result.with_meta(
            **{
                CALL_META: {"call_id": job.call.call_id},
                BUDGET_META: standing,
                LOOP_META: None if loop is None else loop_json(loop),
            }
        )

    async def _told_anyway(self, job: Job) -> ToolResult:
        """Answer a question about the session's own state, which changes nothing in it."""
        progress = Progress()
        outcome = await job.backend.run(job.call, job.rule.limits, progress.meter)
        progress.outcome, progress.status = outcome, outcome.status
        progress.result, progress.detail = outcome.result, outcome.detail
        record = self._record(job, progress, Usage(measured=NOTHING))
        await self._books.note_unheld(record)
        return outcome.result.with_meta(
            **{
                CALL_META: call_json(record, job.policy.unified),
                BUDGET_META: await self._books.standing(job.call.chain),
            }
        )

    def _told(self, job: Job, denied: Denied) -> Denied:
        """Return the denial as the caller is told of it, and count it."""
        self._books.count_denied(job.call, CallKind.TOOL, denied)
        return advised(denied, cheaper=job.rule.cheaper, contact=self._admin_contact)
