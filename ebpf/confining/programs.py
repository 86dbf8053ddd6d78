"""The programs that keep domains to their places, loaded once for all of them."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from ebpf.confining.places import Refusal, domain_key, domain_of, refusal_of
from ebpf.probe.objects import Object

OBJECT = Path(__file__).resolve().parent.parent / "programs" / "confine.bpf.o"

NETWORK = (
    *("confine_connect4", "confine_connect6", "confine_sendmsg4", "confine_sendmsg6"),
    *("confine_bind4", "confine_bind6", "confine_socket", "confine_packet"),
)
DEVICES = ("confine_device",)
_YES = b"\1"
_DENIED_MAX = 4096  # as many as the programs remember


class Programs:
    """The programs and their maps.

    They are hung on a group without a link, so they stay as long as that group does, whatever
    becomes of this process: nothing needs to be pinned, and nothing is left behind.
    """

    def __init__(self) -> None:
        """Load them.

        Raises:
            ProbeError: this host has no libbpf, or the kernel refused some program.
        """
        self._object = Object(OBJECT)
        self._places = self._object.map("places")
        self._denied = self._object.map("denied")
        self._denials = self._object.map("denials")

    def hang(self, names: Iterable[str], group: Path) -> None:
        """Hold the processes of a group to what `allow` says; nothing is allowed at first.

        Raises:
            ProbeError: the kernel refused.
        """
        self._denials.put(domain_key(domain_of(group)), bytes(8))
        for name in names:
            self._object.hang(name, group)

    def allow(self, keys: Iterable[bytes]) -> None:
        """Open some places.

        Raises:
            ProbeError: the map is full.
        """
        for key in keys:
            self._places.put(key, _YES)

    def close(self, keys: Iterable[bytes]) -> None:
        """Close some places again.

        Raises:
            ProbeError: the kernel refused.
        """
        for key in keys:
            self._places.remove(key)

    def denials(self, domain: int) -> int:
        """Return how often something was refused to a domain."""
        found = self._denials.get(domain_key(domain))
        return 0 if found is None else int.from_bytes(found, sys.byteorder)

    def refusals(self, domain: int) -> Iterator[Refusal]:
        """Yield what was refused to a domain, as far as it is still remembered."""
        for key in self._denied_of(domain):
            if (value := self._denied.get(key)) is not None:
                yield refusal_of(key, value)

    def forget(self, domain: int) -> None:
        """Remove what was kept of a domain that is gone."""
        if self.denials(domain):
            for key in self._denied_of(domain):
                self._denied.remove(key)
        self._denials.remove(domain_key(domain))

    def unload(self) -> None:
        """Let go of them; those that hang on a group stay there."""
        self._object.close()

    def _denied_of(self, domain: int) -> set[bytes]:
        prefix = domain_key(domain)
        return {key for key in self._denied.keys(most=_DENIED_MAX) if key.startswith(prefix)}
