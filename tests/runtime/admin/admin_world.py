"""One sidecar's administration over a real store, with a clock that tests turn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from governor.admission import AdmissionRequest
from governor.amounts import Amounts, Unit
from governor.call import CallRecord, CallStatus
from governor.denial import Denied
from governor.events import Reserved
from governor.flow.labels import traits_of
from governor.ids import (
    CallId,
    PrincipalId,
    ReservationId,
    SessionId,
    TenantId,
    TierName,
    UpstreamName,
)
from governor.limits import ExecutionLimits
from governor.manifest import Pin
from governor.policy import Match, Policy, ToolRule
from governor.pricing import ListedPrice, ModelPrice, PriceList
from governor.scope import ScopeChain
from governor.target import CallKind, CallTarget
from governor.unified_cost import UnifiedPrices
from governor.usage import Usage
from memory_store.audit import Actor
from memory_store.errors import StoreError
from memory_store.sessions import session_id_for
from memory_store.store import Store
from runtime.adapters import StoreApprovals, StoreLedger, StoreManifests
from runtime.admin import AdminParts
from runtime.budget_words import KnownTargets
from runtime.configuration.memory import MemoryTable, memory_terms_of
from runtime.errors import ConfigError
from runtime.memory.administration.experiences import MemoryAdministration
from runtime.prices import PriceSource
from runtime.reload import Reloaded
from runtime.router.desk import RouterDesk
from runtime.router.feedback import Feedback
from runtime.router.in_force import ModelsInForce
from tests.runtime.router.makers import TERMS, known_unpack
from tests.tool_gateway.turn_makers import a_gate
from tool_gateway.approver import Approver
from tool_gateway.books import Books
from tool_gateway.freezing import SessionFreezer
from tool_gateway.guards.facts import facts_of
from tool_gateway.guards.pins import Pins
from tool_gateway.redaction import ArgumentsKept
from tool_gateway.running import RunningCalls

TENANT = TenantId("acme")
ADMIN = PrincipalId("root")
AGENT = PrincipalId("coder")
FILES = UpstreamName("files")
SESSION = session_id_for(AGENT, "run-1")
BODY_BYTES_MAX = 8192

_LIMITS = ExecutionLimits(
    memory_bytes=None, pids=None, cpu_millis=None, cpu_ms=None, wall_ms=60_000, output_bytes=1024
)
POLICY = Policy(
    version="v1",
    rules=(ToolRule(name="no-shell", match=Match(tool="shell_run"), allow=False, limits=_LIMITS),),
    fallback=ToolRule(name="default", match=Match(), allow=True, limits=_LIMITS),
    unified=UnifiedPrices(tool_call_microusd=5),
)

PRICES_OF_FILE = PriceList(
    prices=(
        ListedPrice(
            provider="openai",
            model="gpt-*",
            price=ModelPrice(input_microusd_per_mtok=30, output_microusd_per_mtok=60),
        ),
    )
)

KNOWN = KnownTargets(
    tools=frozenset({"shell_run"}),
    prefixes=("files__",),
    upstreams=frozenset({"files"}),
    providers=frozenset({"openai"}),
    tiers=frozenset({"low"}),
)


class Clock:
    """A clock that stands still, and names that count."""

    def __init__(self) -> None:
        self.at_ms = 1_700_000_000_000
        self._named = 0

    def now_ms(self) -> int:
        return self.at_ms

    def fresh(self, prefix: str) -> str:
        self._named += 1
        return f"{prefix}_{self._named:04d}"


class Commands:
    """Local commands that are only named: those of `names` run, each note says what was done."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.notes: list[str] = []

    async def freeze(self, name: str) -> bool:
        self.notes.append(f"freeze {name}")
        return name in self.names

    async def thaw(self, name: str) -> bool:
        self.notes.append(f"thaw {name}")
        return name in self.names


async def _no_reload(_: Actor) -> Reloaded:
    raise ConfigError("started without a file")


