"""Where an upstream is, as far as plain HTTP/1.1 over a socket or TLS gets there."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

# What a connection says of each request itself.
_OURS = frozenset({"connection", "content-length", "transfer-encoding", "accept-encoding", "host"})
_HTTP, _HTTPS = 80, 443


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where requests go: the server's address, and the path there."""

    host: str
    port: int
    is_tls: bool
    path: str

    @property
    def host_header(self) -> str:
        """Return how the server is named in a request."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return shown if self.port == (_HTTPS if self.is_tls else _HTTP) else f"{shown}:{self.port}"


def origin_of(url: str) -> Origin | None:
    """Return where `url` points to; None where it takes more than this to get there."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username is not None:
        return None
    path = parts.path or "/"
    if parts.query:
        path = f"{path}?{parts.query}"
    if not (url.isascii() and url.isprintable()) or " " in url:
        return None
    is_tls = parts.scheme == "https"
    return Origin(
        host=parts.hostname, port=port or (_HTTPS if is_tls else _HTTP), is_tls=is_tls, path=path
    )


def can_be_sent(headers: Mapping[str, str]) -> bool:
    """Tell whether these headers can go out as they are, and change nothing of the framing."""
    return all(
        name.lower() not in _OURS
        and name.replace("-", "").replace("_", "").isalnum()
        and f"{name}{value}".isascii()
        and value.isprintable()
        for name, value in headers.items()
    )
