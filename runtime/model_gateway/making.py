"""The calls that a request is made as: the first, and those that follow where one failed."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from governor.admission import AdmissionRequest
from governor.affording import is_too_dear
from governor.call import CallStatus, Idempotency, ToolCall
from governor.denial import Denied
from governor.ids import CallId, ReservationId, ToolName, TurnId
from governor.providing.recourse import AnotherTier, CheaperTier, NewHold
from governor.scope import ScopeChain
from governor.target import CallKind, CallTarget
from governor.tiers import ModelTier, TierChoice
from runtime.model_gateway.attempts.care import ProviderCares
from runtime.model_gateway.choosing import Choosing
from runtime.model_gateway.job import Job, Progress
from runtime.model_gateway.journey import Journey
from runtime.model_gateway.measured import Measured, UsageSource
from runtime.model_gateway.model_request import ModelRequest
from runtime.model_gateway.models import AUTO
from runtime.model_gateway.ports import Wishes
from runtime.model_gateway.preparation import Linked, Prepared, Preparer, Preparing
from runtime.model_gateway.providers.pool import ProviderPool
from runtime.model_gateway.wires.wire import Wire
from tool_gateway import telemetry
from tool_gateway.books import EXPIRY_GRACE_MS
from tool_gateway.identity import CallContext
from tool_gateway.ports import Clock
from tool_gateway.redaction import payload_hash

# What is cut to fewer tokens than these is seldom an answer.
_SCANTY_TOKENS = 64
_COUNTED = (UsageSource.PROVIDER, UsageSource.TOKENIZER)


class Making:
    """Makes calls of requests."""

    def __init__(
        self,
        *,
        clock: Clock,
        choosing: Choosing,
        providers: ProviderPool,
        cares: ProviderCares,
        policy_version: Callable[[], str],
        preparer: Preparer | None = None,
    ) -> None:
        """Take the parts; `preparer` makes requests ready for their tier."""
        self._preparer = preparer
        self._clock = clock
        self._choosing = choosing
        self._providers = providers
        self._cares = cares
        self._policy_version = policy_version

    def first(
        self,
        request: ModelRequest,
        wire: Wire,
        choice: TierChoice,
        *,
        call_id: CallId,
        note: str | None,
        session_name: str,
        chain: ScopeChain,
        context: CallContext,
        wishes: Wishes,
        linked: Linked | None = None,
    ) -> Job:
        """Return a request as its first call, on the tier that was chosen.

        `linked` says of which answer in several rounds the call is one.

        Raises:
            InvalidRequestError: the tier cannot serve what the request asks for.
        """
        # Held and charged by one list, whichever is in force when the call ends.
        tier = self._cares.of(choice.tier.provider).known(choice.tier)
        serving = self._choosing.serving(wire, tier)
        assert serving is not None, "a tier is only chosen where it serves the client"
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
            else Idempotency(key=key, payload_hash=_asked_hash(request, wire)),
            urgency=context.urgency,
        )
        wanted = Preparing(
            mode=wishes.mode or choice.mode,
            effort=choice.effort if wishes.effort is None else wishes.effort,
            task_class=context.task_class,
            is_aside=linked is not None and linked.is_aside,
        )
        refitted = partial(self._prepared, request, wanted)
        prepared = refitted(tier)
        # Whoever answers in rounds names the tiers, not the client.
        is_named = linked is None or request.model == AUTO
        said = (
            choice.why if is_named else "",
            "" if linked is None else linked.words,
            prepared.why,
            "" if request.compacted is None else request.compacted.words,
        )
        return Job(
            call=call,
            session_name=session_name,
            client=wire,
            wire=serving,
            asked=request,
            tier=tier,
            why="; ".join(word for word in said if word),
            note=note,
            payload=serving.payload(prepared.request, tier, note=note),
            timeout_ms=self._providers.timeouts(tier).whole_ms,
            started_at_ms=self._clock.now_ms(),
            policy_version=self._policy_version(),
            prepared=prepared,
            refitted=refitted,
        )

    def ended(self, job: Job, progress: Progress) -> None:
        """Tell whoever makes requests ready what a call took."""
        # What was kept took nothing this time, and a bound says nothing of what is usual.
        if self._preparer is None or progress.status is not CallStatus.OK or job.kept is not None:
            return
        tokens, output = progress.tokens, None
        if isinstance(tokens, Measured) and tokens.source in _COUNTED:
            output = tokens.output_tokens
        self._preparer.ended(job.prepared, job.call.call_id, output_tokens=output)

    def _prepared(self, request: ModelRequest, wanted: Preparing, tier: ModelTier) -> Prepared:
        if self._preparer is None:
            return Prepared(request=request)
        return self._preparer.prepare(request, tier, wanted)

    def following(self, choice: TierChoice, job: Job, journey: Journey) -> Job | None:
        """Return the request as the call that follows `job`; None: the request ends with it.

        `choice` is that of the first call. The one that follows belongs to the same turn. The key
        of the request goes with it only where nothing was consumed: else the call that consumed
        something is the one to replay.
        """
        tier = self._next_tier(choice.tier, job, journey)
        if tier is None:
            return None
        tier = self._cares.of(tier.provider).known(tier)
        serving = self._choosing.serving(job.client, tier)
        assert serving is not None, "a tier only follows where it serves the client"
        prepared = job.refitted(tier)
        call = replace(
            job.call,
            call_id=CallId(self._clock.fresh("call")),
            tool=ToolName(tier.model),
            idempotency=job.call.idempotency if journey.keeps_key else None,
        )
        return replace(
            job,
            call=call,
            wire=serving,
            tier=tier,
            why=journey.why(choice.why),
            prepared=prepared,
            payload=serving.payload(prepared.request, tier, note=job.note),
            timeout_ms=self._providers.timeouts(tier).whole_ms,
            started_at_ms=self._clock.now_ms(),
            wanted=None,
            keep=None,
            kept=None,
            legs=tuple(journey.legs),
        )

    def admission(self, job: Job) -> AdmissionRequest:
        """Return what the ledger is asked for a call, under a fresh id."""
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
            # It has its slot, so nothing stands between the hold and the first byte.
            leaves_at_once=True,
        )

    def _next_tier(self, named: ModelTier, job: Job, journey: Journey) -> ModelTier | None:
        match journey.recourse:
            case NewHold():
                return job.tier
            case AnotherTier(is_for_size=is_for_size):
                tier = self._choosing.next_after(
                    named,
                    job.asked,
                    job.client,
                    tried=journey.tried,
                    is_for_size=is_for_size,
                )
                if tier is not None:
                    why = journey.legs[-1].why
                    telemetry.count_fallback(provider=job.tier.provider, reason=why)
                return tier
            case CheaperTier():
                return self._cheaper(job, journey)
            case _:
                return None

    def goes_cheaper(self, job: Job, denied: Denied, journey: Journey) -> bool:
        """Tell whether a call that was denied is for a cheaper tier to answer."""
        return is_too_dear(denied) and self._cheaper(job, journey) is not None

    def is_scanty(self, job: Job, journey: Journey) -> bool:
        """Tell whether a cheaper tier is to answer rather than so short of output."""
        wanted = min(_SCANTY_TOKENS, job.wanted or _SCANTY_TOKENS)
        if job.payload.output_tokens_max // job.request.choices >= wanted:
            return False
        return self._cheaper(job, journey) is not None

    def _cheaper(self, job: Job, journey: Journey) -> ModelTier | None:
        # Whoever names a tier means that one.
        if job.asked.model != AUTO:
            return None
        tried = journey.tried | {job.tier.name}
        return self._choosing.cheaper_than(job.tier, job.asked, job.client, tried=tried)


def _asked_hash(request: ModelRequest, wire: Wire) -> str:
    """Return a hash of what was asked, and where: a count of tokens is no message.

    The name is the client's, so that a tier that `auto` chose anew is no other payload; and of
    a conversation that was made shorter it is what the client sent.
    """
    asked = request.fields if request.compacted is None else request.compacted.asked
    return payload_hash(f"{wire.path} {request.model}", asked)
