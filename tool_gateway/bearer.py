"""The token that a caller itself came with, for the upstreams whose table says that they get it."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Bearer:
    """An access token of the caller's authorization server; it is in no `repr`."""

    token: str = field(repr=False)
    expires_at_ms: int
