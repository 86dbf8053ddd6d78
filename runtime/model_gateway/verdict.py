"""What a provider's answer means: for the budget, for the record and for the client.

Only a status in the 400s proves that nothing was generated: the provider refused the
request before it reached a model. (408 and 499 prove nothing: they tell of a wait that was
given up.) Any other failure may have been generated and billed, so it is charged as held.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from governor.call import CallStatus
from runtime.errors import ProviderError
from runtime.model_gateway.answers import (
    BAD_GATEWAY,
    GATEWAY_TIMEOUT,
    Answer,
    provider_answer,
)
from runtime.model_gateway.errors import ProviderTimedOutError
from runtime.model_gateway.metering import NOTHING_GENERATED, Metered, Unmeasured, metered
from runtime.model_gateway.providers import ProviderAnswer
from runtime.model_gateway.request import Payload
from runtime.model_gateway.strict_json import object_in

_OK = 200
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


def verdict_on(received: ProviderAnswer, payload: Payload) -> Verdict:
    """Return what an answer means that the provider gave to `payload`."""
    body = _object_in(received.content)
    if received.status == _OK:
        return _served(body, payload)
    is_refusal = received.status in _REFUSALS and received.status not in _GAVE_UP_WAITING
    detail = f"the provider answered {received.status}"
    if not is_refusal:
        return _failed(f"{detail}, which does not prove that nothing was generated")
    reported = None if body is None else body.get("usage")
    return Verdict(
        status=CallStatus.UPSTREAM_FAILED,
        detail=detail,
        tokens=NOTHING_GENERATED if reported is None else metered(reported, payload),
        answer=_refusal(received, body),
    )


def verdict_without_answer(error: ProviderError) -> Verdict:
    """Return what it means that the request was sent and no whole answer came back."""
    if isinstance(error, ProviderTimedOutError):
        return Verdict(
            status=CallStatus.TIMED_OUT,
            detail=str(error),
            tokens=Unmeasured(why="the call timed out before it was measured"),
            answer=provider_answer(GATEWAY_TIMEOUT, str(error), code="provider_timed_out"),
        )
    return _failed(str(error))


def _served(body: dict[str, object] | None, payload: Payload) -> Verdict:
    if body is None:
        return _failed("the provider's answer is not a JSON object")
    if body.get("error") is not None or not isinstance(body.get("choices"), list):
        return _failed("the provider's answer holds an error in place of choices")
    tokens = metered(body.get("usage"), payload)
    return Verdict(
        status=CallStatus.OK,
        detail=tokens.why if isinstance(tokens, Unmeasured) else "",
        tokens=tokens,
        answer=Answer(status=_OK, body=body),
    )


def _failed(detail: str) -> Verdict:
    return Verdict(
        status=CallStatus.UPSTREAM_FAILED,
        detail=detail,
        tokens=Unmeasured(why=detail),
        answer=provider_answer(
            BAD_GATEWAY, f"The model call failed: {detail}.", code="provider_failed"
        ),
    )


def _refusal(received: ProviderAnswer, body: dict[str, object] | None) -> Answer:
    if received.status in _OUR_CREDENTIALS:
        return provider_answer(
            BAD_GATEWAY,
            "The model provider refused Flyball's own credentials; an administrator can check "
            "the variable that api_key_from names.",
            code="provider_refused_credentials",
        )
    headers = {} if received.retry_after is None else {"Retry-After": received.retry_after}
    if body is not None and isinstance(body.get("error"), (Mapping, str)):
        return Answer(status=received.status, body=body, headers=headers)
    plain = provider_answer(
        received.status,
        f"The model provider refused the request with status {received.status}.",
        code="provider_refused",
    )
    return Answer(status=plain.status, body=plain.body, headers=headers)


def _object_in(content: bytes) -> dict[str, object] | None:
    """Return the JSON object in `content`, None where there is none."""
    try:
        return object_in(content)
    except ValueError:
        return None
