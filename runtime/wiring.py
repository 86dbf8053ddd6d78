"""The composition root: every part made, plugged together and closed in one place."""

import logging
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
from pydantic import SecretStr
from starlette.types import ASGIApp

from ebpf.capability import Host, probe_host
from ebpf.executor import LocalExecutor
from ebpf.pressure import PressureReader
from governor.ids import UpstreamName
from governor.policy import Policy
from governor.pricing import PriceList
from memory_store.engine import Durability
from memory_store.sessions import session_id_for
from memory_store.store import Store, open_store
from runtime.adapters import (
    StoreApprovals,
    StoreArchive,
    StoreFlows,
    StoreLedger,
    StoreManifests,
    StorePausing,
    StoreSubSessions,
    StoreTurns,
    StoreUses,
)
from runtime.admin.app import create_admin_app
from runtime.admin.parts import AdminParts
from runtime.agents import agents_app
from runtime.clock import SystemClock
from runtime.configuration.content import detectors_of
from runtime.configuration.contention import contention_of
from runtime.configuration.flow import flow_approval_of, flow_policy_of
from runtime.configuration.model import Config, known_targets
from runtime.configuration.oauth import resource_terms_of
from runtime.configuration.open_access import caller_named, open_caller_of
from runtime.configuration.tools import list_terms_of
from runtime.configuration.translate import (
    archive_bytes_max_of,
    budgets_of,
    policy_of,
    prices_of,
    providers_of,
    retention_ms_of,
    shows_builtins,
    tier_rules_of,
    tiers_of,
    turn_policy_of,
    upstreams_of,
    webhook_of,
)
from runtime.first_start import prepare
from runtime.gate_key import gate_key
from runtime.http_guard import HostGuard
from runtime.listeners import check_open_access
from runtime.local_commands import LocalCommands
from runtime.mcp_fronts import http_front, stdio_front
from runtime.model_gateway.chat import ChatGateway
from runtime.model_gateway.front import ModelFront
from runtime.model_gateway.providers import ProviderPool
from runtime.oauth.door import door_for
from runtime.prices import PriceSource
from runtime.readiness import Readiness
from runtime.reaper import (
    audit_for_ever,
    close_idle_for_ever,
    end_approvals_for_ever,
    follow_pins_for_ever,
    follow_prices_for_ever,
    purge_for_ever,
    reap_for_ever,
)
from runtime.session_front import SessionFront
from runtime.settings import command_environment
from runtime.sub_sessions import SubSessions
from runtime.task_front import TaskFront
from runtime.telemetry import collect_metrics, exposition
from runtime.token_files import TENANT, TokenFiles
from runtime.version import VERSION
from runtime.webhook import Webhook, deliver_for_ever
from tool_gateway import builtin, shell
from tool_gateway.approver import Approver
from tool_gateway.books import Books
from tool_gateway.changes import Changes
from tool_gateway.discovery.answers import Answers
from tool_gateway.discovery.finder import Finder
from tool_gateway.freezing import SessionFreezer
from tool_gateway.front.modern import ModernFront
from tool_gateway.front.stdio import StdioFront
from tool_gateway.gateway import Gateway
from tool_gateway.guards.answers import AnswerGuard
from tool_gateway.guards.cache import ResultCache
from tool_gateway.guards.flow import FlowGuard
from tool_gateway.guards.gate import ReasoningGate
from tool_gateway.guards.pins import Pins
from tool_gateway.keeping import ResultKeeper
from tool_gateway.loop_watch import LoopWatch
from tool_gateway.pipeline import Pipeline
from tool_gateway.redaction import ArgumentsKept
from tool_gateway.relaying import Relaying
from tool_gateway.running import RunningCalls
from tool_gateway.sessions import ImplicitSessions
from tool_gateway.spawning import Spawning
from tool_gateway.stock import Stock
from tool_gateway.turn_gate import TurnGate
from tool_gateway.turnstile import Turnstile
from tool_gateway.upstreams.fleet import UpstreamFleet

logger = logging.getLogger(__name__)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ground:
    """What the rest stands on."""

    config: Config
    policy: Policy
    clock: SystemClock
    store: Store
    prices: PriceSource
    ledger: StoreLedger
    books: Books
    turns: TurnGate
    approver: Approver
    archive: StoreArchive
    running: RunningCalls
    turnstile: Turnstile
    kept: ArgumentsKept
    flow: FlowGuard
    gate: ReasoningGate | None