def parts_for(store: Store, clock: Clock, commands: Commands | None = None) -> AdminParts:
    async def readiness() -> Sequence[str]:
        try:
            await store.check()
        except StoreError as error:
            return [f"store: {error}"]
        return []

    async def upstream(name: str) -> Mapping[str, object] | None:
        return {"name": name, "stderr": ["one line"]} if name == "files" else None

    running = RunningCalls()
    books = Books(ledger=StoreLedger(ledger=store.ledger, calls=store.calls), clock=clock)
    return AdminParts(
        store=store,
        clock=clock,
        running=running,
        approver=Approver(
            desk=StoreApprovals(store.approvals),
            books=books,
            turns=a_gate(books, clock),
            clock=clock,
            arguments_kept=ArgumentsKept.REDACTED,
        ),
        freezer=SessionFreezer(running=running, commands=commands or Commands()),
        readiness=readiness,
        upstreams=lambda: [{"name": "files", "state": "ready", "tools": 3}],
        upstream=upstream,
        providers=lambda: [{"name": "lab", "keys": [{"from": "LAB_KEY", "state": "out"}]}],
        metrics=lambda **_: (
            b"flyball_calls_total 3\n",
            "text/plain; version=1.0.0; charset=utf-8",
        ),
        policy=lambda: POLICY,
        known=lambda: KNOWN,
        prices=PriceSource(store.prices, of_file=PRICES_OF_FILE),
        router=_router_desk(store, clock),
        memory=MemoryAdministration(
            store.experiences,
            store.namespaces,
            searching=store.experience_search,
            clock=clock,
            vectors=lambda: None,
            terms=lambda: memory_terms_of(MemoryTable()),
        ),
        feedback=Feedback(store.router_log, store.calls, clock=clock),
        pins=Pins(
            {FILES: Pin.FIRST_USE}, store=StoreManifests(store.manifests, now_ms=clock.now_ms)
        ),
        labels=lambda entry: traits_of(facts_of(entry)),
        reload=_no_reload,
        body_bytes_max=BODY_BYTES_MAX,
    )


def _router_desk(store: Store, clock: Clock) -> RouterDesk:
    """Return the desk of a router whose models are JSON of the qualities of tiers."""
    models = ModelsInForce(
        store.router_shelf,
        unpack=known_unpack(),
        terms=lambda: TERMS.online,
        has_shadow=lambda: True,
    )
    return RouterDesk(
        store.router_log,
        store.router_shelf,
        models,
        clock=clock,
        unpack=known_unpack(),
        terms=lambda: TERMS,
        tiers=[TierName("low"), TierName("high")],
    )


@dataclass(frozen=True, kw_only=True)
class World:
    """A running interface, and the secrets of an administrator and of an agent."""

    client: httpx.AsyncClient
    parts: AdminParts
    clock: Clock
    commands: Commands
    admin_secret: str
    agent_secret: str
    state_dir: Path

    async def ask(
        self, method: str, path: str, json: Any = None, *, token: str | None = None, **more: Any
    ) -> httpx.Response:
        """Send a request as the administrator, or with another token."""
        headers = {"Authorization": f"Bearer {token or self.admin_secret}"}
        headers |= more.pop("headers", {})
        if json is not None:
            more["json"] = json
        prefix = "" if path in {"/healthz", "/readyz", "/metrics"} else "/admin/v1"
        return await self.client.request(method, prefix + path, headers=headers, **more)

    async def get(self, path: str, **more: Any) -> httpx.Response:
        return await self.ask("GET", path, **more)

    async def post(self, path: str, json: Any = None, **more: Any) -> httpx.Response:
        return await self.ask("POST", path, json, **more)

    async def put(self, path: str, json: Any = None, **more: Any) -> httpx.Response:
        return await self.ask("PUT", path, json, **more)

    async def delete(self, path: str, **more: Any) -> httpx.Response:
        return await self.ask("DELETE", path, **more)

    async def admit(
        self, call_id: str, *, session: SessionId = SESSION, agent: PrincipalId = AGENT
    ) -> Reserved | Denied:
        """Hold one tool call, as the gateway would."""
        decision = await self.parts.store.ledger.admit(
            AdmissionRequest(
                reservation_id=ReservationId(f"res-{call_id}"),
                call_id=CallId(call_id),
                target=CallTarget(kind=CallKind.TOOL, name="files__read", upstream="files"),
                chain=ScopeChain(tenant=TENANT, agent=agent, session=session),
                session_name="run-1",
                estimate=Amounts({Unit.TOOL_CALLS: 1, Unit.COST_MICROUSD: 50}),
                turn=None,
                now_ms=self.clock.now_ms(),
                expires_at_ms=self.clock.now_ms() + 60_000,
            )
        )
        assert isinstance(decision, Reserved | Denied)
        return decision

    async def run_call(self, call_id: str, *, session: SessionId = SESSION) -> None:
        """Run one tool call to its end, as the gateway would."""
        reserved = await self.admit(call_id, session=session)
        assert isinstance(reserved, Reserved)
        chain = reserved.reservation.chain
        usage = Usage(
            measured=Amounts({Unit.TOOL_CALLS: 1, Unit.COST_MICROUSD: 40, Unit.WALL_MS: 7}),
            unmeasured={Unit.CPU_MS: "the upstream runs elsewhere"},
        )
        record = CallRecord(
            call_id=CallId(call_id),
            kind=CallKind.TOOL,
            name="files__read",
            chain=chain,
            turn=None,
            status=CallStatus.OK,
            started_at_ms=self.clock.now_ms(),
            ended_at_ms=self.clock.now_ms() + 7,
            arguments='{"path": "[redacted]"}',
            backend="files",
            rule="default",
            policy_version="v1",
            estimate=reserved.amount,
            usage=usage,
        )
        await self.parts.store.ledger.settle(reserved.reservation.reservation_id, usage, record)
