"""The path that every model call takes: choose a tier, admit, forward, settle, record."""

from collections.abc import Callable
from dataclasses import replace
from urllib.parse import quote

from governor.admission import AdmissionRequest
from governor.amounts import Amounts
from governor.call import CallRecord, Idempotency, ToolCall
from governor.denial import Denied
from governor.events import KeyReused, Replayed, Reserved
from governor.ids import CallId, ReservationId, TaskClass, ToolName, TurnId
from governor.pricing import PriceList
from governor.scope import ScopeChain
from governor.target import CallKind, CallTarget
from governor.tiers import ModelTier, TierChoice, TierRule, choose_tier
from governor.tracker import Tracker
from governor.usage import Usage
from runtime.errors import ProviderError
from runtime.model_gateway.answers import (
    BAD_GATEWAY,
    GATEWAY_TIMEOUT,
    TOO_MANY_REQUESTS,
    Answer,
    key_reused_answer,
    provider_answer,
    replayed_answer,
    stopped_answer,
    unknown_model_answer,
)
from runtime.model_gateway.errors import ProviderNotReachedError
from runtime.model_gateway.job import Job, Progress, record_of, unpriced
from runtime.model_gateway.metering import usage_of
from runtime.model_gateway.providers import ProviderPool
from runtime.model_gateway.request import ChatRequest, payload_for
from runtime.model_gateway.verdict import verdict_on, verdict_without_answer
from tool_gateway import telemetry
from tool_gateway.books import Books
from tool_gateway.denials import advised
from tool_gateway.identity import CallContext
from tool_gateway.metering import usage_json
from tool_gateway.pipeline import EXPIRY_GRACE_MS
from tool_gateway.ports import Clock
from tool_gateway.redaction import ArgumentsKept, payload_hash
from tool_gateway.running import Running, RunningCalls
from tool_gateway.tracking import Tracked
from tool_gateway.turn_gate import TurnGate
from tool_gateway.turnstile import Passage, Turnstile

CALL_HEADER = "Flyball-Call"
TIER_HEADER = "Flyball-Tier"
# The provider refused for its rate, failed, or never answered.
_LOAD = frozenset({TOO_MANY_REQUESTS, BAD_GATEWAY, GATEWAY_TIMEOUT})


