"""The file's upstreams as what the gateway connects to."""

from pathlib import Path
from typing import TypedDict

from governor.ids import UpstreamName
from runtime.configuration.care import care_of
from runtime.configuration.credentials import auth_of
from runtime.configuration.lifetime import HealthTable, health_of
from runtime.configuration.model import Config
from runtime.configuration.named_secrets import secret_named
from runtime.configuration.server_limits import server_limits_of
from runtime.configuration.upstream import Upstream
from runtime.plugins.upstream_kinds import opening_of
from runtime.settings import scripts_directory
from tool_gateway.upstreams.spec import (
    SESSIONS_MAX,
    Care,
    Health,
    HttpSpec,
    PluggedSpec,
    Share,
    StdioSpec,
    Transport,
    UpstreamSpec,
)


def upstreams_of(config: Config) -> tuple[UpstreamSpec, ...]:
    """Return what to connect to, with the secrets that the environment holds.

    Raises:
        ConfigError: a variable that the file names is not set.
    """
    return tuple(_upstream(upstream) for upstream in config.upstream)


class _OfAnyKind(TypedDict):
    """What every kind of upstream is told of its table."""

    name: UpstreamName
    prefixed: bool
    start_ms_max: int
    trust_reported_cost: bool
    share: Share
    idle_ms: int | None
    health: Health | None
    sessions_max: int
    care: Care


def _upstream(table: Upstream) -> UpstreamSpec:
    name = UpstreamName(table.name)
    told = _OfAnyKind(
        name=name,
        prefixed=table.prefix == "server",
        start_ms_max=table.start_ms_max,
        trust_reported_cost=table.trust_reported_cost,
        share=Share(table.share),
        idle_ms=None if table.idle_s is None else table.idle_s * 1000,
        health=_health(table),
        sessions_max=table.sessions_max or SESSIONS_MAX,
        care=care_of(table),
    )
    if table.url is not None:
        secrets = {
            header: secret_named(variable, f"upstream {name}.headers_from.{header}")
            for header, variable in table.headers_from.items()
        }
        return HttpSpec(
            **told,
            url=table.url,
            headers={**table.headers, **secrets},
            reach=table.reach(),
            auth=auth_of(table.auth, where=f"upstream {name}.auth"),
            transport=Transport(table.transport),
        )
    if table.kind is not None:
        return PluggedSpec(
            **told,
            kind=table.kind,
            opened=opening_of(table.kind, name=name, settings=table.settings),
            settings=table.settings,
        )
    assert table.command is not None, "the model lets through one of command, url and kind"
    secrets = {
        variable: secret_named(variable, f"upstream {name}.env_from") for variable in table.env_from
    }
    program, *arguments = table.command
    return StdioSpec(
        **told,
        command=(_program(program), *arguments),
        env={**table.env, **secrets},
        cwd=table.cwd,
        limits=server_limits_of(table.limits),
    )


def _health(table: Upstream) -> Health | None:
    """Return how it is asked whether it answers: a process always is, others where told."""
    if table.health is None and table.command is None:
        return None
    return health_of(table.health or HealthTable())


def _program(name: str) -> str:
    """Return a program of this environment by its full path, so that it need not be on PATH."""
    beside = scripts_directory() / name
    return str(beside) if "/" not in name and Path(beside).exists() else name
