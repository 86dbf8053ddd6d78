"""The console of administrators, as `flyball.toml` says it."""

from typing import Annotated

from pydantic import Field

from runtime.configuration.table import Flag, Table

_DAY_S = 24 * 60 * 60


class ConsoleTable(Table):
    """Whether the pages are served, and after how long without a request one signs in again."""

    enabled: Flag = True
    session_idle_s: Annotated[int, Field(strict=True, ge=60, le=_DAY_S)] = 3600
