"""A model front on a ledger in memory, before a provider that does as a test says."""

import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
from pydantic import SecretStr
from starlette.types import ASGIApp, Receive, Scope, Send

from governor.amounts import Amounts, Unit
from governor.breaker import BreakerTerms
from governor.budget import Budget
from governor.call import CallRecord
from governor.events import Released
from governor.ids import BudgetId, PrincipalId, ReservationId, SessionId, TenantId, TierName
from governor.pricing import ModelPrice, PriceList
from governor.providing.key_ring import KeyTerms
from governor.retrying import RetryTerms
from governor.scope import ScopeChain, ScopeKind
from governor.target import CallKind
from governor.tiers import ModelTier, TierRule
from governor.tracker import Tracker
from governor.turn_policy import TurnPolicy
from governor.window import Lifetime, Window
from memory_store.errors import UnknownReservationError
from memory_store.testing import MemoryLedger
from runtime.model_gateway.attempts.care import CareTerms, ProviderCares
from runtime.model_gateway.attempts.staying import Staying
from runtime.model_gateway.choosing import Choosing
from runtime.model_gateway.compaction.compacting import Compacting, Compactor
from runtime.model_gateway.front import WIRES, ModelFront, Models
from runtime.model_gateway.gateway import OUTPUT_TOKENS_MIN, ModelGateway
from runtime.model_gateway.kept_answers import KeptAnswers, KeptPolicy
from runtime.model_gateway.ports import TierRouter
from runtime.model_gateway.providers.pool import ProviderPool
from runtime.model_gateway.providers.spec import ProviderSpec, Timeouts
from runtime.model_gateway.translation.translated import by_name
from runtime.strategies import Strategies
from tests.runtime.model_gateway.provider_server import ProviderServer, provider_server
from tests.tool_gateway.turn_makers import a_gate
from tool_gateway.books import Books
from tool_gateway.breakers import Breakers
from tool_gateway.contention import Contention
from tool_gateway.errors import HoldEndedError
from tool_gateway.front.mcp_http import CALLER_KEY
from tool_gateway.identity import CallContext, Caller
from tool_gateway.redaction import ArgumentsKept
from tool_gateway.running import RunningCalls
from tool_gateway.turnstile import Turnstile

TENANT = TenantId("acme")
AGENT = PrincipalId("ada")
KEY = "sk-provider-0123456789abcdef"
CLIENT_TOKEN = "fbt_client-0123456789abcdef"
CHAT = "/v1/chat/completions"

KEPT_NOTHING = KeptPolicy()

Handler = Callable[[httpx.Request], Awaitable[httpx.Response]]
ASKED_ONCE = CareTerms(retry=RetryTerms(retries=0))


def price(*, input_usd: int, output_usd: int) -> ModelPrice:
    """Return a price in whole dollars per million tokens: so many micro-dollars per token."""
    return ModelPrice(
        input_microusd_per_mtok=input_usd * 1_000_000,
        output_microusd_per_mtok=output_usd * 1_000_000,
    )


ONE_AND_TWO = price(input_usd=1, output_usd=2)


def tier(
    name: str = "low",
    *,
    model: str = "small-1",
    priced: ModelPrice | None = ONE_AND_TWO,
    output_tokens_max: int = 100,
) -> ModelTier:
    return ModelTier(
        name=TierName(name),
        provider="lab",
        model=model,
        price=priced,
        output_tokens_max=output_tokens_max,
        price_version="list-1",
    )


