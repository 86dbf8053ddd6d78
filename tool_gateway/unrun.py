"""What calls are answered with that are not run: denials, earlier answers, their own standing."""

from governor.amounts import NOTHING
from governor.call import CallRecord
from governor.denial import DenialReason, Denied
from governor.events import KeyReused, Replayed
from governor.target import CallKind
from governor.usage import Usage
from tool_gateway.books import Books
from tool_gateway.denials import advised
from tool_gateway.errors import IdempotencyConflictError
from tool_gateway.guards.answers import AnswerGuard
from tool_gateway.job import Job, Progress, record_of
from tool_gateway.keeping import ResultKeeper
from tool_gateway.loop_texts import loop_json
from tool_gateway.metering import call_json
from tool_gateway.ports import Clock
from tool_gateway.redaction import ArgumentsKept
from tool_gateway.results import BUDGET_META, CALL_META, LOOP_META, ToolResult
from tool_gateway.verdicts import is_told_anyway


class UnrunCalls:
    """Answers calls that hold nothing, and records those that were denied."""

    def __init__(
        self,
        *,
        books: Books,
        keeper: ResultKeeper,
        answers: AnswerGuard,
        clock: Clock,
        arguments_kept: ArgumentsKept,
        admin_contact: str | None,
    ) -> None:
        """Take the ports; denials name `admin_contact` as whom to ask."""
        self._books = books
        self._keeper = keeper
        self._answers = answers
        self._clock = clock
        self._arguments_kept = arguments_kept
        self._admin_contact = admin_contact

    async def answered(self, job: Job, decision: Denied | KeyReused | Replayed) -> ToolResult:
        """Return what a call is answered with instead of being run.

        Raises:
            IdempotencyConflictError: the key was used before with another payload.
        """
        match decision:
            case Denied() if is_told_anyway(job, decision):
                return await self._told_anyway(job)
            case Denied():
                return await self.denied(job, decision)
            case KeyReused():
                raise IdempotencyConflictError
            case Replayed():
                kept = await self._keeper.replay(job.call, decision)
                replayed = self._answers.redacted(job, kept)
                return replayed.with_meta(
                    **{BUDGET_META: await self._books.standing(job.call.chain)}
                )

    async def denied(self, job: Job, denied: Denied) -> ToolResult:
        """Return a denial as a result, which is recorded."""
        denied = self.told(job, denied)
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

    def told(self, job: Job, denied: Denied) -> Denied:
        """Return the denial as the caller is told of it, and count it."""
        self._books.count_denied(job.call, CallKind.TOOL, denied)
        return advised(denied, cheaper=job.rule.cheaper, contact=self._admin_contact)

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

    def _record(self, job: Job, progress: Progress, usage: Usage | None) -> CallRecord:
        return record_of(
            job,
            progress,
            ended_at_ms=self._clock.now_ms(),
            arguments=job.arguments_kept(self._arguments_kept),
            estimate=job.estimate,
            usage=usage,
        )
