"""The composition root: every part made, plugged together and closed in one place."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from pydantic import SecretStr
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from ebpf.capability import Host, probe_host
from ebpf.executor import LocalExecutor
from governor.flow.labels import Traits
from governor.ids import UpstreamName
from governor.policy import Policy
from memory_store.audit import Actor
from memory_store.sessions import session_id_for
from memory_store.store import Store
from runtime.adapters import StoreManifests, StorePausing, StoreSubSessions, StoreUses
from runtime.administering import administration
from runtime.agent_routes import agent_routes
from runtime.agent_runs.front import launchers_heard
from runtime.agents import agents_app
from runtime.attaching import attached
from runtime.configuration.content import detectors_of
from runtime.configuration.model import Config
from runtime.configuration.oauth import resource_terms_of
from runtime.configuration.open_access import caller_named, open_caller_of
from runtime.configuration.telemetry import export_terms_of
from runtime.configuration.tools import list_terms_of
from runtime.configuration.translate import (
    budgets_of,
    policy_of,
    prices_of,
    shows_builtins,
)
from runtime.configuration.upstreams import upstreams_of
from runtime.configuration.webhooks import webhooks_of
from runtime.first_start import prepare
from runtime.ground import Ground, clean_up, ground_of, store_of
from runtime.housekeeping import keeping_house
from runtime.in_force import InForce
from runtime.isolating import isolated_room
from runtime.listeners import check_open_access
from runtime.local_calls import local_commands_of
from runtime.local_commands import LocalCommands
from runtime.local_tools import local_tools
from runtime.machine import executor_of
from runtime.mcp_fronts import http_front, stdio_front
from runtime.memory.serving.memory import Memory, memory_of
from runtime.memory.working.compaction import compactor_of
from runtime.model_gateway.front import ModelFront
from runtime.model_serving import model_front
from runtime.notifying import Notifier
from runtime.oauth.door import door_for
from runtime.plugging import outside_of, plugged_notifiers_of
from runtime.readiness import Readiness
from runtime.reload import Reloaded, Reloader, Reread
from runtime.seat import ALONE, Seat
from runtime.sub_sessions import SubSessions
from runtime.telemetry import exporting
from runtime.token_files import TENANT, TokenFiles, token_files
from runtime.version import VERSION
from runtime.word_vectors import vectors_if_any
from tool_gateway import builtin, shell
from tool_gateway.catalog import ToolEntry
from tool_gateway.changes import Changes
from tool_gateway.discovery.answers import Answers
from tool_gateway.discovery.finder import Finder
from tool_gateway.freezing import SessionFreezer
from tool_gateway.front.modern import ModernFront
from tool_gateway.front.stdio import StdioFront
from tool_gateway.gateway import Gateway
from tool_gateway.guards.answers import AnswerGuard
from tool_gateway.guards.cache import ResultCache
from tool_gateway.guards.pins import Pins
from tool_gateway.keeping import ResultKeeper
from tool_gateway.loop_watch import LoopWatch
from tool_gateway.memory import definitions as memory_tools
from tool_gateway.outcomes import Outcomes
from tool_gateway.pipeline import Pipeline
from tool_gateway.relaying import Relaying
from tool_gateway.running import RunningCalls
from tool_gateway.spawning import Spawning
from tool_gateway.stock import Stock
from tool_gateway.turnstile import Turnstile
from tool_gateway.upstreams.fleet import UpstreamFleet
from tool_gateway.upstreams.spec import UpstreamSpec

logger = logging.getLogger(__name__)


class Reload(Protocol):
    """Takes the changed configuration over."""

    async def __call__(self, *, by: Actor) -> Reloaded:
        """Return what was taken over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """A sidecar that runs, ready to be served."""

    agents: ASGIApp
    admin: ASGIApp
    running: RunningCalls
    readiness: Readiness
    store: Store
    host: Host
    fleet: UpstreamFleet
    turnstile: Turnstile
    tokens: TokenFiles
    stdio: Callable[[], Awaitable[StdioFront]]
    reload: Reload


