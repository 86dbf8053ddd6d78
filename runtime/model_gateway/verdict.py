"""What a provider's answer means: for the budget, for the record and for the client.

A refusal proves that nothing was generated: the request did not reach a model. Which answers
are refusals `governor.providing.failure` says. Any other failure may have been generated and
billed, so it is charged as held.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from governor.call import CallStatus
from governor.providing.failure import (
    Cause,
    Failure,
    failure_in_answer,
    failure_of,
    failure_of_status,
)
from governor.retrying import Sent
from governor.tiers import ModelTier
from runtime.errors import ProviderError
from runtime.model_gateway.answer import Answer
from runtime.model_gateway.answers import (
    BAD_GATEWAY,
    GATEWAY_TIMEOUT,
    TOO_MANY_REQUESTS,
    provider_answer,
)
from runtime.model_gateway.attempts.complaints import said_in
from runtime.model_gateway.counting.belief import believed
from runtime.model_gateway.counting.unreported import is_text_kept
from runtime.model_gateway.errors import ProviderTimedOutError
from runtime.model_gateway.measured import NOTHING_GENERATED, Metered, Unmeasured, doubt_of
from runtime.model_gateway.model_request import Payload
from runtime.model_gateway.strict_json import object_in
from runtime.model_gateway.wires.wire import Wire

OK = 200
SERVED = range(200, 204)
_PROXY_REFUSED = 407
_NO_RETRY = {"X-Should-Retry": "false"}


_FAILED = failure_of(Cause.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How a call ended, what of it was measured, and what the client gets.

    `detail` goes into the record, so it never quotes the provider, who may quote the prompt.
    `failure` is None where the call went well.
    """

    status: CallStatus
    detail: str
    tokens: Metered
    answer: Answer
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A whole answer of another status; `retry_after_ms` where it says when to come."""

    status: int
    content: bytes
    retry_after_ms: int | None


def verdict_on_served(wire: Wire, content: bytes, payload: Payload, tier: ModelTier) -> Verdict:
    """Return what a whole answer with a status of success means that `payload` was given."""
    served = wire.served(content, payload, keeps_text=is_text_kept(tier))
    if served.fault:
        said = said_in(content)
        verdict = failed(wire, served.fault, failure_in_answer(said.complaint, status=said.status))
        if not served.is_foreign:
            return verdict
        return replace(verdict, answer=_foreign(wire, served.fault, tier))
    tokens = believed(served.reported, served.produced, payload, tier)
    return Verdict(
        status=CallStatus.OK,
        detail=doubt_of(tokens),
        tokens=tokens,
        answer=Answer(status=OK, content=content),
    )


def verdict_on_refused(wire: Wire, refused: Refused, payload: Payload, tier: ModelTier) -> Verdict:
    """Return what an answer with another status means."""
    complaint = said_in(refused.content).complaint
    failure = failure_of_status(refused.status, complaint, retry_after_ms=refused.retry_after_ms)
    detail = f"the provider answered {refused.status}"
    if not failure.proves_nothing_generated:
        words = f"{detail}, which does not prove that nothing was generated"
        return failed(wire, words, failure)
    body = _object_in(refused.content)
    tokens: Metered = NOTHING_GENERATED
    reported = None if body is None else wire.served(refused.content, payload).reported
    if reported is not None:
        # What it bills it has generated, whatever its status says.
        tokens = believed(reported, None, payload, tier)
        failure = replace(failure, sent=Sent.UNKNOWN)
    return Verdict(
        status=CallStatus.UPSTREAM_FAILED,
        detail=detail,
        tokens=tokens,
        answer=_refusal(wire, refused, body, failure),
        failure=failure,
    )


def verdict_without_a_key(wire: Wire, failure: Failure) -> Verdict:
    """Return what it means that no key of the provider can be used now; nothing was sent."""
    if failure.cause is Cause.KEYS_RESTING:
        detail = "every key of the provider rests, because its limits are reached"
        answer = provider_answer(
            wire,
            TOO_MANY_REQUESTS,
            "The model provider's limits are reached; retry later.",
            code="provider_rate_limited",
            headers=_retry_after(failure),
        )
    else:
        detail = "every key of the provider was refused"
        answer = _credentials_refused(wire)
    return Verdict(
        status=CallStatus.RELEASED,
        detail=detail,
        tokens=NOTHING_GENERATED,
        answer=answer,
        failure=failure,
    )


def verdict_without_answer(wire: Wire, error: ProviderError) -> Verdict:
    """Return what it means that the request was sent and no whole answer came back."""
    if isinstance(error, ProviderTimedOutError):
        return Verdict(
            status=CallStatus.TIMED_OUT,
            detail=str(error),
            tokens=Unmeasured(why="the call timed out before it was measured"),
            answer=provider_answer(wire, GATEWAY_TIMEOUT, str(error), code="provider_timed_out"),
            failure=failure_of(Cause.TIMED_OUT),
        )
    return failed(wire, str(error))


def failed(wire: Wire, detail: str, failure: Failure = _FAILED) -> Verdict:
    """Return what a failure means that proves nothing: it is charged as held."""
    return Verdict(
        status=CallStatus.UPSTREAM_FAILED,
        detail=detail,
        tokens=Unmeasured(why=detail),
        answer=provider_answer(
            wire, BAD_GATEWAY, f"The model call failed: {detail}.", code="provider_failed"
        ),
        failure=failure,
    )


def _foreign(wire: Wire, fault: str, tier: ModelTier) -> Answer:
    """Return what a client gets whose provider answers another API: once more costs as much."""
    return provider_answer(
        wire,
        BAD_GATEWAY,
        f"The model call failed: {fault}. The provider {tier.provider} may not serve "
        f"{wire.name.value}: an administrator can name what it serves in `wires` of its "
        "[[provider]]. The call is charged as it was held, for it may have been billed.",
        code="provider_failed",
        headers=_NO_RETRY,
    )


def _refusal(
    wire: Wire, refused: Refused, body: dict[str, object] | None, failure: Failure
) -> Answer:
    # What is about our key and our account, relayed, would send the client looking at its own.
    if failure.cause is Cause.KEY_REFUSED or refused.status == _PROXY_REFUSED:
        return _credentials_refused(wire)
    if failure.cause is Cause.UNPAID:
        return provider_answer(
            wire,
            BAD_GATEWAY,
            "The model provider refuses Flyball's own account for its balance or its quota; an "
            "administrator can mend that with the provider.",
            code="provider_unpaid",
            headers=_NO_RETRY,
        )
    headers = _retry_after(failure)
    if body is not None and isinstance(body.get("error"), (Mapping, str)):
        return Answer(status=refused.status, content=refused.content, headers=headers)
    return provider_answer(
        wire,
        refused.status,
        f"The model provider refused the request with status {refused.status}.",
        code="provider_refused",
        headers=headers,
    )


def _credentials_refused(wire: Wire) -> Answer:
    return provider_answer(
        wire,
        BAD_GATEWAY,
        "The model provider refused Flyball's own credentials; an administrator can check "
        "the variable that api_key_from names.",
        code="provider_refused_credentials",
    )


def _retry_after(failure: Failure) -> dict[str, str]:
    after_ms = failure.retry_after_ms
    return {} if after_ms is None else {"Retry-After": str(-(-after_ms // 1000))}


def _object_in(content: bytes) -> dict[str, object] | None:
    """Return the JSON object in `content`, None where there is none."""
    try:
        return object_in(content)
    except ValueError:
        return None
