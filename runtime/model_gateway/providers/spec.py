"""A model server as it was configured."""

from dataclasses import dataclass, field, replace

from pydantic import SecretStr

from governor.tiers import TierTimes

CONNECT_MS = 10_000
FIRST_MS = 60_000
BETWEEN_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long parts of a call may take, in milliseconds; the whole bounds them all.

    `first_ms` is to the first byte of the answer, for a stream to its first event; `between_ms`
    between two events of a stream.
    """

    whole_ms: int
    connect_ms: int = CONNECT_MS
    first_ms: int | None = None
    between_ms: int | None = None

    def within(self, times: TierTimes) -> "Timeouts":
        """Return the timeouts of a tier, which may state some of its own."""
        own = {
            "whole_ms": times.whole_ms,
            "first_ms": times.first_ms,
            "between_ms": times.between_ms,
        }
        stated = {name: ms for name, ms in own.items() if ms is not None}
        return replace(self, **stated) if stated else self


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSpec:
    """A model server; `base_url` ends before the path of a wire, such as /chat/completions.

    It has one `api_key`, or none, or a pool of `api_keys` in its place.
    """

    name: str
    base_url: str
    api_key: SecretStr | None = field(repr=False)
    timeouts: Timeouts
    api_keys: tuple[SecretStr, ...] = field(default=(), repr=False)

    @property
    def keys(self) -> tuple[str | None, ...]:
        """Return the keys by position; a provider without any has None at the first."""
        pool = self.api_keys or (self.api_key,)
        return tuple(None if key is None else key.get_secret_value() for key in pool)