@dataclass(frozen=True, slots=True, kw_only=True)
class _Offered:
    """What the upstreams offer, who keeps it, and what is made of what they answer."""

    stock: Stock
    pins: Pins
    changes: Changes
    fleet: UpstreamFleet
    outcomes: Outcomes
    keeper: ResultKeeper
    answers: AnswerGuard


@asynccontextmanager
async def open_sidecar(
    config: Config,
    *,
    state_dir: Path,
    store_url: SecretStr | None = None,
    reread: Reread | None = None,
    seat: Seat = ALONE,
) -> AsyncIterator[Sidecar]:
    """Yield a sidecar on `state_dir`, and on the server at `store_url` if there is one.

    `reread` returns the configuration as its file has it now, where there is a file. `seat` is
    the part of this process, where several make up a sidecar.

    Everything that it started is gone afterwards.

    Raises:
        ConfigError: the configuration contradicts itself.
        StoreError: the state directory cannot be used.
    """
    check_open_access(config)
    specs, notifiers = upstreams_of(config), webhooks_of(config.webhook)
    async with AsyncExitStack() as stack:
        ground = await _opened(stack, config, seat, state_dir, store_url)
        host, attachers = await attached(
            stack, probe_host(), state_dir=state_dir, terms=config.local
        )
        executor = executor_of(config, host=host, state_dir=state_dir, attachers=attachers)
        await _begin(stack, ground, executor, state_dir)

        isolation = isolated_room(config.local, host, executor, ground.clock)
        room = await stack.enter_async_context(isolation)
        local = local_commands_of(ground, executor, room)
        memory = memory_of(ground)
        await stack.enter_async_context(memory.running())
        offered = await _offered(ground, specs, local, memory)
        fleet, pins = offered.fleet, offered.pins
        gateway = await _gateway(ground, offered, local, memory)
        relaying = _relaying(ground, gateway, offered, memory)
        front = http_front(
            gateway, relaying, body_bytes_max=config.listen.body_bytes_max, place=seat.place
        )
        await stack.enter_async_context(front.running())
        models = await model_front(
            stack,
            ground,
            session_of=gateway.session_of_chat,
            compactor=compactor_of(ground, traits_of=partial(_traits_of, ground, offered.stock)),
        )
        await stack.enter_async_context(memory.learning(models.gateway))
        freezer = SessionFreezer(running=ground.running, commands=local)
        notified = [*notifiers, *_plugged_notifiers(ground)]
        await stack.enter_async_context(keeping_house(ground, notified, pins, freezer))
        await stack.enter_async_context(fleet.connected())
        await stack.enter_async_context(launchers_heard(ground, executor, local, state_dir))
        await pins.pin_met()
        readiness = _readiness(ground, fleet, local)
        reloader = _reloader(ground, offered, relaying, reread)
        yield Sidecar(
            agents=await _agents(ground, front, models, memory.routes(gateway)),
            admin=_admin(ground, readiness, freezer, offered, reloader),
            running=ground.running,
            readiness=readiness,
            store=ground.store,
            host=host,
            fleet=fleet,
            turnstile=ground.turnstile,
            tokens=token_files(state_dir),
            stdio=partial(_stdio, ground, gateway, relaying),
            reload=reloader.reload,
        )


def _plugged_notifiers(ground: Ground) -> Sequence[Notifier]:
    is_keeper = ground.seat.worker is None
    return plugged_notifiers_of(ground.config, ground.clock, is_keeper=is_keeper)


async def _opened(
    stack: AsyncExitStack,
    config: Config,
    seat: Seat,
    state_dir: Path,
    store_url: SecretStr | None,
) -> Ground:
    """Return the ground on an open store, whose latest prices are known; collectors are told."""
    await stack.enter_async_context(
        exporting(export_terms_of(config.telemetry), version=VERSION, process=seat.process)
    )
    in_force, of_file = InForce(config, policy_of(config)), prices_of(config)
    store = await store_of(stack, config, seat, state_dir, store_url)
    ground = ground_of(in_force, seat=seat, store=store, of_file=of_file, state_dir=state_dir)
    await ground.prices.refresh()
    return ground


