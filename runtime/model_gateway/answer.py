"""An HTTP answer before it is sent: somebody's JSON, with what Flyball adds to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

FLYBALL = "flyball"
_MEMBER = b'"flyball"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One JSON object, as bytes that are relayed as they came; `flyball` is its last member."""

    status: int
    content: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    flyball: Mapping[str, object] = field(default_factory=dict)

    def with_flyball(
        self, member: Mapping[str, object], *, headers: Mapping[str, str] | None = None
    ) -> "Answer":
        """Return the answer with more in its `flyball` member and its headers."""
        return Answer(
            status=self.status,
            content=self.content,
            headers={**self.headers, **headers} if headers else self.headers,
            flyball={**self.flyball, **member},
        )

    def encoded(self) -> bytes:
        """Return the body to send."""
        if not self.flyball:
            return self.content
        member = msgspec.json.encode(self.flyball, enc_hook=_plain)
        if _MEMBER in self.content:
            # Somebody below has one of that name already: two would be read as either.
            whole = msgspec.json.decode(self.content)
            whole[FLYBALL] = msgspec.Raw(member)
            return msgspec.json.encode(whole)
        before = self.content.rstrip()[:-1].rstrip()
        comma = b"" if before.endswith(b"{") else b","
        return b"%b%b%b:%b}" % (before, comma, _MEMBER, member)


def json_answer(
    status: int, body: Mapping[str, object], *, headers: Mapping[str, str] | None = None
) -> Answer:
    """Return an answer of the gateway's own."""
    content = msgspec.json.encode(body, enc_hook=_plain)
    return Answer(status=status, content=content, headers=headers or {})


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    message = f"{type(value).__name__} is no part of an answer"
    raise TypeError(message)
