"""One model call on its way through the gateway, and the record that stays of it."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import msgspec

from governor.affording import affordable_output, is_too_dear
from governor.amounts import Amounts
from governor.call import CallRecord, CallStatus, ToolCall
from governor.denial import DenialReason, Denied, Remedy, RemedyAction
from governor.pricing import ModelPrice
from governor.providing.failure import Failure
from governor.providing.recourse import Recourse
from governor.target import CallKind
from governor.tiers import ModelTier
from governor.usage import Usage
from runtime.model_gateway.answer import Answer
from runtime.model_gateway.answers import denial_answer
from runtime.model_gateway.counting.off_loop import counted
from runtime.model_gateway.journey import Leg
from runtime.model_gateway.kept_answers import Keep, KeptAnswer
from runtime.model_gateway.measured import NEVER_MEASURED, Metered, source_of
from runtime.model_gateway.metering import estimate_of, estimate_of_kept, heard_of, held_price
from runtime.model_gateway.model_request import ModelRequest, Payload, WireName
from runtime.model_gateway.preparation import Prepared
from runtime.model_gateway.verdict import Verdict
from runtime.model_gateway.wires.wire import StreamMeter, Wire
from tool_gateway.redaction import ArgumentsKept, render_arguments

logger = logging.getLogger(__name__)

Refitted = Callable[[ModelTier], Prepared]

_OUTPUT_FIELDS = {
    WireName.OPENAI_CHAT: "max_completion_tokens",
    WireName.OPENAI_RESPONSES: "max_output_tokens",
}

CLIENT_LEFT = "the client went away"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One call with everything that was resolved for it before admission.

    `call` is the word that the ledger and the list of running calls share with tools; its
    tool is the model, its arguments are the request's body. `wire` is the one that the client
    is served on: its own, `client`, or one that translates for it. `wanted` is the output that
    it would have had, where the budgets pay for less. `keep` is where its answer is kept, `kept`
    the answer that it gets in the place of a provider's. `legs` are the calls before this one
    that the same request failed with. `request` is what the client `asked`, `prepared` for the
    tier; `refitted` makes it anew for a tier, as for one with less output.
    """

    call: ToolCall
    session_name: str
    client: Wire
    wire: Wire
    asked: ModelRequest
    tier: ModelTier
    why: str
    note: str | None
    payload: Payload
    timeout_ms: int
    started_at_ms: int
    policy_version: str
    prepared: Prepared
    refitted: Refitted
    wanted: int | None = None
    keep: Keep | None = None
    kept: KeptAnswer | None = None
    legs: tuple[Leg, ...] = ()

    @property
    def request(self) -> ModelRequest:
        """Return the request as its tier is asked."""
        return self.prepared.request

    @property
    def estimate(self) -> Amounts:
        """Return what the call may cost at the most, turns aside."""
        if self.kept is not None:
            return estimate_of_kept(timeout_ms=self.timeout_ms)
        return estimate_of(self.payload, self.tier, timeout_ms=self.timeout_ms)

    @property
    def price(self) -> ModelPrice:
        """Return the price of the tier, without which no call is admitted."""
        assert self.tier.price is not None, "a tier without a price is refused before admission"
        return self.tier.price

    def clamped(self, denied: Denied, *, output_tokens_min: int) -> "Job | None":
        """Return the job with as much output as the budgets of a denial still pay for.

        None where that is nothing, or too little to be an answer: then the denial stands. The
        tier says how little that is, `output_tokens_min` where it does not.
        """
        choices = self.request.choices
        output_tokens_max = affordable_output(
            denied,
            held_price(self.payload, self.price),
            input_tokens=self.payload.input_tokens_max,
            choices=choices,
        )
        asked = self.payload.output_tokens_max // choices
        if output_tokens_max is None or not output_tokens_max < asked:
            return None
        least = self.tier.output_tokens_min or output_tokens_min
        if output_tokens_max < min(least, asked):
            return None
        # What is thought has to fit below the output that can be paid for.
        prepared = self.refitted(replace(self.tier, output_tokens_max=output_tokens_max))
        payload = self.wire.payload(
            prepared.request, self.tier, note=self.note, output_tokens_max=output_tokens_max
        )
        return replace(self, prepared=prepared, payload=payload, wanted=self.wanted or asked)