async def _begin(
    stack: AsyncExitStack, ground: Ground, executor: LocalExecutor, state_dir: Path
) -> None:
    """Reap what an earlier process left, make what a first start needs, answer the workers."""
    seat = ground.seat
    await clean_up(executor, ground)
    await stack.enter_async_context(executor.guarded())
    if seat.worker is None:
        await _first_start(ground, state_dir)
    if seat.keeper is not None:
        # Before upstreams are connected: after a restart the workers wait for nothing else.
        await stack.enter_async_context(seat.keeper.answering(ground.store))


async def _offered(
    ground: Ground, specs: Sequence[UpstreamSpec], local: LocalCommands, memory: Memory
) -> _Offered:
    """Return the upstreams, none of them connected yet."""
    stock = Stock(_house_tools(ground.config, ground.policy), reserved=builtin.NAMES)
    pins, changes = await _pins(ground), Changes()
    fleet = UpstreamFleet(
        specs,
        placement=local,
        stock=stock,
        pins=pins,
        changes=changes,
        below=ground.clock.below,
        is_frozen=ground.running.is_session_frozen,
    )
    keeper = ResultKeeper(
        archive=ground.archive,
        ledger=ground.ledger,
        clock=ground.clock,
        can_be_read_on=shows_builtins(ground.config),
        recorder=memory.recorder,
    )
    return _Offered(
        stock=stock,
        pins=pins,
        changes=changes,
        fleet=fleet,
        outcomes=Outcomes(fleet.relays, breakers=ground.breakers, kept_out=pins.count_kept_out),
        keeper=keeper,
        answers=AnswerGuard(
            schemas=lambda: stock.schemas,
            keeper=keeper,
            detectors=detectors_of(ground.config.redaction),
        ),
    )


async def _finder(ground: Ground, stock: Stock) -> Finder:
    finder = Finder(
        stock=stock,
        policy=lambda: ground.policy,
        clock=ground.clock,
        vectors=vectors_if_any,
        terms=list_terms_of(ground.config.tools),
    )
    await finder.learn(StoreUses(ground.store.calls))
    return finder


async def _first_start(ground: Ground, state_dir: Path) -> None:
    await prepare(
        ground.store,
        state_dir=state_dir,
        budgets=budgets_of(ground.config, tenant=TENANT),
        now_ms=ground.clock.now_ms(),
    )


async def _pins(ground: Ground) -> Pins:
    """Return what was approved of the upstreams, known before any of them is connected."""
    pins = Pins(
        {UpstreamName(table.name): table.pin for table in ground.config.upstream},
        store=StoreManifests(ground.store.manifests, now_ms=ground.clock.now_ms),
    )
    await pins.refresh()
    return pins


async def _gateway(
    ground: Ground, offered: _Offered, local: LocalCommands, memory: Memory
) -> Gateway:
    stock, fleet, pins = offered.stock, offered.fleet, offered.pins
    finder = await _finder(ground, stock)
    pipeline = Pipeline(
        books=ground.books,
        turns=ground.turns,
        approver=ground.approver,
        keeper=offered.keeper,
        answers=offered.answers,
        clock=ground.clock,
        policy=lambda: ground.policy,
        running=ground.running,
        arguments_kept=ground.kept,
        loops=LoopWatch(clock=ground.clock, pausing=StorePausing(ground.store.sessions)),
        flow=ground.flow,
        gate=ground.gate,
        cache=ResultCache(clock=ground.clock),
        memory=ground.memory,
        needing=ground.needing,
        charging=memory.charging,
        outside=outside_of(ground.config, ground.clock),
        admin_contact=ground.config.guidance.admin_contact,
        turnstile=ground.turnstile,
    )
    builtins = builtin.Builtins(
        memories=memory.tools,
        books=ground.books,
        turns=ground.turns,
        policy=lambda: ground.policy,
        spawning=Spawning(StoreSubSessions(SubSessions(ground.store, clock=ground.clock))),
        answers=Answers(finder),
        taking=ground.gate.take,
    )
    return Gateway(
        stock=stock,
        pipeline=pipeline,
        books=ground.books,
        backends={
            builtin.BUILTIN: builtins,
            shell.LOCAL: local_tools(ground.config, local, ground.turnstile.priority_of),
        },
        relays=fleet.relays,
        outcomes=offered.outcomes,
        policy=lambda: ground.policy,
        sessions=ground.sessions,
        session_naming=session_id_for,
        is_beneath=StoreSubSessions(SubSessions(ground.store, clock=ground.clock)).is_beneath,
        clock=ground.clock,
        finder=finder,
        kept_out=pins.kept_out,
        memory_is_asked_for=ground.memory.may_ask_the_agent,
    )


