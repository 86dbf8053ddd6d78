"""A server that keeps what it is sent and says it back: the worst that a peer does with secrets."""

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Mirror:
    """What arrived, and how often each path refuses before it takes anything."""

    url: str = ""
    got: list[tuple[str, str]] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def keep(self, path: str, text: str) -> int:
        """Keep a request and return how many there were at its path before."""
        with self.changed:
            before = sum(1 for known, _ in self.got if known == path)
            self.got.append((path, text))
            self.changed.notify_all()
        return before

    def at(self, path: str) -> list[str]:
        return [text for known, text in self.got if known.startswith(path)]

    def bodies(self, path: str) -> list[str]:
        return [text.partition("\n")[2] for text in self.at(path)]

    def until(self, path: str, count: int = 1) -> list[str]:
        with self.changed:
            arrived = self.changed.wait_for(lambda: len(self.at(path)) >= count, timeout=60)
        assert arrived, f"nothing at {path}: {[known for known, _ in self.got]}"
        return self.at(path)


def answer_of(path: str, echo: str, before: int, base: str) -> tuple[int, dict[str, Any]]:
    """Return the answer at a path: mostly an error that repeats every header that it was sent."""
    told = f"refused; you sent {echo}"
    if path == "/token":
        return (200, {"access_token": TOKEN, "token_type": "Bearer", "expires_in": 600})
    if path == "/hook":
        return (500 if before == 0 else 200, {"error": told})
    if path.startswith(("/v1/traces", "/v1/metrics")):
        return 200, {}
    status = {"/refusing": 401, "/failing": 500}.get("/" + path.split("/")[1], 400)
    return status, {"error": {"message": told, "type": "invalid_request_error", "base": base}}


TOKEN = "canary-access-token-5b1e0c77"


@contextmanager
def a_mirror() -> Iterator[Mirror]:
    mirror = Mirror()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            echo = "; ".join(f"{name}: {value}" for name, value in self.headers.items())
            before = mirror.keep(self.path, f"{echo}\n{body.decode('latin-1')}")
            status, said = answer_of(self.path, echo, before, mirror.url)
            content = json.dumps(said).encode()
            self.send_response(status, echo.replace("\r", " ").replace("\n", " ")[:200])
            self.send_header("content-type", "application/json")
            self.send_header("www-authenticate", f'Bearer error="invalid_token", x="{echo[:500]}"')
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = answer  # noqa: N815 - the library's own names

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    mirror.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield mirror
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
