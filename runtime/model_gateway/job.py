"""One model call on its way through the gateway, and the record that stays of it."""

import json
from dataclasses import dataclass

from governor.amounts import Amounts
from governor.call import CallRecord, CallStatus, ToolCall
from governor.denial import DenialReason, Denied, Remedy, RemedyAction
from governor.pricing import ModelPrice
from governor.target import CallKind
from governor.tiers import ModelTier
from governor.usage import Usage
from runtime.model_gateway.answers import Answer, denial_answer
from runtime.model_gateway.metering import NEVER_MEASURED, Metered, estimate_of
from runtime.model_gateway.request import ChatRequest, Payload
from runtime.model_gateway.verdict import Verdict
from tool_gateway.redaction import ArgumentsKept, render_arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One call with everything that was resolved for it before admission.

    `call` is the word that the ledger and the list of running calls share with tools; its
    tool is the model, its arguments are the request's body.
    """

    call: ToolCall
    session_name: str
    request: ChatRequest
    tier: ModelTier
    why: str
    payload: Payload
    timeout_ms: int
    started_at_ms: int
    policy_version: str

    @property
    def estimate(self) -> Amounts:
        """Return what the call may cost at the most, turns aside."""
        return estimate_of(self.payload, self.tier, timeout_ms=self.timeout_ms)

    @property
    def price(self) -> ModelPrice:
        """Return the price of the tier, without which no call is admitted."""
        assert self.tier.price is not None, "a tier without a price is refused before admission"
        return self.tier.price


@dataclass(slots=True)
class Progress:
    """What is known of a running call; its first values are the honest ones if it never ends."""

    status: CallStatus = CallStatus.CANCELLED
    detail: str = "the client went away"
    tokens: Metered = NEVER_MEASURED
    # Nothing leaves for the provider before the mark of the hold is stored.
    never_left: bool = True
    denial: DenialReason | None = None
    answer: Answer | None = None
    result_bytes: int | None = None

    def note(self, verdict: Verdict) -> None:
        """Note how the provider's part ended."""
        self.status, self.detail = verdict.status, verdict.detail
        self.tokens, self.answer = verdict.tokens, verdict.answer

    def note_fault(self, error: Exception) -> None:
        """Note that the sidecar itself failed; what left it by then is charged as held."""
        self.status = CallStatus.UPSTREAM_FAILED
        self.detail = f"the sidecar failed: {type(error).__name__}"

    def note_denied(self, denied: Denied) -> None:
        """Note that the call was denied, before anything of it left for the provider."""
        self.status, self.detail = CallStatus.DENIED, denied.remedy.text
        self.denial, self.answer = denied.reason, denial_answer(denied)

    def note_release(self, why: str, answer: Answer) -> None:
        """Note that provably nothing reached the provider."""
        self.status, self.detail = CallStatus.RELEASED, why
        self.never_left, self.answer = True, answer


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
        detail=progress.detail,
        result_bytes=progress.result_bytes,
        price_version=job.tier.price_version or None,
    )


def _arguments_of(job: Job, kept: ArgumentsKept) -> str:
    """Return the text that the record keeps; a prompt has no harmless part to leave in."""
    if kept is not ArgumentsKept.REDACTED:
        return render_arguments(job.call.tool, job.call.arguments, kept)
    read = job.request.read
    return json.dumps(
        {
            "model": read.model,
            "messages": len(read.messages),
            "tools": job.request.tools_count,
            "n": read.n or 1,
            "body_bytes": job.request.body_bytes,
            "output_tokens_max": job.payload.output_tokens_max,
        }
    )
