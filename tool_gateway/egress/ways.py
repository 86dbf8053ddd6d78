"""From a host's name to the addresses that a connection may go to, all of them checked."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_address

from tool_gateway.egress.reach import NAMED, PRIVATE_KINDS, AddressKind, Reach, literal, refusal_of
from tool_gateway.errors import EgressDeniedError, UpstreamNotReachedError

# Whoever resolves a name: the host, the port, and the addresses as text.
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
ADDRESSES_MAX = 16
RESOLVE_SECONDS_MAX = 5.0


async def of_the_system(host: str, port: int) -> Sequence[str]:
    """Return what the system's resolver says, in its order."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


class Ways:
    """The ways to one server; names are resolved for each connection and never trusted.

    One address that may not be reached refuses them all: whoever owns a name could otherwise
    have the forbidden one tried by luck.
    """

    def __init__(self, reach: Reach = NAMED, *, resolve: Resolve = of_the_system) -> None:
        """Take where the connections may go, and who resolves names."""
        self._reach = reach
        self._resolve = resolve

    async def to(self, host: str, port: int) -> tuple[str, ...]:
        """Return the addresses to connect to, in the order to try them.

        Raises:
            EgressDeniedError: the host leads where it may not.
            UpstreamNotReachedError: the name cannot be resolved.
        """
        host = host.replace("%25", "%")  # as a URL writes the zone of an address
        if literal(host) is not None:
            self._check(host, host)
            return (host,)
        found = tuple(dict.fromkeys(await self._resolved(host, port)))
        for address in found:
            self._check(address, host)
        return found[:ADDRESSES_MAX]

    async def _resolved(self, host: str, port: int) -> Sequence[str]:
        try:
            async with asyncio.timeout(RESOLVE_SECONDS_MAX):
                found = await self._resolve(host, port)
        except TimeoutError as error:
            message = f"{host} was not resolved within {RESOLVE_SECONDS_MAX:.0f} s"
            raise UpstreamNotReachedError(message) from error
        except (OSError, UnicodeError) as error:
            raise UpstreamNotReachedError(f"{host} cannot be resolved: {error}") from error
        if not found:
            raise UpstreamNotReachedError(f"{host} has no address")
        return found

    def _check(self, address: str, host: str) -> None:
        kind = refusal_of(ip_address(address), host=host, reach=self._reach)
        if kind is not None:
            raise EgressDeniedError(_refused(address, host, kind, self._reach))


def _refused(address: str, host: str, kind: AddressKind, reach: Reach) -> str:
    where = f"{host} is {kind}" if address == host else f"{host} leads to {address}, {kind}"
    told = where if reach.is_named else f"{where}, and a server named it"
    listed = f'allow_networks = ["{address.partition("%")[0]}"]'
    if kind in PRIVATE_KINDS:
        return f"{told}; if that is meant, set allow_private = true or {listed}"
    return f"{told}; if that is meant, set {listed}"