@asynccontextmanager
async def open_sidecar(
    config: Config, *, state_dir: Path, store_url: SecretStr | None = None
) -> AsyncIterator[Sidecar]:
    """Yield a sidecar on `state_dir`, and on the server at `store_url` if there is one.

    Everything that it started is gone afterwards.

    Raises:
        ConfigError: the configuration contradicts itself.
        StoreError: the state directory cannot be used.
    """
    check_open_access(config)
    policy, specs, webhook = policy_of(config), upstreams_of(config), webhook_of(config)
    of_file = prices_of(config)
    collect_metrics(version=VERSION)
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(
            open_store(
                state_dir,
                url=None if store_url is None else store_url.get_secret_value(),
                durability=Durability(config.store.durability),
                archive_bytes_max_per_tenant=archive_bytes_max_of(config),
            )
        )
        ground = _ground(config, policy, store, of_file, state_dir)
        await ground.prices.refresh()
        host = probe_host()
        executor = LocalExecutor(host=host, state_dir=state_dir, user=config.local.user)
        await _clean_up(executor, ground)
        tokens = await _first_start(ground, state_dir)

        local = LocalCommands(
            executor,
            workdir=config.local.workdir or tempfile.gettempdir(),
            at_once_max=config.local.at_once_max,
            is_frozen=ground.running.is_frozen,
            milliwatts_per_core=policy.milliwatts_per_core,
        )
        stock = _stock(ground)
        pins, changes = await _pins(config, ground), Changes()
        fleet = UpstreamFleet(specs, placement=local, stock=stock, pins=pins, changes=changes)
        gateway = await _gateway(ground, stock=stock, fleet=fleet, local=local, pins=pins)
        relaying = _relaying(ground, gateway, fleet, changes)
        front = http_front(gateway, relaying, body_bytes_max=config.listen.body_bytes_max)
        await stack.enter_async_context(front.running())
        models = await _model_front(stack, ground, gateway)

        await _keep_house(stack, ground, webhook, pins)
        await stack.enter_async_context(fleet.connected())
        await pins.pin_met()

        readiness = Readiness(store=store, fleet=fleet)
        yield Sidecar(
            agents=await _agents(ground, front, models),
            admin=_admin(ground, readiness, local, pins, stock),
            running=ground.running,
            readiness=readiness,
            store=store,
            host=host,
            fleet=fleet,
            turnstile=ground.turnstile,
            tokens=tokens,
            stdio=partial(_stdio, ground, gateway, relaying),
        )


async def _clean_up(executor: LocalExecutor, ground: _Ground) -> None:
    """Reap what an earlier process left behind: children, domains, then its holds."""
    reaped = await executor.sweep()
    # Where others share the store, what is live may be theirs: the reaper ends by time what
    # an earlier process of ours left.
    expired = await ground.store.ledger.expire_due(
        now_ms=ground.clock.now_ms(), all_live=not ground.store.is_shared
    )
    if reaped or expired:
        logger.warning(
            "an earlier sidecar ended without cleaning up: what was left of %s was killed, %s",
            _counted(reaped, "local command or server", "local commands and servers"),
            _counted(len(expired), "hold was ended", "holds were ended"),
        )


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _ground(
    config: Config, policy: Policy, store: Store, of_file: PriceList, state_dir: Path
) -> _Ground:
    clock = SystemClock()
    ledger = StoreLedger(ledger=store.ledger, calls=store.calls)
    books, running = Books(ledger=ledger, clock=clock), RunningCalls()
    kept = ArgumentsKept(config.records.arguments)
    turns = TurnGate(
        books=books, store=StoreTurns(store.turns), policy=turn_policy_of(config), clock=clock
    )
    return _Ground(
        config=config,
        policy=policy,
        clock=clock,
        store=store,
        prices=PriceSource(store.prices, of_file=of_file),
        ledger=ledger,
        books=books,
        turns=turns,
        approver=Approver(
            desk=StoreApprovals(store.approvals),
            books=books,
            turns=turns,
            clock=clock,
            arguments_kept=kept,
        ),
        archive=StoreArchive(store.archive),
        running=running,
        turnstile=Turnstile(
            contention_of(config.contention, config.commons),
            clock=clock,
            pressure=PressureReader(elapsed_ms=clock.elapsed_ms),
            # What reads the house's own books is never kept waiting.
            exempt=frozenset({builtin.BUILTIN}),
        ),
        kept=kept,
        flow=_flow(config, store, clock),
        gate=ReasoningGate(key=gate_key(state_dir), clock=clock) if policy.has_gate else None,
    )


