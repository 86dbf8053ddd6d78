"""Answers in OpenAI's wire format, with what Flyball adds to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from governor.denial import Denied, RemedyAction
from governor.events import Replayed
from runtime.model_gateway.errors import InvalidRequestError
from tool_gateway.denials import denial_json
from tool_gateway.errors import UnknownSessionError

BAD_REQUEST = 400
FORBIDDEN = 403
NOT_FOUND = 404
METHOD_NOT_ALLOWED = 405
CONFLICT = 409
TOO_MANY_REQUESTS = 429
BAD_GATEWAY = 502
GATEWAY_TIMEOUT = 504

FLYBALL = "flyball"
# The official clients retry 409 and 429 by themselves; this header tells them not to.
_NO_RETRY = {"X-Should-Retry": "false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An HTTP answer before it is bytes."""

    status: int
    body: Mapping[str, object]
    headers: Mapping[str, str] = field(default_factory=dict)

    def with_flyball(self, member: Mapping[str, object], *, headers: Mapping[str, str]) -> "Answer":
        """Return the answer with more in its `flyball` member and its headers."""
        known = self.body.get(FLYBALL)
        before = known if isinstance(known, Mapping) else {}
        return replace(
            self,
            body={**self.body, FLYBALL: {**before, **member}},
            headers={**self.headers, **headers},
        )


def error_answer(
    status: int,
    message: str,
    *,
    kind: str,
    code: str,
    param: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Return an error in OpenAI's envelope."""
    error = {"message": message, "type": kind, "param": param, "code": code}
    return Answer(status=status, body={"error": error}, headers=headers or {})


def invalid_answer(error: InvalidRequestError) -> Answer:
    """Return what a client gets for a request that cannot be served."""
    return error_answer(
        BAD_REQUEST,
        str(error),
        kind="invalid_request_error",
        code="invalid_request",
        param=error.param,
    )


def unknown_model_answer(model: str) -> Answer:
    """Return what a client gets for a model that no tier serves."""
    return error_answer(
        NOT_FOUND,
        f"No tier serves the model {model!r}. GET /v1/models lists what is served.",
        kind="invalid_request_error",
        code="model_not_found",
        param="model",
    )


def unknown_session_answer(error: UnknownSessionError) -> Answer:
    """Return what a client gets for a session that is none of its caller's."""
    return error_answer(
        NOT_FOUND, str(error), kind="invalid_request_error", code="session_not_found"
    )


def unserved_answer(method: str, path: str, *, methods: str | None) -> Answer:
    """Return what a client gets for what is not served here; `methods` are served at `path`."""
    return error_answer(
        NOT_FOUND if methods is None else METHOD_NOT_ALLOWED,
        f"{method} {path} is not served here; POST /v1/chat/completions and GET /v1/models are.",
        kind="invalid_request_error",
        code="not_found" if methods is None else "method_not_allowed",
        headers=None if methods is None else {"Allow": methods},
    )


def denial_answer(denied: Denied) -> Answer:
    """Return a denial: 429, with Retry-After only where waiting helps by a known time."""
    headers: dict[str, str] = {}
    if denied.retry_after_ms is not None:
        headers["Retry-After"] = str(-(-denied.retry_after_ms // 1000))
    elif denied.remedy.action is not RemedyAction.RETRY_LATER:
        headers.update(_NO_RETRY)
    answer = error_answer(
        TOO_MANY_REQUESTS,
        denied.remedy.text,
        kind="flyball_denied",
        code=denied.reason.value,
        headers=headers,
    )
    return answer.with_flyball({"denial": denial_json(denied)}, headers={})


def replayed_answer(seen: Replayed) -> Answer:
    """Return what a repeated request gets: the outcomes of model calls are not kept yet."""
    original = seen.original
    if original.is_live:
        text, code = "still runs", "idempotency_in_progress"
    else:
        text, code = "already ran; its answer is not kept", "idempotency_outcome_not_kept"
    answer = error_answer(
        CONFLICT,
        f"Call {original.call_id} with this Idempotency-Key {text}. "
        "Send a new key to run the request again.",
        kind="idempotency_error",
        code=code,
        headers=_NO_RETRY,
    )
    return answer.with_flyball({"call_id": original.call_id}, headers={})


def key_reused_answer() -> Answer:
    """Return what a client gets that uses one key for two requests."""
    return error_answer(
        CONFLICT,
        "This Idempotency-Key was used before with another request; send a new key.",
        kind="idempotency_error",
        code="idempotency_key_reused",
        headers=_NO_RETRY,
    )


def provider_answer(status: int, message: str, *, code: str) -> Answer:
    """Return what a client gets when the provider did not do its part."""
    return error_answer(status, message, kind="provider_error", code=code)


def stopped_answer(why: str) -> Answer:
    """Return what a client gets whose call was ended from outside."""
    return error_answer(
        FORBIDDEN,
        f"The call was stopped: {why}.",
        kind="flyball_stopped",
        code="call_stopped",
        headers=_NO_RETRY,
    )
