"""The path that every model call takes: choose a tier, admit, forward, settle, record."""

from collections.abc import Callable
from dataclasses import replace

import anyio
import anyio.lowlevel

from governor.amounts import Amounts, Unit
from governor.breaker import Sign
from governor.call import CallRecord, CallStatus
from governor.denial import Denied
from governor.events import KeyReused, Replayed, Reserved
from governor.ids import CallId, TaskClass
from governor.providing.recourse import NewHold, sign_of
from governor.scope import ScopeChain
from governor.target import CallKind
from governor.tiers import ModelTier
from governor.tracker import Tracker
from governor.usage import Usage
from runtime.model_gateway.answer import Answer
from runtime.model_gateway.answers import (
    BAD_GATEWAY,
    GATEWAY_TIMEOUT,
    TOO_MANY_REQUESTS,
    key_reused_answer,
    replayed_answer,
    stopped_answer,
    unknown_model_answer,
    unspoken_answer,
)
from runtime.model_gateway.asking import say_last
from runtime.model_gateway.attempts.care import ProviderCares
from runtime.model_gateway.choosing import Choosing
from runtime.model_gateway.doubts import Doubts
from runtime.model_gateway.job import Job, Progress, record_of, unpriced
from runtime.model_gateway.journey import Journey, Leg
from runtime.model_gateway.kept_answers import KeptAnswers, KeptPolicy
from runtime.model_gateway.making import Making
from runtime.model_gateway.measured import Measured
from runtime.model_gateway.metering import usage_of
from runtime.model_gateway.model_request import ModelRequest
from runtime.model_gateway.observing import Watching
from runtime.model_gateway.persisting import persist
from runtime.model_gateway.ports import CallEnd, Wishes
from runtime.model_gateway.preparation import Linked, Preparer
from runtime.model_gateway.providers.pool import ProviderPool
from runtime.model_gateway.replaying import (
    Gathering,
    NamedOutlet,
    keep_what_came,
    say_again,
)
from runtime.model_gateway.standings import Standings
from runtime.model_gateway.streams.relay import Outlet
from runtime.model_gateway.telling import annotated, named, stream_headers
from runtime.model_gateway.wires.openai_errors import STOPPED
from runtime.model_gateway.wires.wire import Wire
from tool_gateway import telemetry
from tool_gateway.books import Books
from tool_gateway.denials import advised
from tool_gateway.identity import CallContext
from tool_gateway.ports import Clock
from tool_gateway.redaction import ArgumentsKept
from tool_gateway.running import Running, RunningCalls
from tool_gateway.turn_gate import TurnGate
from tool_gateway.turnstile import Passage, Turnstile

# An answer of fewer tokens is hardly one; a request that itself asks for fewer may have them.
OUTPUT_TOKENS_MIN = 16
# Others take from the same budgets between a denial and the next try.
_CLAMPS_MAX = 3
# The provider refused for its rate, failed, or never answered.
_LOAD = frozenset({TOO_MANY_REQUESTS, BAD_GATEWAY, GATEWAY_TIMEOUT})