def _flow(config: Config, store: Store, clock: SystemClock) -> FlowGuard:
    turns = turn_policy_of(config)
    return FlowGuard(
        policy=flow_policy_of(config.flow),
        approval=flow_approval_of(config.flow),
        store=StoreFlows(store.flows),
        clock=clock,
        is_shared=store.is_shared,
        class_of=lambda chain: turns.class_of(chain.agent, asked=None),
    )


async def _finder(ground: _Ground, stock: Stock) -> Finder:
    finder = Finder(
        stock=stock,
        policy=lambda: ground.policy,
        clock=ground.clock,
        terms=list_terms_of(ground.config.tools),
    )
    await finder.learn(StoreUses(ground.store.calls))
    return finder


async def _first_start(ground: _Ground, state_dir: Path) -> TokenFiles:
    return await prepare(
        ground.store,
        state_dir=state_dir,
        budgets=budgets_of(ground.config, tenant=TENANT),
        now_ms=ground.clock.now_ms(),
    )


async def _pins(config: Config, ground: _Ground) -> Pins:
    """Return what was approved of the upstreams, known before any of them is connected."""
    pins = Pins(
        {UpstreamName(table.name): table.pin for table in config.upstream},
        store=StoreManifests(ground.store.manifests, now_ms=ground.clock.now_ms),
    )
    await pins.refresh()
    return pins


async def _gateway(
    ground: _Ground, *, stock: Stock, fleet: UpstreamFleet, local: LocalCommands, pins: Pins
) -> Gateway:
    finder = await _finder(ground, stock)
    keeper = ResultKeeper(
        archive=ground.archive,
        ledger=ground.ledger,
        clock=ground.clock,
        can_be_read_on=shows_builtins(ground.config),
    )
    pipeline = Pipeline(
        books=ground.books,
        turns=ground.turns,
        approver=ground.approver,
        keeper=keeper,
        answers=AnswerGuard(
            schemas=lambda: stock.schemas,
            keeper=keeper,
            detectors=detectors_of(ground.config.redaction),
        ),
        clock=ground.clock,
        policy=lambda: ground.policy,
        running=ground.running,
        arguments_kept=ground.kept,
        loops=LoopWatch(clock=ground.clock, pausing=StorePausing(ground.store.sessions)),
        flow=ground.flow,
        gate=ground.gate,
        cache=ResultCache(clock=ground.clock),
        admin_contact=ground.config.guidance.admin_contact,
        turnstile=ground.turnstile,
    )
    builtins = builtin.Builtins(
        archive=ground.archive,
        books=ground.books,
        turns=ground.turns,
        policy=lambda: ground.policy,
        spawning=Spawning(StoreSubSessions(SubSessions(ground.store, clock=ground.clock))),
        answers=Answers(finder),
        taking=None if ground.gate is None else ground.gate.take,
    )
    return Gateway(
        stock=stock,
        pipeline=pipeline,
        books=ground.books,
        backends={
            builtin.BUILTIN: builtins,
            shell.LOCAL: shell.Shell(runner=local, environment=command_environment()),
        },
        relays=fleet.relays,
        policy=lambda: ground.policy,
        sessions=ImplicitSessions(clock=ground.clock, idle_ms=ground.config.session.idle_s * 1000),
        session_naming=session_id_for,
        clock=ground.clock,
        finder=finder,
        kept_out=pins.kept_out,
    )


def _stock(ground: _Ground) -> Stock:
    """Return the tools of the house that are offered; the one that a gate needs always is."""
    gates = () if ground.gate is None else (builtin.ANSWER_ENTRY,)
    own = (*builtin.ENTRIES, shell.ENTRY) if shows_builtins(ground.config) else ()
    return Stock([*own, *gates])


def _relaying(
    ground: _Ground, gateway: Gateway, fleet: UpstreamFleet, changes: Changes
) -> Relaying:
    return Relaying(
        relays=fleet.relays,
        calls=gateway.offer_calls(),
        policy=lambda: ground.policy,
        changes=changes,
        elapsed_ms=ground.clock.elapsed_ms,
    )