@dataclass(slots=True)
class Progress:
    """What is known of a running call; its first values are the honest ones if it never ends."""

    status: CallStatus = CallStatus.CANCELLED
    detail: str = CLIENT_LEFT
    tokens: Metered = NEVER_MEASURED
    # Nothing leaves for the provider before the mark of the hold is stored.
    never_left: bool = True
    denial: DenialReason | None = None
    answer: Answer | None = None
    result_bytes: int | None = None
    meter: StreamMeter | None = None
    # Of the last attempt at the provider; None where it went well, or was ended by somebody.
    failure: Failure | None = None
    recourse: Recourse | None = None
    key: int | None = None
    refuses_usage: bool = False
    # The fields by which its output is to be bounded, where the provider refused another.
    caps_instead: tuple[str, ...] = ()
    attempts: int = 0
    rounds: int = 0

    def begin_attempt(self, key: int) -> None:
        """Take back what the attempt before said: from here on something may be generated."""
        self.status, self.detail = CallStatus.CANCELLED, CLIENT_LEFT
        self.tokens, self.answer, self.meter = NEVER_MEASURED, None, None
        self.failure, self.recourse, self.result_bytes = None, None, None
        self.key, self.never_left = key, False
        self.refuses_usage, self.caps_instead = False, ()
        self.attempts += 1

    def rest(self) -> None:
        """Note that what was sent so far provably generated nothing, and that nothing is sent."""
        self.status, self.detail = CallStatus.CANCELLED, CLIENT_LEFT
        self.never_left, self.answer = True, None

    def note(self, verdict: Verdict) -> None:
        """Note how the provider's part ended."""
        self.status, self.detail = verdict.status, verdict.detail
        self.tokens, self.answer = verdict.tokens, verdict.answer
        self.failure = verdict.failure

    def note_stream(
        self, status: CallStatus, detail: str, tokens: Metered, *, failure: Failure | None = None
    ) -> None:
        """Note how a stream ended that the client was given the end of."""
        self.status, self.detail, self.tokens = status, detail, tokens
        self.failure = failure

    def note_fault(self, error: Exception) -> None:
        """Note that the sidecar itself failed; what left it by then is charged as held."""
        self.status = CallStatus.UPSTREAM_FAILED
        self.detail = f"the sidecar failed: {type(error).__name__}"

    def note_denied(self, wire: Wire, denied: Denied) -> None:
        """Note that the call was denied, before anything of it left for the provider."""
        self.status, self.detail = CallStatus.DENIED, denied.remedy.text
        self.denial, self.answer = denied.reason, denial_answer(wire, denied)

    def note_release(self, why: str, answer: Answer, failure: Failure) -> None:
        """Note that provably nothing reached the provider."""
        self.status, self.detail, self.failure = CallStatus.RELEASED, why, failure
        self.never_left, self.answer = True, answer

    async def heard(self, job: Job, *, why: str) -> Metered:
        """Return the tokens of a stream as far as it was heard."""
        assert self.meter is not None, "a stream has begun"
        count = partial(heard_of, self.meter, job.payload, job.tier, why=why)
        return await counted(job.tier, count)

    async def measure(self, job: Job) -> None:
        """Take a stream that was left in the middle for what was heard of it."""
        if self.meter is None or self.tokens is not NEVER_MEASURED:
            return
        try:
            self.tokens = await self.heard(job, why=NEVER_MEASURED.why)
        except Exception:
            logger.exception("what was streamed cannot be counted: it is charged as it was held")


def unpriced(job: Job) -> Denied | None:
    """Return the denial of a tier that nobody put a price on: unknown is not free."""
    if job.tier.price is not None:
        return None
    return Denied(
        reason=DenialReason.UNPRICED,
        remedy=Remedy(
            action=RemedyAction.ASK_ADMINISTRATOR,
            text=(
                f"The tier {job.tier.name} has no price, so what a call costs is unknown. An "
                "administrator can set input_usd_per_mtok and output_usd_per_mtok in "
                "flyball.toml, or list the model with PUT /admin/v1/prices; 0 is a price too."
            ),
        ),
    )


def sized(job: Job, denied: Denied) -> Denied:
    """Return the denial with what would run: less output, or a shorter prompt."""
    if not is_too_dear(denied) or job.tier.price is None or job.kept is not None:
        return denied
    price, tokens = held_price(job.payload, job.price), job.payload.input_tokens_max
    output = affordable_output(denied, price, input_tokens=tokens, choices=job.request.choices)
    if output is None:
        return denied
    field = _OUTPUT_FIELDS.get(job.client.name, "max_tokens")
    told = f"It would run with {field} {output} or lower."
    if output == 0:
        alone = price.cost_microusd(input_tokens=tokens, output_tokens=0)
        told = (
            f"Its size is the cause: its prompt of up to {tokens} tokens is held at {alone} "
            f"cost_microusd before any output. Send a shorter prompt; a lower {field} alone "
            "does not help."
        )
    remedy = replace(denied.remedy, text=f"{denied.remedy.text} {told}")
    return replace(denied, remedy=remedy)


def record_of(
    job: Job,
    progress: Progress,
    *,
    ended_at_ms: int,
    kept: ArgumentsKept,
    estimate: Amounts,
    usage: Usage | None,
) -> CallRecord:
    """Return what is kept of a call; of the conversation only what `kept` allows."""
    return CallRecord(
        call_id=job.call.call_id,
        kind=CallKind.MODEL,
        name=job.call.tool,
        chain=job.call.chain,
        turn=job.call.turn,
        status=progress.status,
        started_at_ms=job.started_at_ms,
        ended_at_ms=ended_at_ms,
        arguments=_arguments_of(job, kept),
        backend=job.tier.provider,
        rule=f"tier {job.tier.name}: {job.why}",
        policy_version=job.policy_version,
        estimate=estimate,
        usage=usage,
        denial=progress.denial,
        detail=_detail(progress),
        result_bytes=progress.result_bytes,
        price_version=job.tier.price_version or None,
        usage_source=None
        if usage is None or job.kept is not None
        else source_of(progress.tokens).value,
    )


def _detail(progress: Progress) -> str:
    tries = progress.attempts
    said = (progress.detail, f"asked {tries} times") if tries > 1 else (progress.detail,)
    return "; ".join(part for part in said if part)


def _arguments_of(job: Job, kept: ArgumentsKept) -> str:
    """Return the text that the record keeps; a prompt has no harmless part to leave in."""
    if kept is not ArgumentsKept.REDACTED:
        return render_arguments(job.call.tool, job.call.arguments, kept)
    request = job.request
    shown = {
        "model": request.model,
        "messages": request.messages_count,
        "tools": request.tools_count,
        "n": request.choices,
        "stream": request.is_streamed,
        "body_bytes": request.body_bytes,
        "output_tokens_max": job.payload.output_tokens_max,
    }
    return msgspec.json.encode(shown).decode()
