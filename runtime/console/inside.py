"""The admin API, asked in this process in the name of whoever has signed in.

The console shows and changes nothing but by this: what a page does is checked, recorded in the
audit log and answered exactly as for any other client of the API.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, unquote, urlencode

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_store.audit import Actor
from runtime.admin.app import PREFIX
from runtime.admin.auth import in_the_name_of
from runtime.errors import RuntimeFaultError

Query = Mapping[str, str | int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the API answered: JSON or else bytes, a problem document where `is_ok` is false."""

    status: int
    body: Any
    etag: str | None = None
    receipt: Mapping[str, Any] | None = None

    @property
    def is_ok(self) -> bool:
        """Tell whether it did what it was asked."""
        return self.status < HTTPStatus.BAD_REQUEST

    @property
    def problem(self) -> dict[str, Any] | None:
        """Return the problem document, None if there is no problem."""
        return None if self.is_ok else self.body


class AnsweredProblemError(RuntimeFaultError):
    """The admin API answered with a problem."""

    def __init__(self, answer: Answer) -> None:
        """Keep what was answered."""
        super().__init__(str(answer.body.get("detail", answer.status)))
        self.answer = answer


class Inside:
    """The admin API in the name of one administrator."""

    def __init__(self, api: ASGIApp, *, by: Actor) -> None:
        """Take the API's application and who asks."""
        self._api = api
        self._by = by

    async def get(self, path: str, query: Query | None = None) -> Any:
        """Return the JSON at `path`, which is below the API's prefix.

        Raises:
            AnsweredProblemError: the API answered with a problem.
        """
        answer = await self.ask("GET", path, query=query)
        if not answer.is_ok:
            raise AnsweredProblemError(answer)
        return answer.body

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: object = None,
        if_match: str | None = None,
    ) -> Answer:
        """Return what the API answers, a problem included: a form shows it beside its fields.

        `path` is quoted where it has names in it (`part`).
        """
        sent = b"" if body is None else json.dumps(body).encode()
        scope = self._scope(method, path, sent, query=query, if_match=if_match)
        return await _answered(self._api, scope, sent)

    def lines(self, path: str, *, body: object, told: Callable[[Any], Any]) -> Response:
        """Return what the API answers to a POST in lines of JSON, each as `told` tells it.

        A problem comes as a line with the member `problem`.
        """
        sent = json.dumps(body).encode()
        return _Lines(self._api, self._scope("POST", path, sent), sent, told)

    def _scope(
        self,
        method: str,
        path: str,
        sent: bytes,
        *,
        query: Query | None = None,
        if_match: str | None = None,
    ) -> Scope:
        asked = {key: _word(value) for key, value in (query or {}).items() if value is not None}
        headers = [(b"host", b"inside"), (b"content-length", str(len(sent)).encode())]
        if sent:
            headers.append((b"content-type", b"application/json"))
        if if_match is not None:
            headers.append((b"if-match", if_match.encode("latin-1", "replace")))
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": PREFIX + unquote(path),
            "raw_path": (PREFIX + path).encode("ascii"),
            "root_path": "",
            "query_string": urlencode(asked).encode(),
            "headers": headers,
            "client": None,
            "server": ("inside", 0),
        }
        return in_the_name_of(scope, self._by)


class _Lines(Response):
    """An answer in lines, passed on while it comes; it ends when nobody reads it any more."""

    media_type = "application/x-ndjson"

    def __init__(self, api: ASGIApp, asked: Scope, sent: bytes, told: Callable[[Any], Any]) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._api = api
        self._asked = asked
        self._sent = sent
        self._told = told

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        waiting: list[Message] = [{"type": "http.request", "body": self._sent, "more_body": False}]
        is_problem, left = False, b""

        async def receiving() -> Message:
            return waiting.pop() if waiting else await receive()

        async def sending(message: Message) -> None:
            nonlocal is_problem, left
            if message["type"] == "http.response.start":
                is_problem = message["status"] >= HTTPStatus.BAD_REQUEST
                headers = {"status": HTTPStatus.OK, "headers": self.raw_headers}
                await send({"type": "http.response.start", **headers})
                return
            follows = message.get("more_body", False)
            *whole, left = (left + message.get("body", b"")).split(b"\n")
            lines = [json.loads(line) for line in whole]
            if is_problem and not follows:
                lines = [{"problem": json.loads(left)}]
            said = b"".join(json.dumps(self._told(line)).encode() + b"\n" for line in lines)
            await send({"type": "http.response.body", "body": said, "more_body": follows})

        await self._api(self._asked, receiving, sending)


def part(name: str) -> str:
    """Return a name as one segment of a path, whatever is in it."""
    return quote(name, safe="")


def _word(value: str | int) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read(whole: bytes, media_type: bytes) -> Any:
    if media_type.startswith(b"application/octet-stream"):
        return whole
    return json.loads(whole) if whole else {}


async def _answered(api: ASGIApp, scope: Scope, sent: bytes) -> Answer:
    parts: list[bytes] = []
    status, headers = 0, dict[bytes, bytes]()
    waiting: list[Message] = [{"type": "http.request", "body": sent, "more_body": False}]

    async def receive() -> Message:
        return waiting.pop() if waiting else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status, headers = message["status"], dict(message["headers"])
        else:
            parts.append(message.get("body", b""))

    await api(scope, receive, send)
    whole = b"".join(parts)
    etag, receipt = headers.get(b"etag"), headers.get(b"flyball-receipt")
    return Answer(
        status=status,
        body=_read(whole, headers.get(b"content-type", b"")),
        etag=None if etag is None else etag.decode("latin-1"),
        receipt=None if receipt is None else json.loads(receipt),
    )
