"""The two listeners: bound before anything starts, drained before anything stops."""

import ipaddress
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import uvicorn
from starlette.types import ASGIApp

from runtime.configuration.listen import Listen
from runtime.configuration.model import Config
from runtime.descriptors import DESCRIPTORS_KEPT, raised_limit
from runtime.errors import ListenError
from runtime.http_protocol import BoundedHttp
from tool_gateway.running import RunningCalls

DRAIN_SECONDS = 10.0
# Those that were not over by then are told to end, and settled within this.
STOPPED_SECONDS_MAX = 5.0
# After the calls: some clients connect anew for the list of tools before they show an answer.
AFTERWARDS_SECONDS = 1.0
# After that: time for the last answers to leave before connections are cut.
LINGER_SECONDS = 0.5
KEEP_ALIVE_SECONDS = 75
CONNECTIONS_MAX = 12_000
ADMIN_CONNECTIONS_MAX = 512
BACKLOG = 2048
ACCEPTED_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A listener's open socket and the URL that reaches it."""

    listening: socket.socket
    url: str


class SharedSocket(socket.socket):
    """A listening socket that several processes accept from."""

    def listen(self, backlog: int = BACKLOG) -> None:
        """Leave the kernel's queue as long as it was made, whatever this process accepts."""
        super().listen(max(backlog, BACKLOG))


class SignalFreeServer(uvicorn.Server):
    """A uvicorn server that leaves the process's signals to the process: it runs several."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen: few connections are taken at a time, many may wait to be.

        The library knows one number for both, and would take thousands in one long step.
        """
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(BACKLOG)

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
    _check_certificate(listen)
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


def check_free(listen: Listen) -> None:
    """Return if both addresses can be listened on, and leave them free.

    Raises:
        ListenError: one cannot.
    """
    with bind(listen.agents, listen).listening, bind(listen.admin, listen).listening:
        pass


def check_open_access(config: Config) -> None:
    """Return if agents without a token can only be of this machine.

    Raises:
        ListenError: others could be the agent too.
    """
    host = config.listen.agents.rpartition(":")[0].strip("[]")
    if config.auth.mode == "none" and (not is_loopback(host) or config.listen.trusted_proxy):
        raise ListenError(
            'auth.mode = "none" is for loopback without a proxy; with '
            f"listen.agents = {config.listen.agents!r} and trusted_proxy = "
            f"{str(config.listen.trusted_proxy).lower()} other machines could be the agent"
        )


def _check_certificate(listen: Listen) -> None:
    """Refuse TLS files that cannot be served, before anybody connects to them."""
    if listen.tls_cert is None or listen.tls_key is None:
        return
    for key, path in (("tls_cert", listen.tls_cert), ("tls_key", listen.tls_key)):
        try:
            Path(path).read_bytes()
        except OSError as error:
            raise ListenError(
                f"listen.{key} = {path!r}: cannot be read: {error.strerror}"
            ) from error
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # Without a password a key that needs one would ask for it at the terminal.
        context.load_cert_chain(listen.tls_cert, listen.tls_key, password="")
    except (ssl.SSLError, ValueError) as error:
        raise ListenError(
            f"listen.tls_cert = {listen.tls_cert!r} and tls_key = {listen.tls_key!r} are no "
            "certificate with its unencrypted key in PEM; check that they belong together"
        ) from error


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
        self,
        *,
        agents: tuple[Bound, ASGIApp] | None = None,
        admin: tuple[Bound, ASGIApp] | None = None,
        private: tuple[Bound, ASGIApp] | None = None,
        listen: Listen,
    ) -> None:
        """Take what to serve where; `private` is for other processes of this sidecar."""
        self.agents_url = "" if agents is None else agents[0].url
        self.admin_url = "" if admin is None else admin[0].url
        plain = listen.model_copy(update={"tls_cert": None, "tls_key": None})
        served = [(one, listen) for one in (agents, admin) if one is not None]
        served += [] if private is None else [(private, plain)]
        descriptors = raised_limit() - DESCRIPTORS_KEPT - ADMIN_CONNECTIONS_MAX
        connections_max = max(ADMIN_CONNECTIONS_MAX, min(CONNECTIONS_MAX, descriptors))
        at_once = {id(admin): ADMIN_CONNECTIONS_MAX}
        self._servers = tuple(
            (_server(one, terms, connections_max=at_once.get(id(one), connections_max)), one[0])
            for one, terms in served
        )
        self._stopping = anyio.Event()
        self._patience = anyio.CancelScope(deadline=float("inf"))
        self._hurried = anyio.Event()

    def stop(self) -> None:
        """Begin to drain; further calls change nothing."""
        self._stopping.set()

    def hurry(self) -> None:
        """Wait for no call any more: what runs when the listeners stop is cut at once."""
        self._patience.cancel()
        self._hurried.set()

    async def serve(self, running: RunningCalls) -> None:
        """Serve until `stop`, then let calls end, then cut what is left.

        A cancelled owner still drains, which is shielded and takes no more than its limits.
        """
        async with anyio.create_task_group() as tasks:
            for server, bound in self._servers:
                tasks.start_soon(serve_whole, server, bound)
            try:
                await self._stopping.wait()
            finally:
                with anyio.CancelScope(shield=True):
                    await self._drain(running)

    async def _drain(self, running: RunningCalls) -> None:
        """Go on to listen while calls run; what would begin another one is refused elsewhere."""
        has_calls = len(running) > 0
        with self._patience:
            self._patience.deadline = anyio.current_time() + DRAIN_SECONDS
            await running.all_ended()
        if running.stop_all(why="the sidecar is shutting down"):
            with anyio.move_on_after(STOPPED_SECONDS_MAX):
                await running.all_ended()
        if has_calls:
            with anyio.move_on_after(AFTERWARDS_SECONDS):
                await self._hurried.wait()
        for server, _ in self._servers:
            server.should_exit = True
        await anyio.sleep(LINGER_SECONDS)
        for server, _ in self._servers:
            server.force_exit = True


async def serve_whole(server: SignalFreeServer, bound: Bound) -> None:
    """Serve until the server's `should_exit`, and never be cancelled on the way.

    A cancelled server reports its own end, and that of its connections, as errors.
    """
    with anyio.CancelScope(shield=True):
        await server.serve([bound.listening])


def _server(
    served: tuple[Bound, ASGIApp], listen: Listen, *, connections_max: int
) -> SignalFreeServer:
    bound, app = served
    is_shared = isinstance(bound.listening, SharedSocket)
    return SignalFreeServer(
        uvicorn.Config(
            app,
            http=BoundedHttp,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=listen.trusted_proxy,
            ssl_certfile=listen.tls_cert,
            ssl_keyfile=listen.tls_key,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            limit_concurrency=connections_max,
            # Whoever shares a socket leaves the others some.
            backlog=1 if is_shared else ACCEPTED_AT_ONCE,
            ws="none",
        )
    )
