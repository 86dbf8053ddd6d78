"""The console of administrators, as `flyball.toml` says it."""

from typing import Annotated

from pydantic import Field

from runtime.configuration.table import Flag, Table

_DAY_S = 24 * 60 * 60


class ConsoleTable(Table):
    """Whether the pages are served, and after how long without a request one signs in again.

    On this machine they are served under a `host` name of their own, so that their cookie is sent
    to no other port; with an empty one, under any loopback name.
    """

    enabled: Flag = True
    host: Annotated[str, Field(strict=True, pattern=r"^([a-z0-9-]+(\.[a-z0-9-]+)*)?$")] = (
        "flyball.localhost"
    )
    session_idle_s: Annotated[int, Field(strict=True, ge=60, le=_DAY_S)] = 3600

    def own_host(self, *, has_tls: bool) -> str:
        """Return the name that loopback ones lead to; none with TLS, whose certificate says."""
        return "" if has_tls else self.host
