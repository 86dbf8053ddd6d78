"""Where a sidecar is reached, as `flyball.toml` says it."""

import re
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from runtime.configuration.table import Flag, Positive, Table

_ADDRESS = re.compile(r"^(\[[0-9a-fA-F:]+\]|[^:\s]+):(\d{1,5})$")
_PORT_MAX = 65_535
_MIB = 1024 * 1024
WORKERS_MAX = 64


class Listen(Table):
    """Where agents and administrators connect."""

    agents: str = "127.0.0.1:8700"
    admin: str = "127.0.0.1:8701"
    trusted_proxy: Flag = False
    tls_cert: str | None = None
    tls_key: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    body_bytes_max: Positive = 4 * _MIB
    workers: Annotated[int, Field(strict=True, ge=1, le=WORKERS_MAX)] = 1

    @field_validator("agents", "admin")
    @classmethod
    def _is_address(cls, value: str) -> str:
        match = _ADDRESS.match(value)
        if match is None:
            raise ValueError('expected "host:port", for example "127.0.0.1:8700"')
        if int(match[2]) > _PORT_MAX:
            raise ValueError(f"there is no port above {_PORT_MAX}; choose a smaller one")
        return value

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key go together: give both or neither")
        host, _, port = self.agents.rpartition(":")
        admin_host, _, admin_port = self.admin.rpartition(":")
        if host == admin_host and int(port) == int(admin_port) != 0:
            raise ValueError(
                f"agents and admin are both {self.agents}; give each listener a port of its own"
            )
        return self
