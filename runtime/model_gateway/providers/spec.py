"""A model server as it was configured."""

from dataclasses import dataclass, field

from pydantic import SecretStr

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSpec:
    """A model server; `base_url` ends before the path of a wire, such as /chat/completions."""

    name: str
    base_url: str
    api_key: SecretStr | None = field(repr=False)
    timeouts: Timeouts