async def _stdio(ground: _Ground, gateway: Gateway, relaying: Relaying) -> StdioFront:
    caller = await caller_named(ground.config.auth.principal, ground.store.principals)
    return stdio_front(gateway, relaying, caller=caller)


async def _model_front(stack: AsyncExitStack, ground: _Ground, gateway: Gateway) -> ModelFront:
    pool = await stack.enter_async_context(ProviderPool(providers_of(ground.config)))
    chat = ChatGateway(
        books=ground.books,
        turns=ground.turns,
        clock=ground.clock,
        tiers=tiers_of(ground.config),
        prices=ground.prices.prices,
        rules=tier_rules_of(ground.config),
        providers=pool,
        running=ground.running,
        arguments_kept=ground.kept,
        policy_version=lambda: ground.policy.version,
        tracker=ground.config.guidance.chat_tracker,
        admin_contact=ground.config.guidance.admin_contact,
        turnstile=ground.turnstile,
    )
    return ModelFront(chat, session_of=gateway.session_of_chat, overhear=ground.flow.overhear)


async def _keep_house(
    stack: AsyncExitStack, ground: _Ground, webhook: Webhook | None, pins: Pins
) -> None:
    """Start what runs beside the calls: holds that nobody ends, records past their time."""
    store, clock = ground.store, ground.clock
    tasks = await stack.enter_async_context(anyio.create_task_group())
    stack.callback(tasks.cancel_scope.cancel)
    tasks.start_soon(reap_for_ever, store.ledger, clock, ground.running, name="reaper")
    tasks.start_soon(end_approvals_for_ever, ground.approver, name="approvals")
    tasks.start_soon(audit_for_ever, store, name="conservation")
    if ground.config.commons:
        tasks.start_soon(ground.turnstile.keep_pace, name="commons")
    keep_ms = retention_ms_of(ground.config)
    tasks.start_soon(purge_for_ever, store.retention, clock, keep_ms, name="retention")
    idle_ms = ground.config.session.idle_s * 1000
    close_idle = partial(close_idle_for_ever, store.sessions, clock, idle_ms=idle_ms)
    tasks.start_soon(close_idle, name="idle sessions")
    tasks.start_soon(pins.pin_for_ever, name="pins")
    if store.is_shared:
        tasks.start_soon(follow_pins_for_ever, pins.refresh, name="approvals of manifests")
        tasks.start_soon(follow_prices_for_ever, ground.prices.refresh, name="prices")
    if webhook is not None:
        tasks.start_soon(deliver_for_ever, store.notices, clock, webhook, name="webhook")


async def _agents(ground: _Ground, front: ModernFront, models: ModelFront) -> ASGIApp:
    config = ground.config
    return agents_app(
        front=front,
        other_routes=[
            *models.routes(),
            *SessionFront(ground.store, clock=ground.clock).routes(),
            *TaskFront(
                ground.flow, ground.store, launchers=config.flow.launchers, clock=ground.clock
            ).routes(),
        ],
        authenticate=lambda secret: ground.store.principals.authenticate(
            secret, now_ms=ground.clock.now_ms()
        ),
        open_to=await open_caller_of(config.auth, ground.store.principals),
        oauth=door_for(
            resource_terms_of(config.oauth), ground.store.principals, clock=ground.clock
        ),
        allowed_hosts=config.listen.allowed_hosts,
        body_bytes_max=config.listen.body_bytes_max,
    )


def _admin(
    ground: _Ground, readiness: Readiness, local: LocalCommands, pins: Pins, stock: Stock
) -> ASGIApp:
    app = create_admin_app(
        AdminParts(
            store=ground.store,
            clock=ground.clock,
            running=ground.running,
            approver=ground.approver,
            freezer=SessionFreezer(running=ground.running, commands=local),
            readiness=readiness.problems,
            upstreams=readiness.upstreams,
            metrics=exposition,
            policy=lambda: ground.policy,
            known=known_targets(ground.config),
            prices=ground.prices,
            pins=pins,
            labels=ground.flow.traits_of,
            schema_faults=lambda: stock.schemas.faults,
            body_bytes_max=ground.config.listen.body_bytes_max,
        )
    )
    return HostGuard(app, allowed_hosts=ground.config.listen.allowed_hosts)
