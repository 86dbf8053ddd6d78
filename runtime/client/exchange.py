"""What the clients send, and what they make of what comes back; nothing here waits."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Generic, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from runtime.client.answers import Content
from runtime.client.errors import DeniedError, NotReachedError, RefusedError

PAGE = 200
_OF_ANOTHER = "what answers at {} is no Flyball of this version"

SaidT = TypeVar("SaidT")
AnswerT = TypeVar("AnswerT", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Generic[SaidT]):
    """One request, and what is read in its answer; `body` is sent as JSON, None sends none.

    What reads raises as `document_of` does.
    """

    method: str
    path: str
    reads: Callable[[httpx.Response], SaidT]
    body: Mapping[str, object] | None = None
    query: Mapping[str, str | int] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Generic[AnswerT]):
    """The request for a listing, which is answered page after page."""

    path: str
    kind: type[AnswerT]
    query: Mapping[str, str] = field(default_factory=dict)

    def page(self, cursor: str | None) -> Asked["Page[AnswerT]"]:
        """Return the request for one page: the first, or the one at `cursor`."""
        more = {} if cursor is None else {"cursor": cursor}
        return Asked(
            method="GET",
            path=self.path,
            query={**self.query, "limit": PAGE, **more},
            reads=self._page_of,
        )

    def _page_of(self, response: httpx.Response) -> "Page[AnswerT]":
        document = document_of(response)
        try:
            items = tuple(map(self.kind.model_validate, document["items"]))
            return Page(items=items, next=document["next"])
        except (KeyError, TypeError, ValidationError) as error:
            raise NotReachedError(_OF_ANOTHER.format(response.url)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[AnswerT]):
    """Some items of a listing, and where the next ones stand, None after the last."""

    items: tuple[AnswerT, ...]
    next: str | None


def without_nothing(**named: object) -> dict[str, object]:
    """Return the arguments that were given; what is None was not."""
    return {name: value for name, value in named.items() if value is not None}


def answer(kind: type[AnswerT]) -> Callable[[httpx.Response], AnswerT]:
    """Return what reads an answer of a kind; errors are those of `document_of`."""

    def read(response: httpx.Response) -> AnswerT:
        try:
            return kind.model_validate(document_of(response))
        except ValidationError as error:
            raise NotReachedError(_OF_ANOTHER.format(response.url)) from error

    return read


def nothing(response: httpx.Response) -> None:
    """Read that it was done, and no more; errors are those of `document_of`."""
    document_of(response)


def document_of(response: httpx.Response) -> dict[str, Any]:
    """Return the JSON object of a response.

    Raises:
        DeniedError: a budget or rule did not allow it.
        RefusedError: it was refused for another reason.
        NotReachedError: what answers is no Flyball.
    """
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
    """Return the bytes of a response with what its headers say; errors as of `document_of`."""
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
