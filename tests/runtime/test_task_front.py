"""Who may say what a session is for, and when."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from governor.flow.labels import Label
from governor.flow.policy import FlowPolicy
from governor.ids import PrincipalId, TenantId, ToolName
from governor.policy import ApprovalTerms, Policy
from memory_store.audit import Actor
from memory_store.engine import Durability
from memory_store.identities import Role
from memory_store.sessions import session_id_for
from memory_store.store import Store, open_store
from runtime.adapters import StoreFlows
from runtime.clock import SystemClock
from runtime.task_front import TaskFront
from tests.tool_gateway.makers import RULE
from tool_gateway.front.mcp_http import CALLER_KEY
from tool_gateway.guards.flow import FlowGuard
from tool_gateway.identity import Caller

pytestmark = pytest.mark.anyio

POLICY = Policy(version="v", rules=(), fallback=RULE)
TENANT, ADA = TenantId("acme"), PrincipalId("ada")
BY = Actor(name="root")
CODER = session_id_for(ADA, "run/1")


class Front:
    """The route over a real store, for whoever the test says is calling."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def post(
        self,
        body: dict[str, Any],
        *,
        by: str = "ada",
        launchers: tuple[str, ...] = (),
        is_read_only: bool = False,
        pin: str | None = None,
    ) -> httpx.Response:
        clock = SystemClock()
        guard = FlowGuard(
            policy=FlowPolicy(),
            approval=ApprovalTerms(wait_ms=0, ttl_ms=1),
            store=StoreFlows(self.store.flows),
            clock=clock,
        )
        front = TaskFront(
            guard, self.store, launchers=launchers, clock=clock, policy=lambda: POLICY
        )
        app = Starlette(routes=front.routes())

        async def as_caller(scope: Scope, receive: Receive, send: Send) -> None:
            scope[CALLER_KEY] = Caller(
                tenant=TENANT,
                agent=PrincipalId(by),
                token_id="t",
                is_read_only=is_read_only,
                pin=pin,
            )
            await app(scope, receive, send)

        transport = httpx.ASGITransport(as_caller)
        async with httpx.AsyncClient(transport=transport, base_url="http://agents") as client:
            return await client.post("/sessions/v1/run/1/task", json=body)

    async def words(self) -> str | None:
        return (await self.store.flows.known(CODER)).words


@pytest.fixture
async def front(begun_state: Path) -> AsyncIterator[Front]:
    async with open_store(begun_state, durability=Durability.PROCESS) as store:
        for tenant, agents in (("acme", ("ada", "launcher")), ("globex", ("eve",))):
            await store.tenants.create(TenantId(tenant), name=tenant, by=BY, now_ms=1)
            for agent in agents:
                await store.principals.create(
                    PrincipalId(agent),
                    tenant=TenantId(tenant),
                    name=agent,
                    role=Role.AGENT,
                    by=BY,
                    now_ms=1,
                )
        yield Front(store)


@pytest.mark.requirement("flow.words-are-trusted")
async def test_a_task_is_kept_once(front: Front) -> None:
    first = await front.post({"task": "Send Zoe the minutes", "task_class": "mail"})
    second = await front.post({"task": "Send Mallory the minutes"})

    assert (first.status_code, second.status_code) == (201, 409)
    assert first.json() == {"session": CODER, "agent": "ada", "task_class": "mail"}
    assert await front.words() == "Send Zoe the minutes"


@pytest.mark.requirement("run.key-is-pinned")
@pytest.mark.parametrize("launchers", [(), ("ada",)])
@pytest.mark.parametrize("pin", ["run/1", "run/2"])
async def test_the_key_of_an_agent_says_no_users_words(
    front: Front, launchers: tuple[str, ...], pin: str
) -> None:
    answer = await front.post({"task": "Send Mallory all"}, launchers=launchers, pin=pin)

    assert answer.status_code == 403
    assert await front.words() is None


@pytest.mark.requirement("flow.words-are-trusted")
async def test_it_is_too_late_once_others_were_heard(front: Front) -> None:
    await front.store.flows.mark(CODER, {Label.SEES_UNTRUSTED: ToolName("t")}, now_ms=1)

    answer = await front.post({"task": "Send Mallory the minutes"})

    assert answer.status_code == 409
    assert await front.words() is None


@pytest.mark.requirement("flow.words-are-trusted")
async def test_where_launchers_are_named_nobody_else_is_believed(front: Front) -> None:
    named = ("launcher",)
    own = await front.post({"task": "mine"}, launchers=named)
    stranger = await front.post({"task": "no", "agent": "eve"}, by="launcher", launchers=named)
    launched = await front.post({"task": "yes", "agent": "ada"}, by="launcher", launchers=named)

    assert (own.status_code, stranger.status_code, launched.status_code) == (403, 404, 201)
    assert await front.words() == "yes"


@pytest.mark.requirement("access.read-only")
async def test_who_may_only_read_says_only_what_its_own_session_is_for(front: Front) -> None:
    named = ("launcher",)
    launched = await front.post(
        {"task": "no", "agent": "ada"}, by="launcher", launchers=named, is_read_only=True
    )
    own = await front.post({"task": "mine"}, is_read_only=True)

    assert (launched.status_code, own.status_code) == (403, 201)
    assert launched.headers["www-authenticate"] == 'Bearer error="insufficient_scope"'
    assert await front.words() == "mine"


async def test_an_agent_cannot_speak_for_another(front: Front) -> None:
    answer = await front.post({"task": "no", "agent": "ada"}, by="launcher")

    assert answer.status_code == 403
    assert await front.words() is None


@pytest.mark.parametrize("body", [{}, {"task": ""}, {"task": "x" * 20_000}, {"task": "x", "a": 1}])
async def test_a_body_that_is_no_task_is_refused(front: Front, body: dict[str, Any]) -> None:
    assert (await front.post(body)).status_code == 422
