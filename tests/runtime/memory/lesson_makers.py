"""A store with cases in it, and what the tests of lessons do to it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from governor.amounts import Unit
from governor.call import CallStatus, ToolCall
from governor.experience.experience import Draft
from governor.experience.kinds import ExperienceKind, Standing, TrustLane
from governor.experience.search import Filters, Search
from governor.experience.tokens import tokens_of
from governor.ids import (
    CallId,
    NamespaceId,
    PrincipalId,
    SessionId,
    TaskClass,
    TenantId,
    ToolName,
)
from governor.retrieval.analysis import index_terms, traits_of
from governor.scope import ScopeChain
from governor.target import CallKind, CallTarget
from governor.turn_policy import TurnMode
from memory_store.audit import Actor
from memory_store.engine import Durability
from memory_store.experiences.values import Indexed, Written
from memory_store.identities import Role
from memory_store.store import Store, open_store
from tests.contracts.builders import record, request, used
from tests.memory_store.experiences.makers import draft

TENANT, AGENT = TenantId("acme"), PrincipalId("ada")
CLASS = TaskClass("refunds")
ADMIN = Actor(name="root")


@asynccontextmanager
async def opened(state_dir: Path) -> AsyncIterator[tuple[Store, NamespaceId]]:
    """Yield a store with one tenant, one agent and its namespace."""
    async with open_store(state_dir, durability=Durability.PROCESS) as store:
        await store.tenants.create(TENANT, name="Acme", by=ADMIN, now_ms=1)
        await store.principals.create(
            AGENT, tenant=TENANT, name="Ada", role=Role.AGENT, by=ADMIN, now_ms=1
        )
        made = await store.namespaces.make("agent", tenant=TENANT, owner=AGENT, now_ms=1)
        yield store, made.namespace


def indexed(one: Draft) -> Indexed:
    text = one.content.decode()
    return Indexed(
        draft=one, terms=index_terms(text), traits=traits_of(text), tokens=tokens_of(text)
    )


async def put(
    store: Store,
    space: NamespaceId,
    name: str,
    text: str,
    *,
    kind: ExperienceKind = ExperienceKind.FACT,
    lane: TrustLane = TrustLane.AGENT,
    outcome: float | None = None,
    standing: Standing = Standing.ACTIVE,
    supersedes: str | None = None,
    session: str | None = None,
    call: str | None = None,
    learned_at_ms: int = 1_000_000,
) -> str:
    """Write an experience and return its index."""
    base = draft(
        name,
        space,
        kind=kind,
        lane=lane,
        standing=standing,
        supersedes=supersedes,
        session=session,
        call=call,
        content=text.encode(),
        summary=text[:400],
        learned_at_ms=learned_at_ms,
    ).draft
    whole = replace(base, outcome=outcome, task_class=CLASS, tags=())
    (written,) = await store.experiences.write((indexed(whole),))
    assert isinstance(written, Written)
    return written.experience_id


def call(name: str = "call_1", *, session: str = "ses_1") -> ToolCall:
    return ToolCall(
        call_id=CallId(name),
        tool=ToolName("memory_search"),
        arguments={},
        chain=ScopeChain(tenant=TENANT, agent=AGENT, session=SessionId(session)),
        turn=None,
        task_class=CLASS,
    )


def searching(
    space: NamespaceId, text: str, *, most: int = 3, filters: Filters | None = None
) -> Search:
    return Search(
        tenant=TENANT,
        namespaces=(space,),
        text=text,
        now_ms=2_000_000,
        most=most,
        filters=Filters() if filters is None else filters,
    )


async def ended(
    store: Store,
    session: str,
    calls: list[tuple[str, CallStatus, str]],
    *,
    is_solved: bool,
    agent: str = AGENT,
    at_ms: int = 5_000,
) -> None:
    """Let a session make calls, each a tool, how it ended and why, and say how it went."""
    chain = ScopeChain(tenant=TENANT, agent=PrincipalId(agent), session=SessionId(session))
    for n, (tool, status, detail) in enumerate(calls):
        asked = request({Unit.TOOL_CALLS: 1}, of=chain, now_ms=at_ms, expires_at_ms=at_ms + 9_000)
        await store.ledger.admit(replace(asked, target=CallTarget(kind=CallKind.TOOL, name=tool)))
        done = record(asked, status=status, usage=used({Unit.TOOL_CALLS: 1}))
        done = replace(done, name=tool, detail=detail, ended_at_ms=at_ms + n, arguments_hash=str(n))
        assert done.usage is not None, "it was used"
        await store.ledger.settle(asked.reservation_id, done.usage, done)
    await store.turns.begin(
        chain, task_class=CLASS, mode=TurnMode.UNLIMITED, base_turns=None, now_ms=at_ms
    )
    await store.turns.set_outcome(
        SessionId(session), is_solved=is_solved, by=ADMIN, now_ms=at_ms + 50
    )