class ChatGateway:
    """Runs model calls under budgets; whatever happens, each reservation is ended once."""

    def __init__(
        self,
        *,
        books: Books,
        turns: TurnGate,
        clock: Clock,
        tiers: tuple[ModelTier, ...],
        prices: Callable[[], PriceList],
        rules: tuple[TierRule, ...],
        providers: ProviderPool,
        running: RunningCalls,
        arguments_kept: ArgumentsKept,
        policy_version: Callable[[], str],
        turnstile: Turnstile,
        tracker: Tracker = Tracker.OFF,
        admin_contact: str | None = None,
    ) -> None:
        """Take the parts; `providers` is entered by whoever made it, before the first call.

        `prices` is asked at each call, for it may change; a tier's own price goes before it.
        `tracker` says whether models are told what remains; denials name `admin_contact`.
        """
        for tier in tiers:
            assert tier.provider in providers, f"tier {tier.name} has no provider"
        self._books = books
        self._turns = turns
        self._clock = clock
        self._tiers = tiers
        self._prices = prices
        self._rules = rules
        self._providers = providers
        self._running = running
        self._arguments_kept = arguments_kept
        self._policy_version = policy_version
        self._tracker = tracker
        self._admin_contact = admin_contact
        self._turnstile = turnstile

    @property
    def tiers(self) -> tuple[ModelTier, ...]:
        """Return what can be asked for at its present price, cheapest first by convention."""
        prices = self._prices()
        return tuple(tier.priced_by(prices) for tier in self._tiers)

    async def run(
        self, request: ChatRequest, *, session_name: str, chain: ScopeChain, context: CallContext
    ) -> Answer:
        """Answer `request` if every budget allows it; a denial is an answer too.

        Raises:
            InvalidRequestError: the request cannot be written as the provider's JSON.
        """
        choice = choose_tier(request.read.model, self._tiers, self._rules, request.facts)
        if choice is None:
            return unknown_model_answer(request.read.model)
        job = self._job(
            request,
            choice,
            note=await self._note(chain, context),
            session_name=session_name,
            chain=chain,
            context=context,
        )
        free = unpriced(job)
        if free is not None:
            return await self._deny(job, free)
        call = job.call
        with (
            self._running.track(call.call_id, call.chain.session) as running,
            self._turnstile.entered(
                call, kind=CallKind.MODEL, backend=job.tier.provider
            ) as passage,
        ):
            return await self._run_tracked(job, running, passage, task_class=context.task_class)

    async def _run_tracked(
        self, job: Job, running: Running, passage: Passage, *, task_class: TaskClass | None
    ) -> Answer:
        # Stopped here, it has no slot: then the ledger says why it may not run, or it is
        # stopped where it would.
        with running.stoppable():
            await passage.turn()
        if passage.has_waited:
            job = replace(job, started_at_ms=self._clock.now_ms())
        request = self._request(job)
        # Before it is stored, so that no clock is faster.
        running.runs_on(request.call_id, request.reservation_id)
        decision = passage.denied or await self._turns.admit(request, task_class=task_class)
        match decision:
            case Denied():
                return await self._deny(job, decision)
            case KeyReused():
                return key_reused_answer()
            case Replayed():
                return replayed_answer(decision)
            case Reserved():
                return await self._run_reserved(job, decision, running, passage)

    def _job(
        self,
        request: ChatRequest,
        choice: TierChoice,
        *,
        note: str | None,
        session_name: str,
        chain: ScopeChain,
        context: CallContext,
    ) -> Job:
        # Held and charged by one list, whichever is in force when the call ends.
        tier = choice.tier.priced_by(self._prices())
        call_id = CallId(self._clock.fresh("call"))
        key = context.idempotency_key
        call = ToolCall(
            call_id=call_id,
            tool=ToolName(tier.model),
            arguments=request.fields,
            chain=chain,
            # A request that names no turn starts one of its own.
            turn=TurnId(call_id) if context.turn is None else context.turn,
            idempotency=None
            if key is None
            # Hashed as it was asked, so that a tier that `auto` chose anew is no other payload.
            else Idempotency(
                key=key, payload_hash=payload_hash(request.read.model, request.fields)
            ),
            urgency=context.urgency,
        )
        return Job(
            call=call,
            session_name=session_name,
            request=request,
            tier=tier,
            why=choice.why,
            payload=payload_for(request, tier, note=note),
            timeout_ms=self._providers.timeout_ms(tier.provider),
            started_at_ms=self._clock.now_ms(),
            policy_version=self._policy_version(),
        )

    async def _note(self, chain: ScopeChain, context: CallContext) -> str | None:
        """Return what the model is told of its turns and budgets, as far as it can be said."""
        told = await self._turns.chat_note(chain, turn=context.turn, task_class=context.task_class)
        standing = None
        if self._tracker is not Tracker.OFF:
            standing = await self._books.tracked(chain)
        budgets = None if standing is None else standing.note(self._tracker)
        return "\n".join(note for note in (told, budgets) if note is not None) or None

    def _request(self, job: Job) -> AdmissionRequest:
        call = job.call
        return AdmissionRequest(
            reservation_id=ReservationId(self._clock.fresh("res")),
            call_id=call.call_id,
            target=CallTarget(
                kind=CallKind.MODEL,
                name=call.tool,
                upstream=job.tier.provider,
                tier=job.tier.name,
            ),
            chain=call.chain,
            session_name=job.session_name,
            estimate=job.estimate,
            turn=call.turn,
            now_ms=job.started_at_ms,
            expires_at_ms=job.started_at_ms + job.timeout_ms + EXPIRY_GRACE_MS,
            idempotency=call.idempotency,
        )

    async def _run_reserved(
        self, job: Job, reserved: Reserved, running: Running, passage: Passage
    ) -> Answer:
        progress = Progress()
        reservation_id = reserved.reservation.reservation_id
        began = self._clock.elapsed_ms()
        try:
            with telemetry.span("flyball.run"):
                await self._ask_provider(job, progress, running, passage, reservation_id)
        except Exception as error:
            progress.note_fault(error)
            raise
        finally:
            wall_ms = self._clock.elapsed_ms() - began
            passage.note(progress.status, wall_ms=wall_ms, refused_for_load=_is_load(progress))
            usage = _usage(job, progress, wall_ms=wall_ms)
            record = self._record(job, progress, usage=usage, estimate=reserved.amount)
            telemetry.count_ended(
                kind=CallKind.MODEL.value,
                backend=job.tier.provider,
                status=progress.status,
                wall_ms=wall_ms,
            )
            settled = await self._books.end(reservation_id, record)
        assert progress.answer is not None, "a call that was not cancelled has an answer"
        standing = await self._books.after(settled, job.call.chain)
        answer = _annotated(progress.answer, job, standing, usage)
        turns = self._turns.observed_chat(record)
        return answer if turns is None else answer.with_flyball({"turns": turns}, headers={})

    async def _ask_provider(
        self,
        job: Job,
        progress: Progress,
        running: Running,
        passage: Passage,
        reservation_id: ReservationId,
    ) -> None:
        """Forward the request and note in `progress` how it went."""
        with running.stoppable():
            # Until the mark is stored nothing leaves, whoever cancels: the hold is refundable.
            denied = await passage.turn() or await self._books.forward(reservation_id)
            if denied is not None:
                progress.note_denied(self._told(job, denied))
                return
            progress.never_left = False
            try:
                received = await self._providers.post_chat(job.tier.provider, job.payload.content)
            except ProviderNotReachedError as error:
                answer = provider_answer(BAD_GATEWAY, str(error), code="provider_unreachable")
                progress.note_release(str(error), answer)
            except ProviderError as error:
                progress.note(verdict_without_answer(error))
            else:
                progress.result_bytes = len(received.content)
                progress.note(verdict_on(received, job.payload))
        if progress.answer is None:
            # An administrator or the shutdown stopped the call.
            progress.detail = running.stopped_why or "stopped"
            progress.answer = stopped_answer(progress.detail)

    async def _deny(self, job: Job, denied: Denied) -> Answer:
        not_started = Progress()
        not_started.note_denied(self._told(job, denied))
        record = self._record(job, not_started, usage=None, estimate=job.estimate)
        await self._books.note_unheld(record)
        assert not_started.answer is not None, "a denial is an answer"
        standing = await self._books.standing(job.call.chain)
        return _named(not_started.answer, job).with_flyball({"budget": standing}, headers={})

    def _told(self, job: Job, denied: Denied) -> Denied:
        """Return the denial as the caller is told of it, and count it."""
        telemetry.count_denied(kind=CallKind.MODEL.value, reason=denied.reason)
        cheapest = self._tiers[0].name
        return advised(
            denied,
            cheaper=None if job.tier.name == cheapest else f"model {cheapest}",
            contact=self._admin_contact,
        )

    def _record(
        self,
        job: Job,
        progress: Progress,
        *,
        usage: Usage | None,
        estimate: Amounts,
    ) -> CallRecord:
        return record_of(
            job,
            progress,
            ended_at_ms=self._clock.now_ms(),
            kept=self._arguments_kept,
            estimate=estimate,
            usage=usage,
        )


def _is_load(progress: Progress) -> bool:
    """Tell whether the provider's part ended in a way that calls for fewer calls at once."""
    answer = progress.answer
    return not progress.never_left and answer is not None and answer.status in _LOAD


def _usage(job: Job, progress: Progress, *, wall_ms: int) -> Usage | None:
    """Return what to settle; None when provably nothing was consumed."""
    if progress.never_left:
        return None
    return usage_of(progress.tokens, job.price, wall_ms=wall_ms)


def _named(answer: Answer, job: Job) -> Answer:
    """Return the answer with the call and the tier that it is about."""
    return answer.with_flyball(
        {"call_id": job.call.call_id, "tier": job.tier.name, "why": job.why},
        headers={CALL_HEADER: job.call.call_id, TIER_HEADER: quote(job.tier.name, safe=" ")},
    )


def _annotated(answer: Answer, job: Job, standing: Tracked | None, usage: Usage | None) -> Answer:
    """Return the answer with what the call used and what remains."""
    member = {
        "usage": None if usage is None else usage_json(usage),
        "budget": None if standing is None else standing.shown,
    }
    return _named(answer, job).with_flyball(member, headers={})
