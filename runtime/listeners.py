"""The two listeners: bound before anything starts, drained before anything stops."""

import ipaddress
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import anyio
import uvicorn
from starlette.types import ASGIApp

from runtime.configuration.model import Listen
from runtime.errors import ListenError
from tool_gateway.running import RunningCalls

DRAIN_SECONDS = 10.0
# After the calls: time for their answers to leave before connections are cut.
LINGER_SECONDS = 0.5
KEEP_ALIVE_SECONDS = 75
CONNECTIONS_MAX = 10_000
BACKLOG = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A listener's open socket and the URL that reaches it."""

    listening: socket.socket
    url: str


class SignalFreeServer(uvicorn.Server):
    """A uvicorn server that leaves the process's signals to the process: it runs several."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install nothing."""
        yield


def bind(address: str, listen: Listen) -> Bound:
    """Return the listener on `address` ("host:port"; port 0 takes a free one).

    Raises:
        ListenError: the address is in use, or is open to others without protection.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    protected = listen.tls_cert is not None or listen.trusted_proxy
    if not is_loopback(host) and not protected:
        raise ListenError(
            f"listen: {address} can be reached from other machines; give tls_cert and tls_key, "
            "or set trusted_proxy = true if a proxy in front of it does TLS"
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named because asyncio turns Nagle's algorithm off only where it is; with
    # 0, as socket.create_server has it, every answer waits 40 ms for an acknowledgement.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, int(port)))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise ListenError(
            f"listen: {address}: {error.strerror}; stop what uses it, or choose another port"
        ) from error
    scheme = "http" if listen.tls_cert is None else "https"
    shown = f"[{host}]" if ":" in host else host
    return Bound(listening=listening, url=f"{scheme}://{shown}:{listening.getsockname()[1]}")


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Listeners:
    """Serves both applications until told to stop."""

    def __init__(
        self, *, agents: tuple[Bound, ASGIApp], admin: tuple[Bound, ASGIApp], listen: Listen
    ) -> None:
        """Take what to serve where."""
        self.agents_url = agents[0].url
        self.admin_url = admin[0].url
        self._servers = tuple((_server(app, listen), bound) for bound, app in (agents, admin))
        self._stopping = anyio.Event()

    def stop(self) -> None:
        """Begin to drain; further calls change nothing."""
        self._stopping.set()

    async def serve(self, running: RunningCalls) -> None:
        """Serve until `stop`, then let calls end, then cut what is left."""
        async with anyio.create_task_group() as tasks:
            for server, bound in self._servers:
                tasks.start_soon(server.serve, [bound.listening])
            await self._stopping.wait()
            for server, _ in self._servers:
                server.should_exit = True
            with anyio.move_on_after(DRAIN_SECONDS):
                await running.all_ended()
            if running.stop_all(why="the sidecar is shutting down"):
                with anyio.move_on_after(DRAIN_SECONDS):
                    await running.all_ended()
            await anyio.sleep(LINGER_SECONDS)
            for server, _ in self._servers:
                server.force_exit = True


def _server(app: ASGIApp, listen: Listen) -> SignalFreeServer:
    return SignalFreeServer(
        uvicorn.Config(
            app,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=listen.trusted_proxy,
            ssl_certfile=listen.tls_cert,
            ssl_keyfile=listen.tls_key,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            limit_concurrency=CONNECTIONS_MAX,
        )
    )
