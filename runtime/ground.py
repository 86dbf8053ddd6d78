"""What every part of a sidecar stands on: clock, store, books and the terms in force."""

import logging
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from ebpf.executor import LocalExecutor
from ebpf.pressure import PressureReader
from governor.denial_tally import DenialTally
from governor.policy import Policy
from governor.pricing import PriceList
from governor.target import CallKind
from memory_store.engine import Durability
from memory_store.search.search import FoundBy
from memory_store.search.vector_index import VectorIndex
from memory_store.store import Store, make_private, open_store
from runtime.adapters import (
    StoreApprovals,
    StoreArchive,
    StoreFlows,
    StoreLedger,
    StoreTurns,
)
from runtime.clock import SystemClock
from runtime.configuration.care import breakers_of
from runtime.configuration.contention import contention_of, divided
from runtime.configuration.flow import flow_approval_of, flow_policy_of
from runtime.configuration.ladder import (
    ask_terms_of,
    expectation_terms_of,
)
from runtime.configuration.model import Config
from runtime.configuration.provider_care import cares_of
from runtime.configuration.translate import archive_bytes_max_of, turn_policy_of
from runtime.gate_key import gate_key
from runtime.in_force import InForce
from runtime.kept_works import StoreWorks
from runtime.memory_ranker import memory_ranker
from runtime.model_gateway.attempts.care import ProviderCares
from runtime.prices import PriceSource
from runtime.routing import Routing, routing_of
from runtime.seat import Seat
from runtime.word_vectors import vectors_if_any
from tool_gateway import builtin
from tool_gateway.approver import Approver
from tool_gateway.books import Books
from tool_gateway.breakers import Breakers
from tool_gateway.guards.flow import FlowGuard
from tool_gateway.guards.gate import ReasoningGate
from tool_gateway.needs import Needing
from tool_gateway.raising import MemoryDesk
from tool_gateway.redaction import ArgumentsKept
from tool_gateway.refusals import Refusals
from tool_gateway.running import RunningCalls
from tool_gateway.sessions import ImplicitSessions
from tool_gateway.turn_gate import TurnGate
from tool_gateway.turnstile import Turnstile

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What the rest of a sidecar stands on."""

    seat: Seat
    in_force: InForce
    clock: SystemClock
    store: Store
    prices: PriceSource
    ledger: StoreLedger
    books: Books
    denials: DenialTally
    turns: TurnGate
    approver: Approver
    memory: MemoryDesk
    needing: Needing
    archive: StoreArchive
    running: RunningCalls
    turnstile: Turnstile
    breakers: Breakers
    provider_cares: ProviderCares
    kept: ArgumentsKept
    flow: FlowGuard
    gate: ReasoningGate
    routing: Routing
    sessions: ImplicitSessions  # what names the sessions of callers that name none

    @property
    def config(self) -> Config:
        """Return the configuration in force."""
        return self.in_force.config

    @property
    def policy(self) -> Policy:
        """Return the policy in force."""
        return self.in_force.policy


async def clean_up(executor: LocalExecutor, ground: Ground) -> None:
    """Reap what an earlier process left behind: children, domains, then its holds."""
    reaped = await executor.sweep()
    # Where others share the store, what is live may be theirs: the reaper ends by time what
    # an earlier process of ours left.
    expired = (
        await ground.store.ledger.expire_due(
            now_ms=ground.clock.now_ms(),
            all_live=ground.seat.is_first and not ground.store.is_shared,
        )
        if ground.seat.worker is None
        else ()
    )
    if reaped or expired:
        logger.warning(
            "an earlier sidecar ended without cleaning up: what was left of %s was killed, %s",
            _counted(reaped, "local command or server", "local commands and servers"),
            _counted(len(expired), "hold was ended", "holds were ended"),
        )


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


async def store_of(
    stack: AsyncExitStack, config: Config, seat: Seat, state_dir: Path, url: SecretStr | None
) -> Store:
    """Return the store: that of the seat, else one of this process's own.

    Raises:
        StoreError: the state directory, or the server, cannot be used.
    """
    if seat.worker is not None and seat.worker.store is not None:
        make_private(state_dir)  # the store is another process's, the directory is its own
        return seat.worker.store
    store = await stack.enter_async_context(
        open_store(
            state_dir,
            url=None if url is None else url.get_secret_value(),
            durability=Durability(config.store.durability),
            archive_bytes_max_per_tenant=archive_bytes_max_of(config),
            finding=FoundBy(
                vectors=vectors_if_any(), ranker=memory_ranker(), index=config.memory.vectors
            ),
        )
    )
    _tell_of_no_index(config, store)
    return store


def _tell_of_no_index(config: Config, store: Store) -> None:
    is_missed = config.memory.vectors is VectorIndex.PGVECTOR
    if is_missed and config.memory.enabled and not store.experience_search.uses_pgvector:
        logger.warning(
            'vectors = "pgvector" is asked for in [memory], but %s; large namespaces are compared '
            "by sketches in memory until then",
            "the database has no extension vector of version 0.7 or later: install pgvector and "
            "run `flyball migrate` as a role that may create it"
            if store.is_shared
            else "the store is SQLite, which has none: name a PostgreSQL server in [store] url",
        )


def ground_of(
    in_force: InForce, *, seat: Seat, store: Store, of_file: PriceList, state_dir: Path
) -> Ground:
    """Return the ground on an open store; nothing is started."""
    config = in_force.config
    clock, is_shared = SystemClock(), seat.is_shared(store)
    ledger = StoreLedger(ledger=store.ledger, calls=store.calls)
    denials, running = DenialTally(), RunningCalls()
    books = Books(ledger=ledger, clock=clock, denials=denials)
    kept, refusals = ArgumentsKept(config.records.arguments), Refusals()
    breakers = Breakers(breakers_of(config.upstream), clock=clock)
    provider_breakers = Breakers(breakers_of(config.provider), clock=clock, kind=CallKind.MODEL)
    routing = routing_of(in_force, store, seat=seat, clock=clock)
    turns = _turn_gate(config, store, books, clock, routing, is_shared=is_shared)
    return Ground(
        seat=seat,
        in_force=in_force,
        clock=clock,
        store=store,
        prices=PriceSource(store.prices, of_file=of_file),
        ledger=ledger,
        books=books,
        denials=denials,
        turns=turns,
        approver=Approver(
            desk=StoreApprovals(store.approvals),
            books=books,
            turns=turns,
            clock=clock,
            arguments_kept=kept,
        ),
        memory=MemoryDesk(
            desk=StoreApprovals(store.approvals),
            books=books,
            clock=clock,
            arguments_kept=kept,
            terms=lambda: ask_terms_of(in_force.config.ladder),
            refusals=refusals,
        ),
        needing=Needing(
            store=StoreWorks(store.works),
            clock=clock,
            terms=lambda: expectation_terms_of(in_force.config.estimates),
            workdir=config.local.workdir or tempfile.gettempdir(),
            refusals=refusals,
        ),
        archive=StoreArchive(store.archive),
        running=running,
        turnstile=_turnstile(config, seat, clock, breakers, provider_breakers),
        breakers=breakers,
        provider_cares=ProviderCares(
            cares_of(config.provider, between=seat.workers), clock=clock, breakers=provider_breakers
        ),
        kept=kept,
        flow=_flow(config, store, clock, turns, is_shared=is_shared),
        routing=routing,
        # Made where no rule has a gate, too: one may come with a reload.
        gate=ReasoningGate(key=gate_key(state_dir), clock=clock)
        if seat.worker is None
        else seat.worker.gate,
        sessions=ImplicitSessions(clock=clock, idle_ms=config.session.idle_s * 1000)
        if seat.worker is None
        else seat.worker.sessions,
    )


def _turnstile(
    config: Config, seat: Seat, clock: SystemClock, breakers: Breakers, provider_breakers: Breakers
) -> Turnstile:
    return Turnstile(
        divided(contention_of(config.contention, config.commons), between=seat.workers),
        clock=clock,
        pressure=PressureReader(elapsed_ms=clock.elapsed_ms),
        # What reads the house's own books is never kept waiting.
        exempt=frozenset({builtin.BUILTIN}),
        breakers=breakers,
        provider_breakers=provider_breakers,
    )


def _turn_gate(
    config: Config,
    store: Store,
    books: Books,
    clock: SystemClock,
    routing: Routing,
    *,
    is_shared: bool,
) -> TurnGate:
    return TurnGate(
        books=books,
        store=StoreTurns(store.turns),
        policy=turn_policy_of(config),
        clock=clock,
        is_shared=is_shared,
        heard=routing.sessions.note_tool,
    )


def _flow(
    config: Config, store: Store, clock: SystemClock, turns: TurnGate, *, is_shared: bool
) -> FlowGuard:
    return FlowGuard(
        policy=flow_policy_of(config.flow),
        approval=flow_approval_of(config.flow),
        store=StoreFlows(store.flows),
        clock=clock,
        is_shared=is_shared,
        keeps_marks=config.memory.enabled,
        class_of=lambda chain: turns.policy.class_of(chain.agent, asked=None),
        archive=StoreArchive(store.archive),
    )
