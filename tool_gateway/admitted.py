"""What becomes of an admitted tool call: it is run, settled, recorded, told of."""

import anyio.lowlevel

from governor.call import CallRecord, CallStatus
from governor.denial import Denied
from governor.events import Reserved, Settled
from governor.reservation import Reservation, ReservationState
from governor.target import CallKind
from tool_gateway import telemetry
from tool_gateway.books import Books
from tool_gateway.denials import ledger_unavailable
from tool_gateway.errors import (
    LedgerOverloadedError,
    LedgerUnavailableError,
    UpstreamFailedError,
    UpstreamNotReachedError,
)
from tool_gateway.guards.answers import AnswerGuard
from tool_gateway.guards.cache import ResultCache
from tool_gateway.guards.flow import FlowGuard
from tool_gateway.guards.outside import Outside
from tool_gateway.job import Job, Progress, Served, record_of
from tool_gateway.keeping import ResultKeeper
from tool_gateway.loop_watch import LoopWatch
from tool_gateway.metering import call_json, threshold_note
from tool_gateway.needs import Needing
from tool_gateway.ports import Clock
from tool_gateway.raising import MemoryDesk
from tool_gateway.redaction import ArgumentsKept
from tool_gateway.results import (
    BUDGET_META,
    CALL_META,
    GRANTED_META,
    Outcome,
    ToolResult,
    text_result,
)
from tool_gateway.running import Running
from tool_gateway.turn_gate import TurnGate
from tool_gateway.turnstile import Passage
from tool_gateway.unrun import UnrunCalls
from tool_gateway.verdicts import usage_to_settle


class AdmittedCalls:
    """Runs calls that hold their estimate; whatever happens, each hold is ended once."""

    def __init__(
        self,
        *,
        books: Books,
        turns: TurnGate,
        keeper: ResultKeeper,
        clock: Clock,
        arguments_kept: ArgumentsKept,
        loops: LoopWatch,
        flow: FlowGuard,
        answers: AnswerGuard,
        unrun: UnrunCalls,
        cache: ResultCache | None,
        memory: MemoryDesk | None,
        needing: Needing | None,
        outside: Outside | None,
    ) -> None:
        """Take the parts, the pipeline's; `unrun` tells of what may not leave after all."""
        self._books = books
        self._turns = turns
        self._keeper = keeper
        self._clock = clock
        self._arguments_kept = arguments_kept
        self._loops = loops
        self._flow = flow
        self._answers = answers
        self._unrun = unrun
        self._cache = cache
        self._memory = memory
        self._needing = needing
        self._outside = outside

    async def run(
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
            record = record_of(
                job,
                progress,
                ended_at_ms=self._clock.now_ms(),
                arguments=job.arguments_kept(self._arguments_kept),
                estimate=reserved.amount,
                usage=usage_to_settle(job, progress, reserved, wall_ms),
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
                progress.note_denied(self._unrun.told(job, denied), job.entry)
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
            progress.note_denied(self._unrun.told(job, denied), job.entry)

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
