"""What a provider's answer means: for the budget, for the record and for the client.

Only a status in the 400s proves that nothing was generated: the provider refused the
request before it reached a model. (408 and 499 prove nothing: they tell of a wait that was
given up.) Any other failure may have been generated and billed, so it is charged as held.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from governor.call import CallStatus
from governor.tiers import ModelTier
from runtime.errors import ProviderError
from runtime.model_gateway.answer import Answer
from runtime.model_gateway.answers import BAD_GATEWAY, GATEWAY_TIMEOUT, provider_answer
from runtime.model_gateway.counting.belief import believed
from runtime.model_gateway.counting.unreported import is_text_kept
from runtime.model_gateway.errors import ProviderTimedOutError
from runtime.model_gateway.measured import NOTHING_GENERATED, Metered, Unmeasured, doubt_of
from runtime.model_gateway.model_request import Payload
from runtime.model_gateway.strict_json import object_in
from runtime.model_gateway.wires.wire import Wire

OK = 200
_REFUSALS = range(400, 500)
_GAVE_UP_WAITING = (408, 499)
# These are about our key, not about the client's: relayed, they would send it looking there.
_OUR_CREDENTIALS = (401, 403, 407)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How a call ended, what of it was measured, and what the client gets.

    `detail` goes into the record, so it never quotes the provider, who may quote the prompt.
    """

    status: CallStatus
    detail: str
    tokens: Metered
    answer: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A whole answer of another status than 200."""

    status: int
    content: bytes
    retry_after: str | None


def verdict_on_served(wire: Wire, content: bytes, payload: Payload, tier: ModelTier) -> Verdict:
    """Return what a whole answer with status 200 means that `payload` was given."""
    served = wire.served(content, payload, keeps_text=is_text_kept(tier))
    if served.fault:
        return failed(wire, served.fault)
    tokens = believed(served.reported, served.produced, payload, tier)
    return Verdict(
        status=CallStatus.OK,
        detail=doubt_of(tokens),
        tokens=tokens,
        answer=Answer(status=OK, content=content),
    )


def verdict_on_refused(wire: Wire, refused: Refused, payload: Payload, tier: ModelTier) -> Verdict:
    """Return what an answer with another status means."""
    is_refusal = refused.status in _REFUSALS and refused.status not in _GAVE_UP_WAITING
    detail = f"the provider answered {refused.status}"
    if not is_refusal:
        return failed(wire, f"{detail}, which does not prove that nothing was generated")
    body = _object_in(refused.content)
    reported = None if body is None else wire.served(refused.content, payload).reported
    return Verdict(
        status=CallStatus.UPSTREAM_FAILED,
        detail=detail,
        tokens=NOTHING_GENERATED if reported is None else believed(reported, None, payload, tier),
        answer=_refusal(wire, refused, body),
    )


def verdict_without_answer(wire: Wire, error: ProviderError) -> Verdict:
    """Return what it means that the request was sent and no whole answer came back."""
    if isinstance(error, ProviderTimedOutError):
        return Verdict(
            status=CallStatus.TIMED_OUT,
            detail=str(error),
            tokens=Unmeasured(why="the call timed out before it was measured"),
            answer=provider_answer(wire, GATEWAY_TIMEOUT, str(error), code="provider_timed_out"),
        )
    return failed(wire, str(error))


def failed(wire: Wire, detail: str) -> Verdict:
    """Return what a failure means that proves nothing: it is charged as held."""
    return Verdict(
        status=CallStatus.UPSTREAM_FAILED,
        detail=detail,
        tokens=Unmeasured(why=detail),
        answer=provider_answer(
            wire, BAD_GATEWAY, f"The model call failed: {detail}.", code="provider_failed"
        ),
    )


def _refusal(wire: Wire, refused: Refused, body: dict[str, object] | None) -> Answer:
    if refused.status in _OUR_CREDENTIALS:
        return provider_answer(
            wire,
            BAD_GATEWAY,
            "The model provider refused Flyball's own credentials; an administrator can check "
            "the variable that api_key_from names.",
            code="provider_refused_credentials",
        )
    headers = {} if refused.retry_after is None else {"Retry-After": refused.retry_after}
    if body is not None and isinstance(body.get("error"), (Mapping, str)):
        return Answer(status=refused.status, content=refused.content, headers=headers)
    return provider_answer(
        wire,
        refused.status,
        f"The model provider refused the request with status {refused.status}.",
        code="provider_refused",
        headers=headers,
    )


def _object_in(content: bytes) -> dict[str, object] | None:
    """Return the JSON object in `content`, None where there is none."""
    try:
        return object_in(content)
    except ValueError:
        return None
