"""Asking whether a command that is out of memory gets more, on a hold of what that may cost."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

from governor.admission import AdmissionRequest
from governor.amounts import NOTHING, Amounts, Unit
from governor.approval import Approval, ApprovalState
from governor.call import CallRecord, CallStatus
from governor.denial import Denied
from governor.events import Reserved
from governor.ids import ApprovalId, CallId, ReservationId
from governor.ladder import Sight
from governor.raising import AskTerms, MemoryAnswer, MemoryQuestion, WhoIsAsked
from governor.target import CallKind, CallTarget
from tool_gateway import telemetry
from tool_gateway.books import SETTLE_SECONDS_MAX, Books
from tool_gateway.errors import LedgerOverloadedError, LedgerUnavailableError
from tool_gateway.exchange import AskRefusedError
from tool_gateway.job import Job
from tool_gateway.ports import ApprovalDesk, Clock
from tool_gateway.redaction import ArgumentsKept, payload_hash, render_arguments
from tool_gateway.refusals import Refusals
from tool_gateway.results import Json

# An answer that another process took wakes nobody here, so it is looked for.
POLL_SECONDS = 0.5
# The hold of a raise outlives the question and the run by this much before it is reaped.
_GRACE_MS = 60_000
_MIB = 1024 * 1024
_ELICIT = "elicitation/create"
_TOLD_CHARS_MAX = 500
_DOWN = (LedgerUnavailableError, LedgerOverloadedError)


@dataclass(slots=True, eq=False)
class Serving:
    """One call whose command may be asked about, and what was held for raises of it."""

    job: Job
    holds: dict[ReservationId, AdmissionRequest] = field(default_factory=dict)


class MemoryDesk:
    """Asks an administrator, or the agent, about commands that are out of memory.

    A raise holds what it may cost more, before anybody is asked: where a budget has no room there
    is nothing to give. Those holds are released with the call, which is charged what it used.
    """

    def __init__(
        self,
        *,
        desk: ApprovalDesk,
        books: Books,
        clock: Clock,
        arguments_kept: ArgumentsKept,
        terms: Callable[[], AskTerms],
        refusals: Refusals,
    ) -> None:
        """Take the ports, where to ask for the terms in force and where a no is remembered."""
        self._refusals = refusals
        self._desk = desk
        self._books = books
        self._clock = clock
        self._arguments_kept = arguments_kept
        self._terms = terms
        self._serving: dict[CallId, Serving] = {}

    @asynccontextmanager
    async def serving(self, job: Job) -> AsyncIterator[Serving]:
        """Let the command of a call be asked about while the block runs."""
        serving = self._serving[job.call.call_id] = Serving(job)
        try:
            yield serving
        finally:
            del self._serving[job.call.call_id]
            for request in list(serving.holds.values()):
                await self._release(serving, request, "the call that had more memory has ended")

    def asks(self, call: CallId) -> bool:
        """Tell whether anybody can be asked about a call."""
        serving = self._serving.get(call)
        match self._terms().who:
            case _ if serving is None:
                return False
            case WhoIsAsked.ADMINISTRATOR:
                return True
            case WhoIsAsked.AGENT:
                return serving.job.exchange.wishes.can_answer(_ELICIT)
            case WhoIsAsked.NOBODY:
                return False

    def may_ask_the_agent(self) -> bool:
        """Tell whether the agents' clients are asked at all."""
        return self._terms().who is WhoIsAsked.AGENT

    async def ask(self, question: MemoryQuestion) -> MemoryAnswer:
        """Return what becomes of the command; whatever fails is taken for a silence."""
        terms, serving = self._terms(), self._serving.get(CallId(question.call))
        if serving is None:
            return _silence(terms, "nobody could be asked for more")
        request = self._request(serving, question, terms)
        held = await self._books.admit(request)
        if not isinstance(held, Reserved):
            why = f": {held.remedy.text}" if isinstance(held, Denied) else ""
            return _silence(terms, f"no budget has room for more memory{why}")
        serving.holds[request.reservation_id] = request
        answer: MemoryAnswer | None = None
        try:
            if terms.who is WhoIsAsked.AGENT:
                answer = await self._from_agent(serving, question, terms)
            else:
                answer = await self._from_administrator(serving, question, held, terms)
        except _DOWN:
            telemetry.count_failure("approvals")
            answer = _silence(terms, "the question could not be stored")
        finally:
            is_raised = answer is not None and answer.sight is Sight.RAISED
            if not is_raised and request.reservation_id in serving.holds:
                await self._release(serving, request, "no more memory was given")
        self._remember(serving.job, question, answer)
        telemetry.count_memory_answer(answer.sight)
        return answer

    def _remember(self, job: Job, question: MemoryQuestion, answer: MemoryAnswer) -> None:
        """Let a no hold for the session, until somebody says yes; a silence is neither."""
        if answer.sight is Sight.CANCELLED:
            self._refusals.note(job.call, question.limit_bytes)
        elif answer.sight is Sight.RAISED:
            self._refusals.forget(job.call)

    def _request(
        self, serving: Serving, question: MemoryQuestion, terms: AskTerms
    ) -> AdmissionRequest:
        """Return the request for a hold of what a raise may cost more."""
        job, now_ms = serving.job, self._clock.now_ms()
        is_charged = Unit.MEMORY_MIB_S not in job.backend.unmeasurable and not job.rule.is_free
        extra = {Unit.MEMORY_MIB_S: question.extra_mib_s(question.wanted_bytes)}
        return AdmissionRequest(
            reservation_id=ReservationId(self._clock.fresh("res")),
            call_id=CallId(f"{question.call}.memory{question.number}"),
            target=CallTarget(kind=CallKind.TOOL, name=job.call.tool, upstream=job.backend.name),
            chain=job.call.chain,
            session_name=job.session_name,
            estimate=Amounts(extra) if is_charged else NOTHING,
            turn=None,
            now_ms=now_ms,
            expires_at_ms=now_ms + terms.wait_ms + question.wall_left_ms + _GRACE_MS,
            # The call itself has its slot and its turn.
            is_free=True,
        )

    async def _from_agent(
        self, serving: Serving, question: MemoryQuestion, terms: AskTerms
    ) -> MemoryAnswer:
        """Return what the client, or the person at it, answers."""
        params = _form(serving.job.call.tool, question)
        try:
            with anyio.fail_after(terms.wait_ms / 1000):
                answer = await serving.job.exchange.ask(_ELICIT, params)
        except (TimeoutError, AskRefusedError):
            return _silence(terms, "the client was asked for more and did not answer")
        return _answer_of(answer, question, terms)

    async def _from_administrator(
        self, serving: Serving, question: MemoryQuestion, held: Reserved, terms: AskTerms
    ) -> MemoryAnswer:
        """Return what a person answers through the admin API.

        Raises:
            LedgerUnavailableError: the question cannot be stored or read.
            LedgerOverloadedError: as above.
        """
        asked = self._approval(serving.job, question, held, terms)
        approval = await self._desk.open(asked, hold_expires_at_ms=held.reservation.expires_at_ms)
        telemetry.count_approval(approval.state)
        try:
            with anyio.move_on_after(terms.wait_ms / 1000):
                while approval.state is ApprovalState.PENDING:
                    await anyio.sleep(POLL_SECONDS)
                    approval = await self._desk.get(approval.approval_id)
        finally:
            if approval.state is ApprovalState.PENDING:
                approval = await self._withdrawn(approval)
        if approval.state in (ApprovalState.REJECTED, ApprovalState.EXPIRED):
            # Whoever noted that has freed the hold as well.
            serving.holds.pop(held.reservation.reservation_id, None)
        if approval.state is ApprovalState.REJECTED:
            why = approval.reason or "they gave no reason"
            return MemoryAnswer(sight=Sight.CANCELLED, said=f"a person refused it more: {why}")
        if approval.state is not ApprovalState.APPROVED:
            return _silence(terms, "a person was asked for more and did not answer")
        now_ms = self._clock.now_ms()
        taken = await self._desk.take(
            approval.approval_id,
            now_ms=now_ms,
            hold_expires_at_ms=now_ms + question.wall_left_ms + _GRACE_MS,
        )
        if not isinstance(taken, Reserved):
            return _silence(terms, "a person gave it more, too late")
        telemetry.count_approval(ApprovalState.USED)
        return _raised(question, None, by="a person")

    async def _withdrawn(self, approval: Approval) -> Approval:
        """Take a question back that nobody has answered; an answer that came just now stands."""
        with anyio.move_on_after(SETTLE_SECONDS_MAX, shield=True):
            try:
                approval = await self._desk.withdraw(
                    approval.approval_id, now_ms=self._clock.now_ms()
                )
                telemetry.count_approval(approval.state)
            except _DOWN:
                # It runs out, and the sweep of approvals frees its hold.
                telemetry.count_failure("approvals")
        return approval

    def _approval(
        self, job: Job, question: MemoryQuestion, held: Reserved, terms: AskTerms
    ) -> Approval:
        call, now_ms = job.call, self._clock.now_ms()
        told = render_arguments(call.tool, call.arguments, self._arguments_kept)
        return Approval(
            approval_id=ApprovalId(self._clock.fresh("apr")),
            reservation_id=held.reservation.reservation_id,
            call_id=held.reservation.call_id,
            chain=call.chain,
            turn=job.turn,
            tool=call.tool,
            arguments=json.dumps({"more_memory_for": question.call, **_figures(question)}),
            arguments_hash=payload_hash(call.tool, {"question": held.reservation.call_id}),
            backend=job.backend.name,
            rule=f"{job.rule.name} (memory of {told[:_TOLD_CHARS_MAX]})",
            policy_version=job.policy.version,
            estimate=held.amount,
            created_at_ms=now_ms,
            expires_at_ms=now_ms + terms.wait_ms,
        )

    async def _release(self, serving: Serving, request: AdmissionRequest, why: str) -> None:
        del serving.holds[request.reservation_id]
        job = serving.job
        await self._books.end(
            request.reservation_id,
            CallRecord(
                call_id=request.call_id,
                kind=CallKind.TOOL,
                name=job.call.tool,
                chain=job.call.chain,
                turn=job.turn,
                status=CallStatus.RELEASED,
                started_at_ms=request.now_ms,
                ended_at_ms=max(request.now_ms, self._clock.now_ms()),
                arguments="",
                backend=job.backend.name,
                rule=job.rule.name,
                policy_version=job.policy.version,
                estimate=request.estimate,
                detail=f"the hold for more memory of {job.call.call_id}: {why}",
            ),
        )