def completion(usage: object = None, **more: object) -> dict[str, object]:
    """Return a provider's answer; by default it used ten tokens in and five out."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "small-1-2026",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hello"}}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5} if usage is None else usage,
        **more,
    }


async def answer_well(_request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, json=completion())


class Clock:
    """A clock that ticks a millisecond at each look."""

    def __init__(self) -> None:
        self._ticks = itertools.count(1_000_000)
        self._fresh = itertools.count(1)

    def now_ms(self) -> int:
        return next(self._ticks)

    def elapsed_ms(self) -> int:
        return next(self._ticks)

    def below(self, _bound: int) -> int:
        return 0

    def skip(self, elapsed_ms: int) -> None:
        """Let so much time pass between two looks."""
        self._ticks = itertools.count(next(self._ticks) + elapsed_ms)

    def fresh(self, prefix: str) -> str:
        return f"{prefix}_{next(self._fresh)}"


class Ledger(MemoryLedger):
    """The ledger in memory with the call log beside it, as the gateway sees the two."""

    async def record(self, record: CallRecord) -> None:
        self.records.append(record)

    async def release(self, reservation_id: ReservationId, record: CallRecord) -> Released:
        try:
            return await super().release(reservation_id, record)
        except UnknownReservationError as error:
            raise HoldEndedError from error

    async def replay_of(self, call_id: str) -> None:
        return None

    async def standing(self, chain: ScopeChain, *, now_ms: int) -> tuple[Mapping[str, object], ...]:
        views = await self.balances(tenant=chain.tenant, now_ms=now_ms)
        return tuple(
            {
                "budget_id": view.budget_id,
                "scope": view.scope.value,
                "unit": view.unit.value,
                "limit": view.limit,
                "used": view.used,
                "reserved": view.reserved,
            }
            for view in views
        )

    async def spent(self, unit: Unit = Unit.COST_MICROUSD) -> tuple[int, int]:
        """Return what is used and what is still held of a unit."""
        views = await self.balances(tenant=TENANT, now_ms=1_000_000)
        mine = [view for view in views if view.unit is unit]
        return sum(view.used for view in mine), sum(view.reserved for view in mine)


@dataclass
class House:
    """Everything that a test looks at or turns."""

    client: httpx.AsyncClient
    app: ASGIApp
    ledger: Ledger
    running: RunningCalls
    turnstile: Turnstile
    requests: list[httpx.Request]
    server: ProviderServer
    cares: ProviderCares
    prices: PriceList = field(default_factory=PriceList)
    handler: Handler = answer_well
    headers: dict[str, str] = field(default_factory=dict)
    clock: Clock = field(default_factory=Clock)
    models: Models | None = None

    def budget(self, window: Window | None = None, **limits: int) -> None:
        self.ledger.put_budget(
            Budget(
                budget_id=BudgetId("money"),
                tenant=TENANT,
                scope=ScopeKind.TENANT,
                subject=None,
                limits=Amounts({Unit(unit): amount for unit, amount in limits.items()}),
                window=Lifetime() if window is None else window,
            )
        )

    def provider_answers(self, status: int = 200, **response: Any) -> None:
        async def answer(_request: httpx.Request) -> httpx.Response:
            return httpx.Response(status, **response)

        self.handler = answer

    def provider_raises(self, error: Exception) -> None:
        async def fail(_request: httpx.Request) -> httpx.Response:
            raise error

        self.handler = fail

    async def chat(
        self, text: str = "hi", *, headers: Mapping[str, str] | None = None, **fields: object
    ) -> httpx.Response:
        body = {"model": "low", "messages": [{"role": "user", "content": text}], **fields}
        return await self.client.post(CHAT, json=body, headers=headers)

    @property
    def sent(self) -> dict[str, Any]:
        """Return the body that the provider got last."""
        return json.loads(self.requests[-1].content)

    @property
    def record(self) -> CallRecord:
        """Return the last record that was kept."""
        return self.ledger.records[-1]


async def session_of(caller: Caller, context: CallContext) -> tuple[str, ScopeChain]:
    name = context.session_name or "implicit"
    return name, ScopeChain(
        tenant=caller.tenant, agent=caller.agent, session=SessionId(f"ses_{name}")
    )


def authenticated(app: ASGIApp) -> ASGIApp:
    """Return `app` behind a middleware that knows one caller."""

    async def with_caller(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope[CALLER_KEY] = Caller(tenant=TENANT, agent=AGENT, token_id="tok_1")
        await app(scope, receive, send)

    return with_caller


@dataclass(frozen=True, kw_only=True)
class Treated:
    """How the providers are treated: by default each is asked once, and has no breaker.

    `keys` are the pool of the first provider, `others` where those beside it are, by name.
    """

    keys: tuple[str, ...] = ()
    care: CareTerms = ASKED_ONCE
    breaker: BreakerTerms | None = None
    others: Mapping[str, str] = field(default_factory=dict)

    def on(self, clock: Clock) -> tuple[Breakers, ProviderCares]:
        """Return what is known of the providers at the start."""
        names, pooled = ("lab", *self.others), [f"KEY_{at}" for at, _ in enumerate(self.keys)]
        keys = tuple(KeyTerms(name=name) for name in pooled) or self.care.keys
        terms = {} if self.breaker is None else dict.fromkeys(names, self.breaker)
        breakers = Breakers(terms, clock=clock, kind=CallKind.MODEL)
        cares = {**dict.fromkeys(names, self.care), "lab": replace(self.care, keys=keys)}
        return breakers, ProviderCares(cares, clock=clock, breakers=breakers)


TREATED = Treated()


@asynccontextmanager
async def open_house(
    *,
    tiers: tuple[ModelTier, ...] | None = None,
    rules: tuple[TierRule, ...] = (),
    kept: ArgumentsKept = ArgumentsKept.REDACTED,
    timeout_ms: int = 60_000,
    base_url: str | None = None,
    key: str = KEY,
    tracker: Tracker = Tracker.OFF,
    admin_contact: str | None = None,
    turns: TurnPolicy | None = None,
    contention: Contention | None = None,
    timeouts: Timeouts | None = None,
    output_tokens_min: int = OUTPUT_TOKENS_MIN,
    router: TierRouter | None = None,
    treated: Treated = TREATED,
    answers: KeptPolicy = KEPT_NOTHING,
    strategies: Strategies | None = None,
    compactor: Compactor | None = None,
) -> AsyncIterator[House]:
    """Yield a house; with a `base_url` its provider is a real server there."""
    ledger, running, clock, requests = Ledger(), RunningCalls(), Clock(), list[httpx.Request]()
    breakers, cares = treated.on(clock)
    turnstile = Turnstile(contention or Contention(), clock=clock, provider_breakers=breakers)

    async def handle(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return await house.handler(request)

    async with provider_server(handle) as server:
        spec = ProviderSpec(
            name="lab",
            base_url=base_url or f"http://127.0.0.1:{server.port}/v1",
            api_key=SecretStr(key),
            timeouts=timeouts or Timeouts(whole_ms=timeout_ms),
            api_keys=tuple(SecretStr(one) for one in treated.keys),
        )
        books = Books(ledger=ledger, clock=clock)
        choosing = Choosing(
            tiers=(tier(),) if tiers is None else tiers,
            rules=rules,
            prices=lambda: house.prices,
            books=books,
            staying=Staying(cares, clock=clock),
            wires=by_name(WIRES),
            router=router,
        )
        async with ProviderPool([spec, *more_providers(treated.others)]) as pool:
            models = ModelGateway(
                books=books,
                turns=a_gate(books, clock, policy=turns),
                clock=clock,
                choosing=choosing,
                providers=pool,
                cares=cares,
                running=running,
                arguments_kept=kept,
                policy_version=lambda: "v1",
                tracker=tracker,
                admin_contact=admin_contact,
                turnstile=turnstile,
                output_tokens_min=output_tokens_min,
                kept_answers=KeptAnswers(answers),
                preparer=None if strategies is None else strategies.preparer,
            )
            app = authenticated(front := front_of(models, strategies, compactor, clock))
            async with front.running(), client_of(app) as client:
                house = House(client, app, ledger, running, turnstile, requests, server, cares)
                house.clock, house.models = clock, front.gateway
                yield house


def front_of(
    gateway: ModelGateway,
    strategies: Strategies | None,
    compactor: Compactor | None,
    clock: Clock,
) -> ModelFront:
    """Return the front of a gateway, with whoever stands between the two."""
    models: Models = gateway
    if strategies is not None:
        models = strategies.around(gateway, fresh=clock.fresh)
    if compactor is not None:
        models = Compacting(models, compactor)
    return ModelFront(models, session_of=session_of)


def more_providers(others: Mapping[str, str]) -> list[ProviderSpec]:
    """Return the providers beside the first."""
    return [
        ProviderSpec(
            name=name,
            base_url=base_url,
            api_key=SecretStr(f"sk-{name}-0123456789abcdef"),
            timeouts=Timeouts(whole_ms=60_000),
        )
        for name, base_url in others.items()
    ]


def client_of(app: ASGIApp) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app),
        base_url="http://flyball.test",
        headers={"Authorization": f"Bearer {CLIENT_TOKEN}"},
    )
