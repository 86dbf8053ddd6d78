import json
from dataclasses import replace

import pytest

from governor.ids import PrincipalId, SessionId, TenantId, UpstreamName
from governor.policy import Match, Policy
from tests.governor.makers import budget
from tests.tool_gateway.finding_makers import a_finder
from tests.tool_gateway.makers import ENTRY, RULE, TOOL, House
from tool_gateway.catalog import ToolEntry
from tool_gateway.discovery.definitions import CALL
from tool_gateway.errors import UnknownSessionError, UnknownToolError
from tool_gateway.gateway import Gateway
from tool_gateway.identity import CallContext, Caller
from tool_gateway.ports import Backend, SessionLineage
from tool_gateway.sessions import ImplicitSessions
from tool_gateway.stock import Stock

ADA = Caller(tenant=TenantId("acme"), agent=PrincipalId("ada"), token_id="tok_ada")
BOB = Caller(tenant=TenantId("acme"), agent=PrincipalId("bob"), token_id="tok_bob")
SILENT = CallContext(session_name=None, turn=None, idempotency_key=None)
NAMED = CallContext(session_name="one", turn=None, idempotency_key="k")
TYPED = replace(
    ENTRY,
    definition={
        "name": "read",
        "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}},
        "outputSchema": {"type": "object"},
    },
)


def gateway(
    house: House,
    backends: dict[UpstreamName, Backend] | None = None,
    *,
    offered: ToolEntry = TYPED,
    is_beneath: SessionLineage | None = None,
) -> Gateway:
    stock = Stock(())
    stock.replace([offered])
    return Gateway(
        stock=stock,
        pipeline=house.pipeline,
        books=house.books,
        backends={ENTRY.backend: house.backend} if backends is None else backends,
        policy=lambda: house.policy,
        sessions=ImplicitSessions(clock=house.clock, idle_ms=1_000),
        session_naming=lambda agent, name: SessionId(f"{agent}/{name}"),
        is_beneath=is_beneath,
        clock=house.clock,
        finder=a_finder(stock=stock, house=house),
    )


@pytest.mark.anyio
async def test_half_a_surrogate_pair_is_refused_before_anything_is_held() -> None:
    house = House(budget("calls", tool_calls=10))
    arguments = {"text": json.loads('"\\ud800"')}

    answer = await gateway(house).call(ADA, SILENT, tool=TYPED.exposed, arguments=arguments)

    assert answer.is_error
    assert "half of a surrogate pair" in (answer.sole_text or "")
    assert house.backend.ran == []
    assert house.ledger.remaining() == 10


@pytest.mark.anyio
@pytest.mark.requirement("input.unknown-tool")
async def test_an_unknown_tool_is_refused_and_nothing_is_reserved() -> None:
    house = House(budget("calls", tool_calls=10))

    with pytest.raises(UnknownToolError):
        await gateway(house).call(ADA, SILENT, tool="nope", arguments={})

    assert house.ledger.events == []


@pytest.mark.anyio
async def test_an_upstreams_tool_by_the_name_of_the_houses_caller_of_tools_is_its_own() -> None:
    house = House(rule=replace(RULE, match=Match()))
    named = replace(ENTRY, exposed=CALL)

    await gateway(house, offered=named).call(ADA, SILENT, tool=CALL, arguments={"name": "x"})

    (call,) = house.backend.ran
    assert (call.tool, call.arguments) == (CALL, {"name": "x"})


@pytest.mark.anyio
async def test_a_tool_whose_backend_is_switched_off_is_refused() -> None:
    with pytest.raises(UnknownToolError, match="switched off"):
        await gateway(House(), {}).call(ADA, SILENT, tool=TOOL, arguments={})


@pytest.mark.anyio
@pytest.mark.requirement("input.wrong-types")
async def test_wrong_arguments_are_told_to_the_model_and_nothing_is_reserved() -> None:
    house = House(budget("calls", tool_calls=10))

    result = await gateway(house).call(ADA, SILENT, tool=TOOL, arguments={"path": 5})

    assert result.is_error
    assert "arguments['path']: 5 is not of type 'string'" in (result.sole_text or "")
    assert house.ledger.events == []
    assert house.backend.ran == []


@pytest.mark.anyio
async def test_a_call_carries_the_chain_the_key_and_its_arguments() -> None:
    house = House()

    await gateway(house).call(ADA, NAMED, tool=TOOL, arguments={"path": "a"})

    (call,) = house.backend.ran
    assert tuple(scope.subject for scope in call.chain) == ("acme", "ada", "ada/one")
    assert call.idempotency is not None
    assert call.idempotency.key == "k"
    assert call.arguments == {"path": "a"}


@pytest.mark.anyio
async def test_the_same_name_is_another_session_for_another_agent() -> None:
    front = gateway(House())

    _, ours = await front.session_of(ADA, NAMED)
    _, theirs = await front.session_of(BOB, NAMED)

    assert ours.session != theirs.session


@pytest.mark.anyio
async def test_a_caller_that_names_no_session_stays_in_one() -> None:
    front = gateway(House())

    first, second = [await front.session_of(ADA, SILENT) for _ in range(2)]

    assert first == second
    assert first != await front.session_of(BOB, SILENT)


@pytest.mark.anyio
@pytest.mark.requirement("run.key-is-pinned")
async def test_a_pinned_caller_is_in_its_session_or_beneath_it_and_in_no_other() -> None:
    pinned = replace(ADA, pin="mine")

    async def is_beneath(session: SessionId, *, above: SessionId) -> bool:
        return (session, above) == ("ada/child", "ada/mine")

    house = House()
    front = gateway(house, is_beneath=is_beneath)

    at_home = [
        await front.session_of(pinned, replace(NAMED, session_name=name))
        for name in (None, "mine", "child")
    ]

    assert [name for name, _ in at_home] == ["mine", "mine", "child"]
    assert [chain.session for _, chain in at_home] == ["ada/mine", "ada/mine", "ada/child"]
    with pytest.raises(UnknownSessionError):
        await front.call(pinned, NAMED, tool=TOOL, arguments={"path": "a"})
    assert house.backend.ran == []


def test_only_what_the_policy_allows_is_listed() -> None:
    house = House()
    hidden = replace(RULE, match=Match(agent="bob"), allow=False)
    plain = replace(RULE, drop_output_schema=True)
    house.policy = Policy(version="v2", rules=(hidden, plain), fallback=RULE)

    (listed,) = gateway(house).tools_for(ADA)

    assert listed.entry == TYPED
    assert not listed.with_output_schema
    assert gateway(house).tools_for(BOB) == ()
