"""The upstreams of `flyball.toml`."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from governor.manifest import Pin
from runtime.configuration.care import BreakerTable
from runtime.configuration.credentials import UpstreamAuthTable
from runtime.configuration.egress import EgressTable
from runtime.configuration.lifetime import HealthTable, IdleSeconds, SessionCount
from runtime.configuration.server_limits import ServerLimitsTable
from runtime.configuration.table import Flag, Name, Positive
from tool_gateway.builtin import BUILTIN
from tool_gateway.shell import LOCAL

BUILT_IN = frozenset({BUILTIN, LOCAL})
_NAME = re.compile(r"^[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*$")
_ALL_BUT_ONE = 2


class Upstream(EgressTable):
    """An MCP server: one that is started (`command`), or one that runs elsewhere (`url`).

    Of another `kind` is what a plug-in brings, which is given the `settings`.
    """

    name: Name
    command: tuple[str, ...] | None = None
    env: dict[str, str] = Field(default_factory=dict)
    env_from: tuple[str, ...] = ()
    cwd: str | None = None
    url: str | None = None
    kind: Name | None = None
    settings: dict[str, Any] = Field(default_factory=dict)
    headers: dict[str, str] = Field(default_factory=dict)
    headers_from: dict[str, str] = Field(default_factory=dict)
    auth: UpstreamAuthTable | None = None
    # How a remote one is spoken to; "sse" is the transport of 2024-11-05.
    transport: Literal["streamable", "sse"] = "streamable"
    prefix: Literal["server", "none"] = "server"
    # "session": a connection, and a process, for each session instead of one for all.
    share: Literal["all", "session"] = "all"
    sessions_max: SessionCount | None = None
    # It is stopped when nothing used it for so long, and started for the next call.
    idle_s: IdleSeconds | None = None
    # None: one that is started is asked now and again, one that runs elsewhere is not.
    health: HealthTable | None = None
    start_ms_max: Positive = 30_000
    trust_reported_cost: Flag = False
    pin: Pin = Pin.FIRST_USE
    breaker: Literal["off"] | BreakerTable = BreakerTable()
    retries: Annotated[int, Field(strict=True, ge=0, le=10)] = 2
    answer_ms_max: Positive | None = None
    idempotent_by_key: Flag = False
    when_down: Literal["listed", "hidden"] = "listed"
    limits: ServerLimitsTable | None = None

    @field_validator("breaker", mode="before")
    @classmethod
    def _is_breaker(cls, value: object) -> object:
        if value != "off" and not isinstance(value, (dict, BreakerTable)):
            raise ValueError('use "off", or { calls_min = 10, open_s = 5 } for terms of your own')
        return value

    @field_validator("name")
    @classmethod
    def _is_safe(cls, value: str) -> str:
        if not _NAME.match(value):
            raise ValueError("use letters, digits, '-' and single '_': it becomes a tool's prefix")
        if value in BUILT_IN:
            raise ValueError("this name belongs to the built-in tools; choose another")
        return value

    @field_validator("url")
    @classmethod
    def _is_url(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("expected an http:// or https:// address")
        return value

    @model_validator(mode="after")
    def _is_one_kind(self) -> Self:
        if [self.command, self.url, self.kind].count(None) != _ALL_BUT_ONE:
            raise ValueError("give exactly one of `command` and `url`, or the `kind` of a plug-in")
        self._check_kind()
        if self.command is not None and not self.command:
            raise ValueError("command: name the program to start")
        if self.share != "session":
            if self.sessions_max is not None:
                raise ValueError('sessions_max: this is for share = "session"; add that')
            if self.idle_s is not None and self.command is None:
                raise ValueError('idle_s: this is for `command`, or share = "session"')
        if self.url is None and (self.allow_private or self.allow_networks or self.auth):
            raise ValueError("allow_private, allow_networks and auth are for a `url`; remove them")
        has_header = "authorization" in {*map(str.lower, (*self.headers, *self.headers_from))}
        if self.limits is not None and self.command is None:
            raise ValueError("limits: this is for `command`; what runs elsewhere is not ours")
        if self.auth is not None and has_header and self.auth.kind != "forward":
            raise ValueError("auth: there is an Authorization header as well; remove one of them")
        return self

    def _check_kind(self) -> None:
        """Return if what is for plug-ins, and only that, stands with a plug-in's kind."""
        if self.settings and self.kind is None:
            raise ValueError("settings: they are for a `kind` that a plug-in brings")
        if self.kind is not None and (self.env or self.env_from or self.headers or self.cwd):
            raise ValueError("env, cwd and headers are for `command` and `url`; use `settings`")
