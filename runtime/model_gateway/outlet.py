"""The client's end of a call: one answer whole, or the events of a stream as they come."""

from collections.abc import Mapping

from starlette.types import Send

from runtime.model_gateway.answer import Answer

_OK = 200
_JSON = (b"content-type", b"application/json")
_EVENTS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)


class ClientOutlet:
    """Sends one answer."""

    __slots__ = ("_headers", "_is_broken", "_send", "has_begun")

    def __init__(self, send: Send) -> None:
        """Take the client's channel; nothing is sent."""
        self._send = send
        self._headers: list[tuple[bytes, bytes]] = []
        self.has_begun = False
        self._is_broken = False

    def name(self, headers: Mapping[str, str]) -> None:
        """Take the headers of a stream, before anything is relayed."""
        self._headers = _encoded(headers)

    async def relay(self, events: bytes) -> None:
        """Send whole events, after the head of the answer where they are the first."""
        if not self.has_begun:
            self.has_begun = True
            headers = [*_EVENTS, *self._headers]
            await self._send({"type": "http.response.start", "status": _OK, "headers": headers})
        # Until all of it has left: what was given up in the middle is no stream that can go on.
        self._is_broken = True
        await self._send({"type": "http.response.body", "body": events, "more_body": True})
        self._is_broken = False

    async def end(self, answer: Answer | None) -> None:
        """Send the answer, or the end of the stream that was relayed in its place.

        A stream that broke has no end: its connection closes, and no reader takes it for whole.
        """
        if self._is_broken:
            return
        if answer is None:
            await self._send({"type": "http.response.body", "body": b""})
            return
        body = answer.encoded()
        headers = [
            _JSON,
            (b"content-length", b"%d" % len(body)),
            *_encoded(answer.headers),
        ]
        start = {"type": "http.response.start", "status": answer.status, "headers": headers}
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body})


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [
        (name.lower().encode("ascii"), value.encode("latin-1")) for name, value in headers.items()
    ]
