"""What becomes of an admitted call: it is forwarded, settled, recorded, told of."""

import anyio
import anyio.lowlevel

from governor.amounts import Amounts, Unit
from governor.breaker import Sign
from governor.call import CallRecord, CallStatus
from governor.events import Reserved
from governor.providing.recourse import sign_of
from governor.usage import Usage
from runtime.model_gateway.answer import Answer
from runtime.model_gateway.answers import (
    BAD_GATEWAY,
    GATEWAY_TIMEOUT,
    TOO_MANY_REQUESTS,
    stopped_answer,
)
from runtime.model_gateway.asking import say_last
from runtime.model_gateway.attempts.care import ProviderCares
from runtime.model_gateway.choosing import Choosing
from runtime.model_gateway.doubts import Doubts
from runtime.model_gateway.job import Job, Progress, record_of
from runtime.model_gateway.journey import Journey, Leg
from runtime.model_gateway.kept_answers import KeptAnswers
from runtime.model_gateway.making import Making
from runtime.model_gateway.measured import Measured
from runtime.model_gateway.metering import usage_of
from runtime.model_gateway.observing import Watching
from runtime.model_gateway.persisting import persist
from runtime.model_gateway.ports import CallEnd
from runtime.model_gateway.providers.pool import ProviderPool
from runtime.model_gateway.replaying import (
    Gathering,
    NamedOutlet,
    keep_what_came,
    say_again,
)
from runtime.model_gateway.standings import Standings
from runtime.model_gateway.streams.relay import Outlet
from runtime.model_gateway.telling import annotated, stream_headers
from runtime.model_gateway.wires.openai_errors import STOPPED
from tool_gateway.books import Books
from tool_gateway.ports import Clock
from tool_gateway.redaction import ArgumentsKept
from tool_gateway.running import Running
from tool_gateway.turn_gate import TurnGate
from tool_gateway.turnstile import Passage

# The provider refused for its rate, failed, or never answered.
_LOAD = frozenset({TOO_MANY_REQUESTS, BAD_GATEWAY, GATEWAY_TIMEOUT})


class AdmittedCalls:
    """Runs calls that hold their estimate; whatever happens, each hold is ended once."""

    def __init__(
        self,
        *,
        books: Books,
        turns: TurnGate,
        clock: Clock,
        choosing: Choosing,
        making: Making,
        providers: ProviderPool,
        cares: ProviderCares,
        arguments_kept: ArgumentsKept,
        kept_answers: KeptAnswers,
    ) -> None:
        """Take the parts, which are the gateway's."""
        self._books = books
        self._turns = turns
        self._clock = clock
        self._choosing = choosing
        self._making = making
        self._providers = providers
        self._cares = cares
        self._arguments_kept = arguments_kept
        self._kept_answers = kept_answers
        self._doubts = Doubts()
        self._standings = Standings(books, clock)
        self._watching = Watching(clock.elapsed_ms)

    async def run(
        self,
        job: Job,
        reserved: Reserved,
        running: Running,
        passage: Passage,
        outlet: NamedOutlet,
        *,
        journey: Journey,
    ) -> Answer | None:
        """Return the answer, None where it was relayed to `outlet`; note its end in `journey`."""
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
