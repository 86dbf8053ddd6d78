"""Answers of the gateway's own, in the envelope of the wire that they are given on."""

from collections.abc import Mapping
from typing import Protocol

from governor.denial import Denied, RemedyAction
from governor.events import Replayed
from runtime.model_gateway.answer import Answer
from runtime.model_gateway.errors import InvalidRequestError
from runtime.model_gateway.wires.openai_errors import STOPPED
from runtime.model_gateway.wires.wire import Wire
from tool_gateway.denials import denial_json
from tool_gateway.errors import UnknownSessionError

BAD_REQUEST = 400
FORBIDDEN = 403
NOT_FOUND = 404
METHOD_NOT_ALLOWED = 405
CONFLICT = 409
TOO_MANY_REQUESTS = 429
INTERNAL_ERROR = 500
BAD_GATEWAY = 502
GATEWAY_TIMEOUT = 504

# The official clients retry 409 and 429 by themselves; this header tells them not to.
_NO_RETRY = {"X-Should-Retry": "false"}
_INVALID = "invalid_request_error"


class Problem(Protocol):
    """How an error of Flyball's own ends, as whoever has the table of them says."""

    @property
    def status(self) -> int:
        """Return the status over HTTP."""
        ...

    @property
    def title(self) -> str:
        """Return what kind of error it is."""
        ...

    @property
    def detail(self) -> str:
        """Return what a caller may be told of it."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Return what goes with it."""
        ...


def invalid_answer(wire: Wire, error: InvalidRequestError) -> Answer:
    """Return what a client gets for a request that cannot be served."""
    return wire.error(
        BAD_REQUEST, str(error), kind=_INVALID, code="invalid_request", param=error.param
    )


def unknown_model_answer(wire: Wire, model: str) -> Answer:
    """Return what a client gets for a model that no tier serves."""
    return wire.error(
        NOT_FOUND,
        f"No tier serves the model {model!r}. GET /v1/models lists what is served.",
        kind=_INVALID,
        code="model_not_found",
        param="model",
    )


def unspoken_answer(wire: Wire, model: str) -> Answer:
    """Return what a client gets for a model whose provider does not speak the request's wire."""
    return wire.error(
        NOT_FOUND,
        f"The model {model!r} is not served on this endpoint: its provider does not speak "
        f"{wire.name.value}. GET /v1/models lists what is served.",
        kind=_INVALID,
        code="model_not_found",
        param="model",
    )


def unserved_answer(wire: Wire, method: str, path: str, *, served: Mapping[str, str]) -> Answer:
    """Return what a client gets for an endpoint that is not served, by `served` paths' methods."""
    methods = served.get(path)
    ways = ", ".join(f"{method} {way}" for way, method in served.items())
    return wire.error(
        NOT_FOUND if methods is None else METHOD_NOT_ALLOWED,
        f"{method} {path:.200} is not served. {ways} are.",
        kind=_INVALID,
        code="not_found" if methods is None else "method_not_allowed",
        headers={} if methods is None else {"Allow": methods},
    )


def unknown_session_answer(wire: Wire, error: UnknownSessionError) -> Answer:
    """Return what a client gets for a session that is not its own."""
    return wire.error(
        NOT_FOUND,
        f"There is no session {error}.",
        kind=_INVALID,
        code="session_not_found",
    )


def problem_answer(wire: Wire, problem: Problem | None) -> Answer:
    """Return what a client gets where Flyball itself failed; nothing unforeseen is told."""
    if problem is None:
        return wire.error(
            INTERNAL_ERROR,
            "Flyball failed at this request; its log says why.",
            kind="server_error",
            code="internal_error",
            headers=_NO_RETRY,
        )
    # What was not foreseen fails again, and may have been paid for.
    headers = _NO_RETRY if problem.status == INTERNAL_ERROR else problem.headers
    return wire.error(
        int(problem.status),
        problem.detail,
        kind="server_error",
        code=problem.title.lower().replace(" ", "_"),
        headers=headers,
    )


def denial_answer(wire: Wire, denied: Denied) -> Answer:
    """Return a denial as the provider's own rate limit error, with the denial beside it."""
    headers: dict[str, str] = {}
    if denied.retry_after_ms is not None:
        headers["Retry-After"] = str(-(-denied.retry_after_ms // 1000))
    elif denied.remedy.action is not RemedyAction.RETRY_LATER:
        headers.update(_NO_RETRY)
    answer = wire.error(
        TOO_MANY_REQUESTS,
        denied.remedy.text,
        kind="flyball_denied",
        code=denied.reason.value,
        headers=headers,
    )
    return answer.with_flyball({"denial": denial_json(denied)})


def replayed_answer(wire: Wire, seen: Replayed) -> Answer:
    """Return what a repeated request gets: the outcomes of model calls are not kept yet."""
    original = seen.original
    if original.is_live:
        text, code = "still runs", "idempotency_in_progress"
    else:
        text, code = "already ran; its answer is not kept", "idempotency_outcome_not_kept"
    answer = wire.error(
        CONFLICT,
        f"Call {original.call_id} with this Idempotency-Key {text}. "
        "Send a new key to run the request again.",
        kind="idempotency_error",
        code=code,
        headers=_NO_RETRY,
    )
    return answer.with_flyball({"call_id": original.call_id})


def key_reused_answer(wire: Wire) -> Answer:
    """Return what a client gets that uses one key for two requests."""
    return wire.error(
        CONFLICT,
        "This Idempotency-Key was used before with another request; send a new key.",
        kind="idempotency_error",
        code="idempotency_key_reused",
        headers=_NO_RETRY,
    )


def provider_answer(
    wire: Wire, status: int, message: str, *, code: str, headers: Mapping[str, str] | None = None
) -> Answer:
    """Return what a client gets when the provider did not do its part."""
    return wire.error(status, message, kind="provider_error", code=code, headers=headers)


def stopped_answer(wire: Wire, why: str) -> Answer:
    """Return what a client gets whose call was ended from outside."""
    return wire.error(
        FORBIDDEN,
        f"The call was stopped: {why}.",
        kind="flyball_stopped",
        code=STOPPED,
        headers=_NO_RETRY,
    )
