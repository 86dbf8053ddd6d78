"""What is kept from a caller is neither shown nor run, and the denial says why."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from governor.access import Access, AccessRule, Choice
from governor.content import ContentTerms
from governor.ids import SessionId, ToolName, UpstreamName
from governor.policy import Match, Policy, ToolRule
from tests.governor.makers import budget
from tests.tool_gateway.finding_makers import a_finder
from tests.tool_gateway.makers import RULE, FakeBackend, House
from tests.tool_gateway.test_gateway import ADA, BOB, SILENT
from tool_gateway.builtin import ANSWER_ENTRY, ENTRIES
from tool_gateway.catalog import HOUSE, ToolEntry
from tool_gateway.errors import UnknownToolError
from tool_gateway.gateway import Gateway
from tool_gateway.identity import CallContext, read_context
from tool_gateway.results import DENIAL_META, ToolResult
from tool_gateway.sessions import ImplicitSessions
from tool_gateway.stock import Stock

pytestmark = pytest.mark.anyio
READING = replace(SILENT, is_read_only=True)
READ_ONLY = AccessRule(name="look", is_read_only=True)


def tool(name: str, *, hint: bool | None = None, is_approved: bool = True) -> ToolEntry:
    annotations = {} if hint is None else {"annotations": {"readOnlyHint": hint}}
    return ToolEntry(
        exposed=ToolName(f"files__{name}"),
        original=name,
        backend=UpstreamName("files"),
        definition={
            "name": name,
            "inputSchema": {"type": "object", "required": ["path"]},
            **annotations,
        },
        is_approved=is_approved,
    )


READ, WRITE, SILENT_TOOL = tool("read", hint=True), tool("write", hint=False), tool("stat")
SHELL = replace(tool("x"), exposed=ToolName("shell_run"), backend=UpstreamName("local"))
TOOLS = (READ, WRITE, SILENT_TOOL, SHELL, tool("claims", hint=True, is_approved=False))


@dataclass
class Guarded:
    """A gateway with `TOOLS`, where some are kept out and access rules hold."""

    access: tuple[AccessRule, ...] = ()
    rules: tuple[ToolRule, ...] = (RULE,)
    kept_out: Mapping[str, ToolEntry] = field(default_factory=dict)
    house: House = field(default_factory=lambda: House(budget("calls", tool_calls=10)))

    @property
    def gateway(self) -> Gateway:
        house = self.house
        house.policy = Policy(
            version="v", rules=self.rules, fallback=RULE, access=Access(rules=self.access)
        )
        stock = Stock((*ENTRIES, ANSWER_ENTRY))
        stock.replace(TOOLS)
        backends = dict.fromkeys(("files", "local"), house.backend)
        return Gateway(
            stock=stock,
            pipeline=house.pipeline,
            books=house.books,
            backends={**backends, HOUSE: FakeBackend(name=HOUSE)},
            policy=lambda: house.policy,
            sessions=ImplicitSessions(clock=house.clock, idle_ms=1_000),
            session_naming=lambda agent, name: SessionId(f"{agent}/{name}"),
            clock=house.clock,
            finder=a_finder(stock=stock, house=house),
            kept_out=self.kept_out.get,
        )

    def shown(self, context: CallContext = SILENT, caller: Any = ADA) -> set[str]:
        listed = self.gateway.tools_for(caller, is_read_only=context.is_read_only)
        return {at.entry.exposed for at in listed if not at.entry.is_own}

    async def call(
        self, name: str, context: CallContext = SILENT, /, **arguments: object
    ) -> ToolResult:
        return await self.gateway.call(ADA, context, tool=name, arguments=arguments)


def denial_of(result: ToolResult) -> Mapping[str, Any]:
    denial = result.meta[DENIAL_META]
    assert isinstance(denial, dict)
    return denial


@pytest.mark.requirement("access.keeps-from-whom-it-says")
async def test_a_tool_that_an_access_rule_keeps_is_neither_listed_nor_found_nor_run() -> None:
    rule = AccessRule(name="readers", agent="ada", tools=Choice(deny=("*__write",)))
    guarded = Guarded(access=(rule,))
    gateway = guarded.gateway
    _, chain = await gateway.session_of(ADA, SILENT)

    result = await guarded.call("files__write", path="a")

    assert "files__write" not in guarded.shown()
    assert "files__write" in guarded.shown(caller=BOB)
    finder = gateway._finder
    assert finder.described(chain, "files__write") is None
    found = await finder.search(chain, "write files", limit=10)
    assert WRITE.exposed not in {entry.exposed for entry in found}
    assert denial_of(result)["reason"] == "policy_denied"
    assert "readers" in denial_of(result)["remedy"]["text"]
    assert guarded.house.ledger.events == []
    assert guarded.house.record.denial == "policy_denied"


async def test_a_list_of_tools_leaves_the_houses_own_ones() -> None:
    guarded = Guarded(access=(AccessRule(name="few", tools=Choice(allow=("files__read",))),))

    listed = guarded.gateway.tools_for(ADA)

    assert guarded.shown() == {"files__read"}
    assert "governor_status" in {at.entry.exposed for at in listed}


async def test_of_a_tool_that_is_kept_not_even_the_arguments_are_talked_about() -> None:
    guarded = Guarded(access=(AccessRule(name="none", tools=Choice(allow=())),))

    result = await guarded.call("files__read", wrong=1)

    assert denial_of(result)["reason"] == "policy_denied"
    assert "path" not in str(result.content)


@pytest.mark.requirement("access.read-only")
@pytest.mark.parametrize("by_request", [True, False])
async def test_read_only_leaves_what_is_approved_as_only_reading(*, by_request: bool) -> None:
    guarded = Guarded(access=() if by_request else (READ_ONLY,))
    context = READING if by_request else SILENT

    refused = await guarded.call("files__write", context, path="a")
    ran = await guarded.call("files__read", context, path="a")

    assert guarded.shown(context) == {"files__read"}
    assert denial_of(refused)["reason"] == "read_only"
    told = denial_of(refused)["remedy"]["text"]
    assert ("this request may only read" if by_request else "(rule 'look')") in told
    assert not ran.is_error
    assert [call.tool for call in guarded.house.backend.ran] == ["files__read"]


@pytest.mark.requirement("access.read-only")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("governor_spawn", {"name": "child", "limits": {"tool_calls": 1}}),
        ("governor_close", {"name": "child"}),
        ("governor_extend", {"reason": "more"}),
    ],
)
async def test_read_only_keeps_what_changes_sessions_and_their_turns(
    name: str, arguments: dict[str, object]
) -> None:
    guarded = Guarded()

    refused = await guarded.call(name, READING, **arguments)

    assert denial_of(refused)["reason"] == "read_only"
    listed = guarded.gateway.tools_for(ADA, is_read_only=True)
    assert {at.entry.exposed for at in listed if at.entry.is_own} == {
        *("governor_status", "governor_answer", "memory_read"),
        *("memory_search", "memory_expand", "memory_context"),
        *("tools_search", "tools_describe", "tools_call"),
    }


@pytest.mark.requirement("access.read-only")
async def test_the_operators_word_lets_a_tool_through_read_only() -> None:
    named = replace(RULE, match=Match(tool="files__stat"), reads_only=True)
    shell = replace(RULE, match=Match(tool="shell_run"), reads_only=True)
    guarded = Guarded(access=(READ_ONLY,), rules=(named, shell, RULE))

    assert guarded.shown() == {"files__read", "files__stat", "shell_run"}


@pytest.mark.requirement("access.read-only")
async def test_read_only_goes_for_what_is_called_by_name_as_well() -> None:
    guarded = Guarded()

    result = await guarded.call("tools_call", READING, name="files__write", arguments={"path": "a"})

    assert denial_of(result)["reason"] == "read_only"


@pytest.mark.requirement("pin.quarantined-call-is-told")
async def test_a_call_of_a_quarantined_tool_is_a_denial_that_says_whom_to_ask() -> None:
    late = replace(tool("late"), is_approved=False, is_kept_out=True)
    guarded = Guarded(kept_out={late.exposed: late})

    result = await guarded.call("files__late", path="a")

    assert denial_of(result)["reason"] == "quarantined"
    assert denial_of(result)["remedy"]["action"] == "ask_administrator"
    assert "/admin/v1/upstreams/files/manifest" in denial_of(result)["remedy"]["text"]
    assert guarded.house.record.denial == "quarantined"
    assert guarded.house.ledger.events == []
    assert "files__late" not in guarded.shown()


async def test_a_quarantined_tool_that_is_kept_from_a_caller_is_only_that() -> None:
    late = replace(tool("late"), is_kept_out=True)
    guarded = Guarded(
        kept_out={late.exposed: late},
        access=(AccessRule(name="none", tools=Choice(allow=())),),
    )

    assert denial_of(await guarded.call("files__late"))["reason"] == "policy_denied"
    with pytest.raises(UnknownToolError):
        await guarded.call("files__never")


@pytest.mark.requirement("content.sizes-are-bounded")
async def test_arguments_above_their_bound_hold_nothing_and_say_both_sizes() -> None:
    bounded = replace(RULE, content=ContentTerms(arguments_bytes_max=300))
    guarded = Guarded(rules=(bounded,))

    fits = await guarded.call("files__read", path="x" * 280)
    result = await guarded.call("files__read", path="ü" * 145)

    denial = denial_of(result)
    assert not fits.is_error
    assert denial["reason"] == "arguments_too_large"
    assert (denial["unit"], denial["limit"], denial["requested"]) == ("bytes", 300, 302)
    assert "302 bytes, and at most 300" in denial["remedy"]["text"]
    assert len(guarded.house.backend.ran) == 1
    assert guarded.house.ledger.remaining() == 9


@pytest.mark.parametrize(
    ("headers", "meta", "expected"),
    [
        ({}, {}, False),
        ({"flyball-read-only": "true"}, {}, True),
        ({}, {"flyball/read_only": True}, True),
        ({"flyball-read-only": "false"}, {"flyball/read_only": True}, True),
        ({"flyball-read-only": "true"}, {"flyball/read_only": False}, True),
    ],
)
def test_either_place_of_a_request_can_ask_for_reading_alone(
    headers: dict[str, str], meta: dict[str, object], *, expected: bool
) -> None:
    assert read_context(headers, meta).is_read_only is expected
