"""Asking a person before a call runs: its hold is kept while they decide."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import anyio

from governor.admission import AdmissionRequest
from governor.approval import Approval, ApprovalState, Asked, denial_of
from governor.call import CallRecord, CallStatus
from governor.denial import DenialReason, Denied
from governor.events import KeyReused, Replayed, Reserved
from governor.ids import ApprovalId
from governor.target import CallKind
from tool_gateway import telemetry
from tool_gateway.books import OVERLOAD_RETRY_MS, SETTLE_SECONDS_MAX, Books
from tool_gateway.denials import ledger_unavailable, overloaded
from tool_gateway.errors import LedgerOverloadedError, LedgerUnavailableError
from tool_gateway.job import Job, Progress, record_of
from tool_gateway.ports import ApprovalDesk, Clock
from tool_gateway.redaction import ArgumentsKept, payload_hash, render_arguments
from tool_gateway.running import Running
from tool_gateway.turn_gate import TurnGate

# How often a call that waits looks for itself: an answer that another process took, or a
# question that ran out, wakes nobody here.
POLL_SECONDS = 1.0
# A hold that is kept for an approval outlives it and the run that may follow by this much.
KEPT_GRACE_MS = 60_000
_DOWN = (LedgerUnavailableError, LedgerOverloadedError)


@dataclass(slots=True)
class _Waiting:
    """The calls of this process that wait for one answer.

    `is_awaited` says that somebody was told to come back for it: then the question outlives
    those who wait now.
    """

    is_awaited: bool
    calls: int = 0
    answered: anyio.Event = field(default_factory=anyio.Event)


class Approver:
    """Admits calls, those that a rule wants approved only when a person has said yes."""

    def __init__(
        self,
        *,
        desk: ApprovalDesk,
        books: Books,
        turns: TurnGate,
        clock: Clock,
        arguments_kept: ArgumentsKept,
    ) -> None:
        """Take the ports; nothing is started."""
        self._desk = desk
        self._books = books
        self._turns = turns
        self._clock = clock
        self._arguments_kept = arguments_kept
        self._waiting: dict[ApprovalId, _Waiting] = {}
        self._asking: dict[Asked, anyio.Lock] = {}

    async def admit(
        self, job: Job, request: AdmissionRequest, running: Running
    ) -> Reserved | Denied | Replayed | KeyReused:
        """Hold the estimate and ask if the rule says so; Reserved means that the call may run.

        The hold that is returned can be that of an identical call before: it then goes by
        that call's id.
        """
        # A call that is served an earlier result runs nothing that a person could mind.
        if job.rule.approval is None or job.repeat.served is not None:
            return await self._turns.admit(request, task_class=job.call.task_class)
        try:
            return await self._asked(job, request, running)
        except LedgerOverloadedError:
            return overloaded(OVERLOAD_RETRY_MS)
        except LedgerUnavailableError:
            telemetry.count_failure("approvals")
            return ledger_unavailable()

    async def follow(self, approval: Approval) -> None:
        """Do what a person's answer asks for: free the hold after a no, wake who waits."""
        telemetry.count_approval(approval.state)
        if approval.state is ApprovalState.REJECTED:
            await self._let_go(approval)
        self._wake(approval.approval_id)

    async def sweep(self) -> None:
        """Give up what nobody answered in time, and free the holds of all that was given up.

        Raises:
            LedgerUnavailableError: the ledger failed; the next sweep goes on.
            LedgerOverloadedError: it has too much to do.
        """
        await self._desk.expire_due(now_ms=self._clock.now_ms())
        for approval in await self._desk.given_up_with_a_hold():
            telemetry.count_approval(approval.state)
            await self._let_go(approval)
            self._wake(approval.approval_id)

    async def _asked(
        self, job: Job, request: AdmissionRequest, running: Running
    ) -> Reserved | Denied | Replayed | KeyReused:
        call = job.call
        asked = Asked(
            agent=call.chain.agent,
            session=call.chain.session,
            tool=call.tool,
            arguments_hash=payload_hash(call.tool, call.arguments),
        )
        own: Reserved | None = None
        # One at a time, so that retries of one call do not hold its estimate many times over.
        async with self._alone(asked):
            approval = await self._desk.find(asked, now_ms=self._clock.now_ms())
            if approval is None:
                decision = await self._turns.admit(request, task_class=call.task_class)
                if not isinstance(decision, Reserved):
                    return decision
                own = decision
                approval = await self._opened(job, asked, own)
                if approval.reservation_id != own.reservation.reservation_id:
                    # Another process asked the same in between: its hold is the one that counts.
                    await self._release(job, own, "an identical call has asked before")
                    own = None
        return await self._answer(job, approval, own, running)

    @asynccontextmanager
    async def _alone(self, asked: Asked) -> AsyncIterator[None]:
        """Let one call at a time ask the same question."""
        lock = self._asking.setdefault(asked, anyio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked():
                self._asking.pop(asked, None)

    async def _opened(self, job: Job, asked: Asked, held: Reserved) -> Approval:
        """Ask about a call whose estimate is held; whatever fails here frees the hold."""
        terms, call, now_ms = job.rule.approval, job.call, self._clock.now_ms()
        assert terms is not None, "only a rule that wants approval gets here"
        approval = Approval(
            approval_id=ApprovalId(self._clock.fresh("apr")),
            reservation_id=held.reservation.reservation_id,
            call_id=call.call_id,
            chain=call.chain,
            turn=job.turn,
            tool=call.tool,
            arguments=render_arguments(call.tool, call.arguments, self._arguments_kept),
            arguments_hash=asked.arguments_hash,
            backend=job.backend.name,
            rule=job.rule.name,
            policy_version=job.policy.version,
            estimate=held.amount,
            created_at_ms=now_ms,
            expires_at_ms=now_ms + terms.ttl_ms,
        )
        kept_until_ms = approval.expires_at_ms + job.rule.limits.wall_ms + KEPT_GRACE_MS
        # Shielded: a client that goes away now would leave a hold that nobody asked about.
        with anyio.move_on_after(SETTLE_SECONDS_MAX, shield=True):
            try:
                opened = await self._desk.open(approval, hold_expires_at_ms=kept_until_ms)
            except _DOWN:
                await self._release(job, held, "the question could not be stored")
                raise
            if opened.approval_id == approval.approval_id:
                telemetry.count_approval(opened.state)
            return opened
        # Too late to know whether it is stored: then it runs out like any other.
        raise LedgerUnavailableError

    async def _answer(
        self, job: Job, approval: Approval, own: Reserved | None, running: Running
    ) -> Reserved | Denied:
        """Wait for the answer as long as the rule says, and use a yes."""
        approval = await self._verdict(job, approval, running, is_owner=own is not None)
        if approval.state is not ApprovalState.APPROVED:
            return denial_of(approval, now_ms=self._clock.now_ms())
        taken: Reserved | Approval | Denied | None = None
        # Shielded: what is taken must reach the run, which ends it whatever happens.
        with anyio.move_on_after(SETTLE_SECONDS_MAX, shield=True):
            now_ms = self._clock.now_ms()
            taken = await self._desk.take(
                approval.approval_id,
                now_ms=now_ms,
                hold_expires_at_ms=now_ms + job.rule.limits.wall_ms + KEPT_GRACE_MS,
            )
        match taken:
            case None:
                raise LedgerUnavailableError
            case Denied():
                return taken
            case Approval():
                return denial_of(taken, now_ms=self._clock.now_ms())
            case Reserved():
                telemetry.count_approval(ApprovalState.USED)
                is_own = own is not None and own.reservation.call_id == taken.reservation.call_id
                return own if own is not None and is_own else taken

    async def _verdict(
        self, job: Job, approval: Approval, running: Running, *, is_owner: bool
    ) -> Approval:
        """Return the approval once it is answered, else as it stands when the wait is over."""
        terms = job.rule.approval
        assert terms is not None, "only a rule that wants approval gets here"
        with self._counted(approval.approval_id, is_owner=is_owner) as waiting:
            try:
                with running.stoppable(), anyio.move_on_after(terms.wait_ms / 1000):
                    while approval.state is ApprovalState.PENDING:
                        with anyio.move_on_after(POLL_SECONDS):
                            await waiting.answered.wait()
                        approval = await self._desk.get(approval.approval_id)
            except anyio.get_cancelled_exc_class():
                if waiting.calls == 1 and not waiting.is_awaited:
                    await self._withdraw(approval)
                raise
            waiting.is_awaited = True
        return approval

    @contextmanager
    def _counted(self, approval_id: ApprovalId, *, is_owner: bool) -> Iterator[_Waiting]:
        """Count a call that waits for this answer while the block runs."""
        waiting = self._waiting.get(approval_id)
        if waiting is None:
            # Who joins a question that nobody waits for was told to come back for it.
            waiting = self._waiting[approval_id] = _Waiting(is_awaited=not is_owner)
        waiting.calls += 1
        try:
            yield waiting
        finally:
            waiting.calls -= 1
            if waiting.calls == 0:
                del self._waiting[approval_id]

    async def _withdraw(self, approval: Approval) -> None:
        """Give up a question whose client has gone, unless it was answered just now."""
        with anyio.move_on_after(SETTLE_SECONDS_MAX, shield=True):
            try:
                approval = await self._desk.withdraw(
                    approval.approval_id, now_ms=self._clock.now_ms()
                )
                if approval.state is ApprovalState.WITHDRAWN:
                    telemetry.count_approval(approval.state)
                    await self._let_go(approval)
            except _DOWN:
                # The question runs out and the sweep frees its hold.
                telemetry.count_failure("approvals")

    async def _let_go(self, approval: Approval) -> None:
        """Free the hold of a question that was given up; what this misses the sweep does."""
        await self._books.end(
            approval.reservation_id, _given_up(approval, ended_at_ms=self._clock.now_ms())
        )

    async def _release(self, job: Job, held: Reserved, why: str) -> None:
        record = record_of(
            job,
            Progress(status=CallStatus.RELEASED, detail=why),
            ended_at_ms=self._clock.now_ms(),
            arguments=job.arguments_kept(self._arguments_kept),
            estimate=held.amount,
            usage=None,
        )
        await self._books.end(held.reservation.reservation_id, record)

    def _wake(self, approval_id: ApprovalId) -> None:
        waiting = self._waiting.get(approval_id)
        if waiting is not None:
            waiting.answered.set()


def _given_up(approval: Approval, *, ended_at_ms: int) -> CallRecord:
    """Return the record of a call that was asked about and did not run."""
    status, denial = CallStatus.DENIED, None
    match approval.state:
        case ApprovalState.REJECTED:
            denial = DenialReason.APPROVAL_REJECTED
            detail = f"{approval.decided_by} refused it: {approval.reason}"
        case ApprovalState.WITHDRAWN:
            status = CallStatus.CANCELLED
            detail = "the client went away while a person was asked"
        case _:
            denial = DenialReason.APPROVAL_EXPIRED
            detail = "nobody answered in time, or its session was closed"
    return CallRecord(
        call_id=approval.call_id,
        kind=CallKind.TOOL,
        name=approval.tool,
        chain=approval.chain,
        turn=approval.turn,
        status=status,
        started_at_ms=approval.created_at_ms,
        ended_at_ms=ended_at_ms,
        arguments=approval.arguments,
        backend=approval.backend,
        rule=approval.rule,
        policy_version=approval.policy_version,
        estimate=approval.estimate,
        denial=denial,
        detail=detail,
    )
