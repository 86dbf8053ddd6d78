"""What the clients send, and what they make of what comes back; nothing here waits."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from runtime.client.answers import Content
from runtime.client.errors import DeniedError, NotReachedError, RefusedError

BASE = "/memory/v1"

AnswerT = TypeVar("AnswerT", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request: `body` is sent as JSON, None sends none."""

    method: str
    path: str
    body: Mapping[str, object] | None = None
    query: Mapping[str, str | int] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    def page(self, *, limit: int, cursor: str | None) -> "Asked":
        """Return the request for one page of a listing."""
        more = {} if cursor is None else {"cursor": cursor}
        return replace(self, query={**self.query, "limit": limit, **more})


def path_of(index: str, *more: str) -> str:
    """Return the path of an experience; an index may hold anything and stays in its place."""
    return "/".join((BASE, "experiences", quote(index, safe=""), *more))


def without_nothing(**named: object) -> dict[str, object]:
    """Return the arguments that were given; what is None was not."""
    return {name: value for name, value in named.items() if value is not None}


def answer_of(response: httpx.Response, kind: type[AnswerT]) -> AnswerT:
    """Return what a response says.

    Raises:
        DeniedError: a budget or rule did not allow it.
        RefusedError: it was refused for another reason.
        NotReachedError: what answers is no Flyball.
    """
    try:
        return kind.model_validate(document_of(response))
    except ValidationError as error:
        message = f"what answers at {response.url} is no Flyball of this version"
        raise NotReachedError(message) from error


def document_of(response: httpx.Response) -> dict[str, Any]:
    """Return the JSON object of a response; errors are those of `answer_of`."""
    try:
        document = json.loads(response.content or b"{}")
    except ValueError as error:
        raise NotReachedError(f"what answers at {response.url} is no Flyball") from error
    if not isinstance(document, dict):
        raise NotReachedError(f"what answers at {response.url} is no Flyball")
    if response.is_error:
        raise _refusal(response, document)
    return document


def content_of(response: httpx.Response) -> Content:
    """Return the bytes of a response with what its headers say; errors as of `answer_of`."""
    if response.is_error:
        document_of(response)
    headers = response.headers
    try:
        return Content(
            content=response.content,
            media_type=headers.get("Content-Type", "application/octet-stream"),
            lane=headers["Flyball-Lane"],
            role=headers["Flyball-Role"],
            total_bytes=int(headers["Flyball-Total-Bytes"]),
            receipt=json.loads(headers["Flyball-Receipt"]),
        )
    except (KeyError, ValueError) as error:
        raise NotReachedError(f"what answers at {response.url} is no Flyball") from error


def _refusal(response: httpx.Response, document: Mapping[str, Any]) -> RefusedError:
    words = _words_of(document) or response.reason_phrase
    said = document.get("flyball")
    denial = said.get("denial") if isinstance(said, Mapping) else None
    if response.status_code == HTTPStatus.TOO_MANY_REQUESTS and isinstance(denial, Mapping):
        after = response.headers.get("Retry-After", "")
        return DeniedError(
            words,
            status=response.status_code,
            denial=denial,
            retry_after_s=int(after) if after.isdigit() else None,
        )
    return RefusedError(words, status=response.status_code)


def _words_of(document: Mapping[str, Any]) -> str | None:
    """Return what a problem says, or an error as clients of models read it."""
    error = document.get("error")
    said = error.get("message") if isinstance(error, Mapping) else None
    words = document.get("detail") or document.get("title") or said
    return None if words is None else str(words)