class ModelGateway:
    """Runs model calls under budgets; whatever happens, each reservation is ended once."""

    def __init__(
        self,
        *,
        books: Books,
        turns: TurnGate,
        clock: Clock,
        choosing: Choosing,
        providers: ProviderPool,
        cares: ProviderCares,
        running: RunningCalls,
        arguments_kept: ArgumentsKept,
        policy_version: Callable[[], str],
        turnstile: Turnstile,
        tracker: Tracker = Tracker.OFF,
        admin_contact: str | None = None,
        output_tokens_min: int = OUTPUT_TOKENS_MIN,
        kept_answers: KeptAnswers | None = None,
        preparer: Preparer | None = None,
    ) -> None:
        """Take the parts; `providers` is entered by whoever made it, before the first call.

        `cares` says how each of them is treated.
        `tracker` says whether models are told what remains; denials name `admin_contact`. What
        is affordable is not answered with less than `output_tokens_min`. `preparer` makes
        requests ready for their tier.
        """
        for tier in choosing.tiers:
            assert tier.provider in providers, f"tier {tier.name} has no provider"
        self._books = books
        self._turns = turns
        self._clock = clock
        self._choosing = choosing
        self._making = Making(
            clock=clock,
            choosing=choosing,
            providers=providers,
            cares=cares,
            policy_version=policy_version,
            preparer=preparer,
        )
        self._providers = providers
        self._cares = cares
        self._running = running
        self._arguments_kept = arguments_kept
        self._tracker = tracker
        self._admin_contact = admin_contact
        self._turnstile = turnstile
        self._output_tokens_min = output_tokens_min
        self._doubts = Doubts()
        self._kept_answers = kept_answers or KeptAnswers(KeptPolicy())
        self._standings = Standings(books, clock)
        self._watching = Watching(clock.elapsed_ms)

    @property
    def tiers(self) -> tuple[ModelTier, ...]:
        """Return what can be asked for at its present price, cheapest first by convention."""
        return self._choosing.priced

    def tiers_for(self, request: ModelRequest, wire: Wire) -> tuple[ModelTier, ...]:
        """Return the tiers that can serve a request now, in the same order."""
        return self._choosing.able(request, wire)

    async def run(
        self,
        request: ModelRequest,
        wire: Wire,
        *,
        session_name: str,
        chain: ScopeChain,
        context: CallContext,
        outlet: NamedOutlet,
        wishes: Wishes,
        linked: Linked | None = None,
    ) -> Answer | None:
        """Answer `request` if every budget allows it; a denial is an answer too.

        None: the answer was relayed to `outlet` as a stream, which has been given its end.
        `linked` says of which answer in several rounds the call is one.

        Raises:
            InvalidRequestError: the tier cannot serve what the request asks for.
        """
        call_id = CallId(self._clock.fresh("call"))
        choice = await self._choosing.choose(
            request,
            wire,
            call_id=call_id,
            session_name=session_name,
            chain=chain,
            context=context,
            wishes=wishes,
            now_ms=self._clock.now_ms(),
        )
        if choice is None:
            return self._unserved(wire, request.model)
        job = self._making.first(
            request,
            wire,
            choice,
            call_id=call_id,
            note=await self._note(chain, context),
            session_name=session_name,
            chain=chain,
            context=context,
            wishes=wishes,
            linked=linked,
        )
        free = unpriced(job)
        if free is not None:
            return await self._deny(job, free, Journey())
        job = self._with_kept(job, wishes)
        self._cares.of(job.tier.provider).note_call()
        journey = Journey()
        while True:
            answer = await self._run_leg(job, outlet, context, journey)
            following = self._making.following(choice, job, journey)
            if following is None:
                return answer
            if isinstance(journey.recourse, NewHold):
                await anyio.sleep(journey.recourse.pause_ms / 1000)
            job = following

    async def _run_leg(
        self, job: Job, outlet: NamedOutlet, context: CallContext, journey: Journey
    ) -> Answer | None:
        """Run one call of a request, and note in `journey` what is to be done if it fails."""
        call = job.call
        journey.begin_leg()
        with (
            self._running.track(call.call_id, call.chain.session) as running,
            self._turnstile.entered(
                call, kind=CallKind.MODEL, backend=job.tier.provider
            ) as passage,
        ):
            # Stopped here, it has no slot; it is stopped for good before anything of it leaves.
            if not passage.at_once():
                with running.stoppable():
                    await passage.turn()
            if passage.has_waited:
                job = replace(job, started_at_ms=self._clock.now_ms())
            return await self._run_tracked(
                job, running, passage, outlet, journey=journey, task_class=context.task_class
            )

    def _unserved(self, wire: Wire, model: str) -> Answer:
        known = {name for tier in self._choosing.tiers for name in (tier.name, tier.model)}
        return (unspoken_answer if model in known else unknown_model_answer)(wire, model)

    def _with_kept(self, job: Job, wishes: Wishes) -> Job:
        """Return the job with the answer that was kept to the same request, where there is one."""
        keep = self._kept_answers.keep_for(
            job.request,
            job.tier,
            job.call.chain,
            path=job.wire.path,
            cache_control=wishes.cache_control,
        )
        kept = self._kept_answers.find(keep, now_ms=job.started_at_ms)
        return job if keep is None else replace(job, keep=keep, kept=kept)

    async def _run_tracked(
        self,
        job: Job,
        running: Running,
        passage: Passage,
        outlet: NamedOutlet,
        *,
        journey: Journey,
        task_class: TaskClass | None,
    ) -> Answer | None:
        """Admit the call, with less output where only that can be paid for, and run it."""
        first: Denied | None = None
        for _ in range(_CLAMPS_MAX):
            request = self._making.admission(job)
            # Before it is stored, so that no clock is faster.
            running.runs_on(request.call_id, request.reservation_id)
            decision = passage.denied or await self._turns.admit(request, task_class=task_class)
            match decision:
                case KeyReused():
                    return key_reused_answer(job.wire)
                case Replayed():
                    return replayed_answer(job.wire, decision)
                case Reserved():
                    return await self._run_reserved(
                        job, decision, running, passage, outlet, journey=journey
                    )
                case Denied():
                    first = first or decision
                    less = job.clamped(decision, output_tokens_min=self._output_tokens_min)
                    if less is None:
                        break
                    job = less
        assert first is not None, "whoever was not admitted was denied"
        return await self._deny(job, first, journey)

    async def _note(self, chain: ScopeChain, context: CallContext) -> str | None:
        """Return what the model is told of its turns and budgets, as far as it can be said."""
        told = await self._turns.chat_note(chain, turn=context.turn, task_class=context.task_class)
        standing = None
        if self._tracker is not Tracker.OFF:
            standing = await self._books.tracked(chain)
        budgets = None if standing is None else standing.note(self._tracker)
        return "\n".join(note for note in (told, budgets) if note is not None) or None

    async def _run_reserved(
        self,
        job: Job,
        reserved: Reserved,
        running: Running,
        passage: Passage,
        outlet: NamedOutlet,
        *,
        journey: Journey,
    ) -> Answer | None:
        progress = Progress()
        if job.keep is not None and job.request.is_streamed:
            outlet = Gathering(outlet, bytes_max=self._kept_answers.answer_bytes_max)
        began = self._clock.elapsed_ms()
        with self._watching.watched(job, outlet) as watched:
            try:
                try:
                    await self._ask_provider(
                        job, progress, running, outlet, watched.outlet, journey=journey
                    )
                finally:
                    await progress.measure(job)
            except Exception as error:
                progress.note_fault(error)
                raise
            finally:
                wall_ms = self._clock.elapsed_ms() - began
                passage.note(
                    progress.status,
                    wall_ms=wall_ms,
                    refused_for_load=_is_load(progress),
                    sign=Sign.NOTHING if job.kept is not None else _sign(progress),
                )
                usage = _usage(job, progress, wall_ms=wall_ms)
                record = self._record(job, progress, usage=usage, estimate=reserved.amount)
                settled = await self._books.end(reserved.reservation.reservation_id, record)
                # After the settlement, which what is told of a call can only hinder.
                watched.note_end(progress, usage, wall_ms=wall_ms)
                if usage is not None and job.kept is None:
                    self._doubts.note(job.tier.provider, progress.tokens)
                await self._tell_router(job, record, usage, wall_ms=wall_ms)
                self._making.ended(job, progress)
        gathered = outlet.gathered if isinstance(outlet, Gathering) else None
        keep_what_came(self._kept_answers, job, progress, gathered, now_ms=record.ended_at_ms)
        turns = self._turns.observed_chat(record)
        self._note_end(job, progress, journey)
        if progress.answer is None and settled is None:
            return None
        standing = await self._books.after(settled, job.call.chain)
        self._standings.note(job.call.chain, standing)
        if progress.answer is None:
            return None
        return annotated(
            progress.answer,
            job,
            standing=standing,
            usage=usage,
            usage_source=record.usage_source,
            turns=turns,
        )

    def _note_end(self, job: Job, progress: Progress, journey: Journey) -> None:
        """Note where the session is at home now, or where its request goes on."""
        if progress.failure is not None:
            journey.note_failed(
                Leg(
                    call_id=job.call.call_id,
                    tier=job.tier.name,
                    why=progress.failure.cause.value,
                ),
                recourse=progress.recourse,
                rounds=progress.rounds,
                answer=progress.answer,
                was_released=progress.status is CallStatus.RELEASED,
            )
            return
        journey.recourse = None
        if (
            job.kept is None
            and progress.status is CallStatus.OK
            and isinstance(progress.tokens, Measured)
        ):
            self._choosing.staying.note(
                job.call.chain.session, job.tier, key=progress.key, tokens=progress.tokens
            )

    async def _ask_provider(
        self,
        job: Job,
        progress: Progress,
        running: Running,
        client: NamedOutlet,
        outlet: Outlet,
        *,
        journey: Journey,
    ) -> None:
        """Forward the request and note in `progress` how it went.

        `outlet` leads to `client`; what was kept was said in the client's own words.
        """
        with running.stoppable() as scope:
            if running.stopped_why is not None:
                # It has sent nothing, whatever the mark says.
                await anyio.lowlevel.checkpoint_if_cancelled()
            if job.request.is_streamed:
                standing = await self._standings.lately(job.call.chain)
                client.name(stream_headers(job, standing))
            if job.kept is not None:
                progress.never_left = False
                await say_again(job.kept, progress, client)
            else:
                await self._persist(job, progress, outlet, journey)
        if scope.cancelled_caught:
            # An administrator or the shutdown stopped the call.
            progress.status, progress.failure = CallStatus.CANCELLED, None
            progress.detail = running.stopped_why or "stopped"
            if outlet.has_begun and progress.meter is not None:
                message = f"The call was stopped: {progress.detail}."
                await say_last(outlet, progress.meter.failure(message, code=STOPPED))
            else:
                progress.answer = stopped_answer(job.wire, progress.detail)

    async def _persist(
        self, job: Job, progress: Progress, outlet: Outlet, journey: Journey
    ) -> None:
        """Ask the provider, as often as is safe."""
        await persist(
            self._cares.of(job.tier.provider),
            self._providers,
            job,
            progress,
            outlet,
            clock=self._clock,
            wished=self._choosing.staying.wished_key(job.call.chain.session, job.tier),
            rounds_before=journey.rounds_at(job.tier.name),
        )

    async def _tell_router(
        self, job: Job, record: CallRecord, usage: Usage | None, *, wall_ms: int
    ) -> None:
        router = self._choosing.router
        # What was kept says nothing of how well the tier does.
        if router is None or job.kept is not None:
            return
        measured = None if usage is None else usage.measured.by_unit
        end = CallEnd(
            status=record.status,
            usage=usage,
            cost_microusd=None if measured is None else measured.get(Unit.COST_MICROUSD),
            wall_ms=wall_ms,
            ended_at_ms=record.ended_at_ms,
        )
        await router.ended(record.call_id, end)

    async def _deny(self, job: Job, denied: Denied, journey: Journey) -> Answer:
        not_started = Progress()
        not_started.note_denied(job.wire, self._told(job, denied))
        record = self._record(job, not_started, usage=None, estimate=job.estimate)
        await self._books.note_unheld(record)
        assert not_started.answer is not None, "a denial is an answer"
        standing = await self._books.standing(job.call.chain)
        answer = named(not_started.answer, job, budget=standing)
        journey.note_denied(
            Leg(call_id=job.call.call_id, tier=job.tier.name, why=denied.reason.value), answer
        )
        # What failed first is what the client has to know; what denied its mending comes beside.
        return journey.without_a_way(answer, denied) if job.legs else answer

    def _told(self, job: Job, denied: Denied) -> Denied:
        """Return the denial as the caller is told of it, and count it."""
        telemetry.count_denied(kind=CallKind.MODEL.value, reason=denied.reason)
        cheapest = self._choosing.tiers[0].name
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


def _sign(progress: Progress) -> Sign:
    """Return what the end of a call says of its provider."""
    if progress.failure is None and progress.status is CallStatus.CANCELLED:
        return Sign.NOTHING
    return sign_of(progress.failure)


def _is_load(progress: Progress) -> bool:
    """Tell whether the provider's part ended in a way that calls for fewer calls at once."""
    answer = progress.answer
    return not progress.never_left and answer is not None and answer.status in _LOAD


def _usage(job: Job, progress: Progress, *, wall_ms: int) -> Usage | None:
    """Return what to settle; None when provably nothing was consumed."""
    if progress.never_left:
        return None
    return usage_of(progress.tokens, job.price, wall_ms=wall_ms)