def _figures(question: MemoryQuestion) -> dict[str, object]:
    """Return what whoever is asked should know, in mebibytes."""
    culprit, peak = question.culprit, question.peak_bytes
    return {
        "why": "it makes no progress" if question.is_stuck else "its memory is full",
        "limit_mib": question.limit_bytes // _MIB,
        "used_mib": question.used_bytes // _MIB,
        "peak_mib": None if peak is None else peak // _MIB,
        "wanted_mib": question.wanted_bytes // _MIB,
        "largest": None
        if culprit is None
        else f"{culprit.name} ({culprit.pid}): {culprit.rss_bytes // _MIB} MiB",
    }


def _form(tool: str, question: MemoryQuestion) -> Json:
    """Return the question as a form of the protocol."""
    figures = _figures(question)
    largest = f", most of it in {figures['largest']}" if figures["largest"] else ""
    message = (
        f"A command of {tool} stands still: {figures['why']}. Its limit is "
        f"{figures['limit_mib']} MiB and it uses {figures['used_mib']} MiB (peak "
        f"{figures['peak_mib']} MiB){largest}. Raise its limit to {figures['wanted_mib']} MiB, or "
        "cancel it?"
    )
    return {
        "mode": "form",
        "message": message,
        "requestedSchema": {
            "type": "object",
            "properties": {
                "answer": {
                    "type": "string",
                    "enum": ["raise", "cancel"],
                    "title": "Raise its memory limit, or cancel it",
                },
                "memory_mib": {
                    "type": "integer",
                    "title": "The new limit in MiB",
                    "minimum": question.limit_bytes // _MIB + 1,
                    "maximum": question.wanted_bytes // _MIB,
                },
            },
            "required": ["answer"],
        },
    }


