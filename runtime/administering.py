"""The administrators' listener: the admin API, with the console before it."""

from collections.abc import Callable, Sequence
from functools import partial

from starlette.types import ASGIApp

from memory_store.audit import Actor
from runtime.admin.app import create_admin_app
from runtime.admin.parts import AdminParts
from runtime.configuration.model import known_targets
from runtime.configuration.translate import tiers_of
from runtime.console import ConsoleParts, WithConsole, console_app
from runtime.ground import Ground
from runtime.http_guard import HostGuard
from runtime.memory.serving.memory import memory_administration_of
from runtime.readiness import Readiness
from runtime.reload import Reloaded, Reloader
from runtime.seat import KeeperPart
from runtime.telemetry import exposition
from tool_gateway.freezing import SessionFreezer
from tool_gateway.guards.pins import Pins
from tool_gateway.schemas import SchemaFault


def administration(
    ground: Ground,
    *,
    readiness: Readiness,
    freezer: SessionFreezer,
    pins: Pins,
    schema_faults: Callable[[], Sequence[SchemaFault]],
    reloader: Reloader,
) -> ASGIApp:
    """Return what administrators are answered by."""
    keeper, listen = ground.seat.keeper, ground.config.listen
    api = create_admin_app(
        AdminParts(
            store=ground.store,
            clock=ground.clock,
            running=ground.running,
            approver=ground.approver,
            freezer=freezer,
            readiness=partial(_problems, readiness, keeper),
            upstreams=readiness.upstreams,
            upstream=readiness.upstream,
            providers=ground.provider_cares.shown,
            tiers=partial(tiers_of, ground.config),
            metrics=exposition if keeper is None else keeper.metrics,
            policy=lambda: ground.policy,
            known=lambda: known_targets(ground.config),
            prices=ground.prices,
            router=ground.routing.desk,
            feedback=ground.routing.feedback,
            pins=pins,
            memory=memory_administration_of(ground),
            labels=ground.flow.traits_of,
            reload=partial(_reload_all, reloader, keeper),
            schema_faults=schema_faults,
            body_bytes_max=listen.body_bytes_max,
        )
    )
    own = (ground.config.console.host,) if ground.config.console.host else ()
    return HostGuard(_with_console(ground, api), allowed_hosts=(*listen.allowed_hosts, *own))


def _with_console(ground: Ground, api: ASGIApp) -> ASGIApp:
    terms, listen = ground.config.console, ground.config.listen
    if not terms.enabled:
        return api
    parts = ConsoleParts(
        api=api,
        doorkeeper=ground.store.principals,
        visits=ground.store.visits,
        now_ms=ground.clock.now_ms,
        draw=ground.clock.secret,
        host=terms.own_host(has_tls=listen.tls_cert is not None),
        is_secure=listen.tls_cert is not None or listen.trusted_proxy,
        has_memory=ground.config.memory.enabled,
        idle_ms=terms.session_idle_s * 1000,
    )
    return WithConsole(api, console_app(parts))


async def _reload_all(reloader: Reloader, keeper: KeeperPart | None, by: Actor) -> Reloaded:
    """Take the changed configuration over here, and where agents connect."""
    reloaded = await reloader.reload(by=by)
    if keeper is not None:
        keeper.spread_reload()
    return reloaded


async def _problems(readiness: Readiness, keeper: KeeperPart | None) -> Sequence[str]:
    """Return why nothing can be served, here or where agents connect."""
    return [*await readiness.problems(), *(() if keeper is None else keeper.problems())]
