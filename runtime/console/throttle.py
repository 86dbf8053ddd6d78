"""How often somebody may try to sign in: each address, and all of them together."""

from dataclasses import dataclass

ADDRESSES_MAX = 4_096
OF_ADDRESS = 5
OF_ADDRESS_EVERY_MS = 12_000
OF_ALL = 60
OF_ALL_EVERY_MS = 1_000


@dataclass(slots=True, kw_only=True)
class _Bucket:
    """Tries that are left, of which one comes back after each `every_ms`."""

    size: int
    every_ms: int
    left: int
    since_ms: int

    def fill(self, now_ms: int) -> None:
        """Put back what has come back since."""
        self.since_ms = min(self.since_ms, now_ms)  # the clock was set back
        back = (now_ms - self.since_ms) // self.every_ms
        self.left = min(self.size, self.left + back)
        self.since_ms = now_ms if self.left == self.size else self.since_ms + back * self.every_ms

    def wait_ms(self, now_ms: int) -> int:
        """Return how long until there is one to take; 0 if there is."""
        return 0 if self.left else max(1, self.since_ms + self.every_ms - now_ms)


class SignInThrottle:
    """Counts tries to sign in, and says how long to wait where there were too many.

    The first table that is full forgets the address that tried longest ago: whoever has as many
    addresses as that is held by the count of all.
    """

    def __init__(self, *, now_ms: int) -> None:
        """Start with every try left."""
        self._all = _Bucket(size=OF_ALL, every_ms=OF_ALL_EVERY_MS, left=OF_ALL, since_ms=now_ms)
        self._by_address: dict[str, _Bucket] = {}

    def take(self, address: str, *, now_ms: int) -> int:
        """Take one try and return 0, or take none and return how many ms to wait."""
        own = self._by_address.pop(address, None) or _Bucket(
            size=OF_ADDRESS, every_ms=OF_ADDRESS_EVERY_MS, left=OF_ADDRESS, since_ms=now_ms
        )
        while len(self._by_address) >= ADDRESSES_MAX:
            self._by_address.pop(next(iter(self._by_address)))
        self._by_address[address] = own
        own.fill(now_ms)
        self._all.fill(now_ms)
        wait_ms = max(own.wait_ms(now_ms), self._all.wait_ms(now_ms))
        if not wait_ms:
            own.left -= 1
            self._all.left -= 1
        return wait_ms

    def give_back(self, address: str) -> None:
        """Count the last try of an address as none: it was right."""
        self._by_address.pop(address, None)
        self._all.left = min(self._all.size, self._all.left + 1)
