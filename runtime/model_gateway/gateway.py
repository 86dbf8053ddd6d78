"""The path that every model call takes until it is admitted or denied, and over its attempts."""

from collections.abc import Callable
from dataclasses import replace

import anyio
import anyio.lowlevel

from governor.denial import Denied
from governor.events import KeyReused, Replayed, Reserved
from governor.ids import CallId, TaskClass
from governor.providing.recourse import NewHold
from governor.scope import ScopeChain
from governor.target import CallKind
from governor.tiers import ModelTier
from governor.tracker import Tracker
from runtime.model_gateway.admitted import AdmittedCalls
from runtime.model_gateway.answer import Answer
from runtime.model_gateway.answers import (
    key_reused_answer,
    replayed_answer,
    unknown_model_answer,
    unspoken_answer,
)
from runtime.model_gateway.attempts.care import ProviderCares
from runtime.model_gateway.choosing import Choosing
from runtime.model_gateway.job import Job, Progress, record_of, sized, unpriced
from runtime.model_gateway.journey import Journey, Leg
from runtime.model_gateway.kept_answers import KeptAnswers, KeptPolicy
from runtime.model_gateway.making import Making
from runtime.model_gateway.model_request import ModelRequest
from runtime.model_gateway.ports import Wishes
from runtime.model_gateway.preparation import Linked, Preparer
from runtime.model_gateway.providers.pool import ProviderPool
from runtime.model_gateway.replaying import (
    NamedOutlet,
)
from runtime.model_gateway.telling import named
from runtime.model_gateway.wires.wire import Wire
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
        self._cares = cares
        self._running = running
        self._arguments_kept = arguments_kept
        self._tracker = tracker
        self._admin_contact = admin_contact
        self._turnstile = turnstile
        self._output_tokens_min = output_tokens_min
        self._kept_answers = kept_answers or KeptAnswers(KeptPolicy())
        self._admitted = AdmittedCalls(
            books=books,
            turns=turns,
            clock=clock,
            choosing=choosing,
            making=self._making,
            providers=providers,
            cares=cares,
            arguments_kept=arguments_kept,
            kept_answers=self._kept_answers,
        )

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
                call,
                kind=CallKind.MODEL,
                backend=job.tier.provider,
                goes_on=bool(journey.legs),
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
                    return await self._admitted.run(
                        job, decision, running, passage, outlet, journey=journey
                    )
                case Denied():
                    first = first or decision
                    less = job.clamped(decision, output_tokens_min=self._output_tokens_min)
                    if less is None or self._making.is_scanty(less, journey):
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

    async def _deny(self, job: Job, denied: Denied, journey: Journey) -> Answer:
        not_started = Progress()
        not_started.note_denied(job.wire, self._told(job, denied))
        record = record_of(
            job,
            not_started,
            ended_at_ms=self._clock.now_ms(),
            kept=self._arguments_kept,
            estimate=job.estimate,
            usage=None,
        )
        await self._books.note_unheld(record)
        assert not_started.answer is not None, "a denial is an answer"
        standing = await self._books.standing(job.call.chain)
        answer = named(not_started.answer, job, budget=standing)
        leg = Leg(call_id=job.call.call_id, tier=job.tier.name, why=denied.reason.value)
        goes_cheaper = self._making.goes_cheaper(job, denied, journey)
        journey.note_denied(leg, answer, goes_cheaper=goes_cheaper)
        # What failed first is what the client has to know; what denied its mending comes beside.
        return journey.without_a_way(answer, denied) if job.legs else answer

    def _told(self, job: Job, denied: Denied) -> Denied:
        """Return the denial as the caller is told of it, and count it."""
        self._books.count_denied(job.call, CallKind.MODEL, denied)
        cheapest = self._choosing.tiers[0].name
        return advised(
            sized(job, denied),
            cheaper=None if job.tier.name == cheapest else f"model {cheapest}",
            contact=self._admin_contact,
        )