def _traits_of(ground: Ground, stock: Stock, tool: str) -> Traits | None:
    """Return what a tool shows and does that is exposed under a name."""
    catalog = stock.catalog
    return ground.flow.traits_of(catalog.find(tool)) if tool in catalog else None


def _house_tools(config: Config, policy: Policy) -> tuple[ToolEntry, ...]:
    """Return the tools of the house that are offered; the one that a gate needs always is."""
    gates = (builtin.ANSWER_ENTRY,) if policy.has_gate else ()
    own = (*builtin.ENTRIES, *shell.LOCAL_ENTRIES) if shows_builtins(config) else ()
    if not config.memory.enabled:
        own = tuple(entry for entry in own if entry not in memory_tools.ENTRIES)
    return (*own, *gates)


def _reloader(
    ground: Ground, offered: _Offered, relaying: Relaying, reread: Reread | None
) -> Reloader:
    return Reloader(
        reread,
        ground,
        fleet=offered.fleet,
        pins=offered.pins,
        answers=offered.answers,
        relaying=relaying,
        changes=offered.changes,
        follow=partial(_follow, ground, offered),
    )


def _follow(ground: Ground, offered: _Offered, config: Config, policy: Policy) -> None:
    """Go by a configuration that was read again, wherever nothing else is told of it."""
    offered.stock.keep(_house_tools(config, policy))
    ground.provider_cares.readmit_keys()


def _relaying(ground: Ground, gateway: Gateway, offered: _Offered, memory: Memory) -> Relaying:
    return Relaying(
        relays=offered.fleet.relays,
        outcomes=offered.outcomes,
        calls=gateway.offer_calls(),
        tasks=gateway.tasks,
        is_exposed=offered.pins.exposes,
        policy=lambda: ground.policy,
        changes=offered.changes,
        elapsed_ms=ground.clock.elapsed_ms,
        own=memory.resources(gateway) if shows_builtins(ground.config) else None,
    )


async def _stdio(ground: Ground, gateway: Gateway, relaying: Relaying) -> StdioFront:
    caller = await caller_named(ground.config.auth.principal, ground.store.principals)
    return stdio_front(gateway, relaying, caller=caller)


async def _agents(
    ground: Ground, front: ModernFront, models: ModelFront, routes: Sequence[BaseRoute]
) -> ASGIApp:
    config, worker = ground.config, ground.seat.worker
    return agents_app(
        front=front,
        models=models,
        other_routes=[*agent_routes(ground), *routes],
        authenticate=lambda secret: ground.store.principals.authenticate(
            secret, now_ms=ground.clock.now_ms()
        ),
        open_to=await open_caller_of(config.auth, ground.store.principals),
        oauth=door_for(
            resource_terms_of(config.oauth), ground.store.principals, clock=ground.clock
        ),
        allowed_hosts=config.listen.allowed_hosts,
        body_bytes_max=config.listen.body_bytes_max,
        met=None if worker is None else worker.met,
        pin_of=ground.sessions.pin_of,
        handing=None if worker is None else worker.handing,
    )


def _readiness(ground: Ground, fleet: UpstreamFleet, local: LocalCommands) -> Readiness:
    return Readiness(
        store=ground.store,
        fleet=fleet,
        breakers=ground.breakers,
        placement=local,
        now_ms=ground.clock.now_ms,
    )


def _admin(
    ground: Ground,
    readiness: Readiness,
    freezer: SessionFreezer,
    offered: _Offered,
    reloader: Reloader,
) -> ASGIApp:
    return administration(
        ground,
        readiness=readiness,
        freezer=freezer,
        pins=offered.pins,
        schema_faults=lambda: offered.stock.schemas.faults,
        reloader=reloader,
    )
