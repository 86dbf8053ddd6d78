"""The addresses that names have now, asked for at most so often."""

import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import anyio

from ebpf.confining.places import Address, resolvers_in

RESOLV_CONF = Path("/etc/resolv.conf")

# The C library does not say for how long an answer holds; this is shorter than usual answers do.
FRESH_SECONDS = 30.0
RESOLVE_SECONDS_MAX = 5.0
_NAMES_MAX = 1024
_ADDRESSES_MAX = 64

Resolve = Callable[[str], Awaitable[frozenset[Address]]]


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a name stood for, and until when that is taken for true."""

    addresses: frozenset[Address]
    until: float


class NameBook:
    """Names with their addresses; one that cannot be resolved has none."""

    def __init__(self, resolve: Resolve | None = None, *, resolv_conf: Path = RESOLV_CONF) -> None:
        """Take who resolves a name, which is the system unless somebody else is named."""
        self._resolve = resolve or _by_the_system
        self._resolv_conf = resolv_conf
        self._answers: dict[str, _Answer] = {}

    def resolvers(self) -> tuple[Address, ...]:
        """Return the servers that a command would ask."""
        try:
            return resolvers_in(self._resolv_conf.read_text(errors="replace"))
        except OSError:
            return resolvers_in("")

    async def addresses(self, name: str) -> frozenset[Address]:
        """Return the addresses of a name, none where nobody answers."""
        answer = self._answers.get(name)
        if answer is None or answer.until <= anyio.current_time():
            answer = await self._ask(name)
        return answer.addresses

    async def _ask(self, name: str) -> _Answer:
        found: frozenset[Address] = frozenset()
        with anyio.move_on_after(RESOLVE_SECONDS_MAX):
            found = await self._resolve(name)
        answer = _Answer(found, anyio.current_time() + FRESH_SECONDS)
        if len(self._answers) >= _NAMES_MAX:
            self._answers.clear()  # they are asked for anew; nothing depends on their being here
        self._answers[name] = answer
        return answer


async def _by_the_system(name: str) -> frozenset[Address]:
    try:
        found = await anyio.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return frozenset()
    # A zone (fe80::1%eth0) belongs to a link, where no name leads.
    texts = sorted({str(place[4][0]) for place in found})[:_ADDRESSES_MAX]
    return frozenset(ip_address(text) for text in texts if "%" not in text)
