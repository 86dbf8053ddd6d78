"""Outcomes over HTTP: one's own calls alone, once for each source, and whose word it is."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from contracts.builders import chain, record, request
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from governor.access import Access, AccessRule
from governor.ids import CallId, PrincipalId, TenantId
from governor.learning.verdict import Reporter, Source, Verdict
from governor.policy import Policy
from governor.target import CallKind
from memory_store.engine import Durability
from memory_store.sessions import session_id_for
from memory_store.store import Store, open_store
from runtime.clock import SystemClock
from runtime.outcome_front import OutcomeFront
from runtime.router.feedback import Feedback, Report
from tests.memory_store.router_makers import decision, end, ends_of
from tests.tool_gateway.makers import RULE
from tool_gateway.front.mcp_http import CALLER_KEY
from tool_gateway.identity import Caller

pytestmark = pytest.mark.anyio

ADA, BOB, HARNESS = PrincipalId("ada"), PrincipalId("bob"), PrincipalId("harness")
ACME = TenantId("acme")
SESSION = session_id_for(ADA, "one")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def kept(begun_state: Path) -> AsyncIterator[Store]:
    """A store with a model call and a tool call of Ada's, and a choice of which."""
    async with open_store(begun_state, durability=Durability.PROCESS) as store:
        for name, kind in (("call_m", CallKind.MODEL), ("call_t", CallKind.TOOL)):
            ended = record(request({}, of=chain(session=SESSION)))
            await store.calls.record(replace(ended, call_id=CallId(name), kind=kind))
        made = decision("m", call_id=CallId("call_m"), session=SESSION)
        await store.router_log.record((made,), ends_of((made,)), ())
        yield store


def feedback_of(store: Store) -> Feedback:
    return Feedback(
        store.router_log, store.calls, clock=SystemClock(), trusted=lambda: frozenset({HARNESS})
    )


async def posted(
    store: Store,
    body: Any,
    *,
    agent: PrincipalId = ADA,
    pin: str | None = None,
    access: Access | None = None,
    tenant: TenantId = ACME,
) -> httpx.Response:
    policy = Policy(version="v", rules=(), fallback=RULE, access=access or Access())
    front = OutcomeFront(feedback_of(store), policy=lambda: policy)
    app = Starlette(routes=front.routes())

    async def as_caller(scope: Scope, receive: Receive, send: Send) -> None:
        scope[CALLER_KEY] = Caller(tenant=tenant, agent=agent, token_id="t", pin=pin)
        await app(scope, receive, send)

    transport = httpx.ASGITransport(as_caller)
    async with httpx.AsyncClient(transport=transport, base_url="http://agents") as client:
        return await client.post("/v1/outcomes", json=body)


def said(score: float = 1.0, *, call: str = "call_m", source: str = "tests") -> dict[str, Any]:
    return {"call_id": call, "score": score, "source": source}


async def verdict(store: Store) -> Verdict | None:
    (found,) = (await store.router_log.page()).items
    return found.verdict


@pytest.mark.requirement("router.feedback-weighed")
async def test_an_agent_says_what_its_own_call_was_worth_once_for_each_source(
    kept: Store,
) -> None:
    answers = [await posted(kept, said(0.25)) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [200] * 3
    assert answers[0].json() == said(0.25)
    assert await verdict(kept) == Verdict(score=0.25, weight=0.5, is_trusted=False)


async def test_another_agents_call_is_answered_like_an_unknown_one(kept: Store) -> None:
    theirs = await posted(kept, said(), agent=BOB)
    unknown = await posted(kept, said(call="call_nowhere"), agent=BOB)
    elsewhere = await posted(kept, said(), agent=HARNESS, tenant=TenantId("other"))
    tool = await posted(kept, said(call="call_t"))

    assert [one.status_code for one in (theirs, unknown, elsewhere, tool)] == [404] * 4
    assert theirs.text.replace("call_m", "x") == unknown.text.replace("call_nowhere", "x")
    assert await verdict(kept) is None


@pytest.mark.requirement("router.feedback-weighed")
async def test_a_trusted_harness_is_believed_of_the_agents_that_it_runs(kept: Store) -> None:
    await posted(kept, said(0.0))

    answer = await posted(kept, said(1.0), agent=HARNESS)

    assert answer.status_code == 200
    assert await verdict(kept) == Verdict(score=1.0, weight=1.0, is_trusted=True)


async def test_the_key_of_a_run_counts_less_and_for_its_own_session_alone(kept: Store) -> None:
    other = await posted(kept, said(), pin="other")
    own = await posted(kept, said(), pin="one")

    assert (other.status_code, own.status_code) == (404, 200)
    assert await verdict(kept) == Verdict(score=1.0, weight=0.25, is_trusted=False)


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({}, "call_id"),
        (said(1.5), "score"),
        ({**said(), "score": "good"}, "score"),
        ({**said(), "score": "1"}, "score"),
        ({**said(), "score": True}, "score"),
        (said(source="gut"), "source"),
        ({**said(), "more": 1}, "more"),
        ([], ""),
    ],
)
async def test_what_is_no_outcome_is_told_by_its_field(kept: Store, body: Any, names: str) -> None:
    answer = await posted(kept, body)

    assert answer.status_code == 422
    assert names in answer.text


async def test_a_task_ends_by_its_own_outcome_and_not_by_each_run_of_its_tests(
    kept: Store,
) -> None:
    feedback, heard = feedback_of(kept), list[tuple[str, float, bool, float]]()

    def hear(call_id: CallId, score: float, *, ends_task: bool, counts: float) -> None:
        heard.append((call_id, score, ends_task, counts))

    feedback.heard_by = hear
    for source in (Source.TESTS, Source.TASK):
        of_call = Report(call_id=CallId("call_m"), score=1.0, source=source)
        await feedback.hear(of_call, tenant=ACME, agent=ADA)
    later = decision("later", call_id=CallId("call_later"), session=SESSION, at_ms=9_000)
    await kept.router_log.record((later,), (end("later"),), ())
    await feedback.session_ended(SESSION, is_success=True, reporter=Reporter.ADMINISTRATOR, by="r")

    assert heard == [
        ("call_m", 1.0, False, 0.5),
        ("call_m", 1.0, True, pytest.approx(0.3)),
        ("call_later", 1.0, True, pytest.approx(0.6)),
    ]


async def test_a_whole_number_is_a_score(kept: Store) -> None:
    assert (await posted(kept, {**said(), "score": 1})).status_code == 200


async def test_who_may_only_read_judges_nothing(kept: Store) -> None:
    access = Access(rules=(AccessRule(name="look", is_read_only=True),))

    assert (await posted(kept, said(), access=access)).status_code == 403


async def test_what_became_of_a_session_is_spread_over_its_calls(kept: Store) -> None:
    feedback = feedback_of(kept)
    more = tuple(decision(f"m{n}", call_id=CallId(f"call_{n}"), session=SESSION) for n in range(5))
    await kept.router_log.record(more, ends_of(more), ())

    reached = await feedback.session_ended(
        SESSION, is_success=True, reporter=Reporter.AGENT, by="ada"
    )

    verdicts = [one.verdict for one in (await kept.router_log.page()).items]
    assert reached == 6
    assert verdicts == [Verdict(score=1.0, weight=pytest.approx(0.15), is_trusted=False)] * 6