def _answer_of(answer: Json, question: MemoryQuestion, terms: AskTerms) -> MemoryAnswer:
    """Return what a client's answer to the form means; a shape that it has not is a silence."""
    content = answer.get("content")
    said = content.get("answer") if isinstance(content, Mapping) else None
    if answer.get("action") == "decline" or (answer.get("action") == "accept" and said == "cancel"):
        return MemoryAnswer(sight=Sight.CANCELLED, said="the client cancelled it")
    if answer.get("action") != "accept" or said != "raise" or not isinstance(content, Mapping):
        return _silence(terms, "the client was asked for more and answered nothing")
    mib = content.get("memory_mib")
    if not isinstance(mib, int) or isinstance(mib, bool):
        return _raised(question, None, by="the client")
    return _raised(question, mib * _MIB, by="the client")


def _raised(question: MemoryQuestion, said_bytes: int | None, *, by: str) -> MemoryAnswer:
    # What is held covers what was asked for, and nothing above it.
    said = question.wanted_bytes if said_bytes is None else min(said_bytes, question.wanted_bytes)
    granted = question.granted_bytes(said)
    if granted is None:
        words = f"{by} named a limit that is no raise"
        return MemoryAnswer(sight=Sight.CANCELLED, said=words)
    words = f"{by} raised its limit to {granted // _MIB} MiB"
    return MemoryAnswer(sight=Sight.RAISED, memory_bytes=granted, said=words)


def _silence(terms: AskTerms, said: str) -> MemoryAnswer:
    return MemoryAnswer(sight=terms.otherwise.sight, said=said)
