"""Errors in the envelope of Anthropic's API, as its clients read them."""

_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    409: "conflict_error",
    413: "request_too_large",
    422: "invalid_request_error",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_OTHERS = "api_error"


def error_body(
    status: int, message: str, *, code: str, param: str | None = None
) -> dict[str, object]:
    """Return the body of an error; clients find `code` as its `error_code`."""
    details: dict[str, object] = {"error_code": code}
    if param is not None:
        details["param"] = param
    error = {"type": _KINDS.get(status, _OTHERS), "message": message, "details": details}
    return {"type": "error", "error": error, "request_id": None}
