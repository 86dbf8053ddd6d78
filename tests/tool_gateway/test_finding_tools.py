"""Searching, describing and calling tools through the gateway, and what the list shows."""

import json
from dataclasses import replace

import pytest

from governor.call import CallStatus
from governor.denial import DenialReason
from governor.policy import Match, Policy
from tests.governor.makers import budget
from tests.tool_gateway.finding_makers import (
    ADA,
    CONTEXT,
    EVE,
    EVERYTHING,
    TOOLS,
    FindingHouse,
    an_entry,
    chain_of,
    entries_of,
)
from tests.tool_gateway.makers import RULE, House
from tool_gateway.discovery import definitions
from tool_gateway.discovery.listing import ListRule, ListTerms, definition_of, tokens_of
from tool_gateway.errors import IdempotencyConflictError, LedgerUnavailableError
from tool_gateway.ports import PastCall
from tool_gateway.results import BUDGET_META, DENIAL_META

pytestmark = pytest.mark.anyio

CALLS = budget("calls", tool_calls=10)
BARS = "charts__bar_chart"
NO_MAIL = Policy(
    version="v2",
    rules=(replace(RULE, name="no-mail", match=Match(tool="mail__*"), allow=False),),
    fallback=RULE,
)


def finding(*, policy: Policy = EVERYTHING, terms: ListTerms | None = None) -> FindingHouse:
    house = House(CALLS)
    house.policy = policy
    return FindingHouse(house) if terms is None else FindingHouse(house, terms=terms)


async def test_a_search_shows_what_fits_best_first_with_its_arguments() -> None:
    house = House(CALLS)
    house.policy = EVERYTHING
    properties = {"path": {"type": "string"}, "encoding": {"type": "string"}}
    reader = an_entry(
        "files/read_file", "Read a file. It may be large.", properties=properties, required=["path"]
    )
    finder = FindingHouse(house, tools=[reader, *entries_of({"mail/send_message": "Send mail."})])

    answer = await finder.gateway.call(
        ADA, CONTEXT, tool=definitions.SEARCH, arguments={"query": "read the file"}
    )

    assert answer.structured == {
        "tools": [
            {
                "name": "files__read_file",
                "description": "Read a file.",
                "arguments": ["path", "encoding?"],
            }
        ]
    }
    assert json.loads(str(answer.content[0]["text"])) == answer.structured
    assert "tools_call" in str(answer.content[1]["text"])


async def test_a_search_is_a_governed_call_of_its_own() -> None:
    finder = finding()

    await finder.found("draw a chart")

    (record,) = finder.house.ledger.records
    assert (record.name, record.status) == ("tools_search", CallStatus.OK)
    assert record.detail.startswith("found: charts__")
    assert finder.house.ledger.remaining() == 9


async def test_a_search_without_a_match_says_how_to_go_on() -> None:
    answer = await finding().gateway.call(
        ADA, CONTEXT, tool=definitions.SEARCH, arguments={"query": "zzzzzz"}
    )

    assert not answer.is_error
    assert answer.structured == {"tools": []}
    assert "other words" in str(answer.content[1]["text"])


@pytest.mark.requirement("tools.only-allowed-are-found")
async def test_only_what_the_policy_allows_is_found_or_described() -> None:
    finder = finding(policy=NO_MAIL)

    found = await finder.found("send a mail message to people", limit=20)
    described = await finder.gateway.call(
        ADA,
        CONTEXT,
        tool=definitions.DESCRIBE,
        arguments={"names": ["mail__send_message", "no_such_tool", BARS]},
    )

    assert not [name for name in found if name.startswith("mail__")]
    assert "mail__send_message" in await finding().found("send a mail message to people")
    assert isinstance(described.structured, dict)
    assert [tool["name"] for tool in described.structured["tools"]] == [BARS]
    # What is forbidden and what does not exist are told alike.
    assert described.structured["unknown"] == ["mail__send_message", "no_such_tool"]


async def test_a_definition_is_described_as_the_list_would_show_it() -> None:
    finder = finding()
    finder.house.policy = Policy(
        version="v2", rules=(), fallback=replace(RULE, drop_output_schema=True)
    )
    entry = an_entry("files/stat", "Tell a file's size.")
    entry = replace(entry, definition={**entry.definition, "outputSchema": {"type": "object"}})
    finder.stock.replace([entry])

    answer = await finder.gateway.call(
        ADA, CONTEXT, tool=definitions.DESCRIBE, arguments={"names": [entry.exposed]}
    )

    assert isinstance(answer.structured, dict)
    assert answer.structured["tools"] == [definition_of(entry, with_output_schema=False)]


async def test_what_is_too_long_to_describe_at_once_is_named() -> None:
    finder = finding()
    finder.stock.replace([an_entry(f"big/tool_{n}", "x" * 150_000) for n in range(3)])

    answer = await finder.gateway.call(
        ADA,
        CONTEXT,
        tool=definitions.DESCRIBE,
        arguments={"names": [f"big__tool_{n}" for n in range(3)]},
    )

    assert isinstance(answer.structured, dict)
    assert [tool["name"] for tool in answer.structured["tools"]] == ["big__tool_0"]
    assert answer.structured["left_out"] == ["big__tool_1", "big__tool_2"]


@pytest.mark.requirement("tools.call-is-governed-alike")
async def test_a_call_by_name_runs_charges_and_records_as_the_tool_itself() -> None:
    direct, by_name = finding(), finding()
    arguments = {"title": "sales"}

    expected = await direct.gateway.call(ADA, CONTEXT, tool=BARS, arguments=arguments)
    answer = await by_name.gateway.call(
        ADA, CONTEXT, tool=definitions.CALL, arguments={"name": BARS, "arguments": arguments}
    )

    assert answer == expected
    assert by_name.house.ledger.records == direct.house.ledger.records
    assert by_name.house.ledger.events == direct.house.ledger.events
    assert by_name.house.record.name == BARS
    assert by_name.house.ledger.remaining() == 9


@pytest.mark.requirement("tools.call-is-governed-alike")
async def test_a_tool_that_is_forbidden_is_forbidden_by_name_too() -> None:
    finder = finding(policy=NO_MAIL)

    answer = await finder.gateway.call(
        ADA, CONTEXT, tool=definitions.CALL, arguments={"name": "mail__send_message"}
    )

    denial = answer.meta[DENIAL_META]
    assert isinstance(denial, dict)
    assert denial["reason"] == DenialReason.POLICY_DENIED
    assert finder.house.backend.ran == []
    assert finder.house.record.rule == "no-mail"


@pytest.mark.requirement("tools.call-is-governed-alike")
async def test_a_budget_that_is_used_up_denies_a_call_by_name() -> None:
    house = House(budget("calls", tool_calls=0))
    house.policy = EVERYTHING

    answer = await FindingHouse(house).gateway.call(
        ADA, CONTEXT, tool=definitions.CALL, arguments={"name": BARS}
    )

    denial = answer.meta[DENIAL_META]
    assert isinstance(denial, dict)
    assert denial["reason"] == DenialReason.BUDGET_EXHAUSTED
    assert house.backend.ran == []


@pytest.mark.requirement("tools.call-is-governed-alike")
async def test_a_key_is_one_key_whichever_way_the_tool_is_called() -> None:
    finder = finding()
    keyed = replace(CONTEXT, idempotency_key="k")
    await finder.gateway.call(ADA, keyed, tool=BARS, arguments={"title": "a"})

    await finder.gateway.call(
        ADA, keyed, tool=definitions.CALL, arguments={"name": BARS, "arguments": {"title": "a"}}
    )
    with pytest.raises(IdempotencyConflictError):
        await finder.gateway.call(
            ADA, keyed, tool=definitions.CALL, arguments={"name": BARS, "arguments": {}}
        )

    assert len(finder.house.backend.ran) == 1


@pytest.mark.requirement("tools.call-is-governed-alike")
async def test_who_may_not_call_by_name_is_denied_for_that() -> None:
    closed = replace(RULE, name="no-names", match=Match(tool=definitions.CALL), allow=False)
    finder = finding(policy=Policy(version="v2", rules=(closed,), fallback=RULE))

    answer = await finder.gateway.call(
        ADA, CONTEXT, tool=definitions.CALL, arguments={"name": BARS}
    )

    assert DENIAL_META in answer.meta
    assert finder.house.record.rule == "no-names"
    assert finder.house.backend.ran == []


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"name": "no_such_tool"}, "unknown tool 'no_such_tool'"),
        ({"name": "tools_call", "arguments": {"name": BARS}}, "it cannot call itself"),
        ({"arguments": {}}, "'name' is a required property"),
        ({"name": BARS, "arguments": "title"}, "is not of type 'object'"),
    ],
)
async def test_a_wrong_call_by_name_is_told_to_the_model(
    asked: dict[str, object], says: str
) -> None:
    finder = finding()

    answer = await finder.gateway.call(ADA, CONTEXT, tool=definitions.CALL, arguments=asked)

    assert answer.is_error
    assert says in (answer.sole_text or "")
    assert BUDGET_META in answer.meta
    assert finder.house.ledger.events == []


async def test_wrong_arguments_of_the_named_tool_are_told_as_its_own() -> None:
    house = House(CALLS)
    house.policy = EVERYTHING
    typed = an_entry("files/read", "Read.", properties={"path": {"type": "string"}})
    finder = FindingHouse(house, tools=[typed])

    answer = await finder.gateway.call(
        ADA,
        CONTEXT,
        tool=definitions.CALL,
        arguments={"name": "files__read", "arguments": {"path": 5}},
    )

    assert answer.is_error
    assert "arguments['path']: 5 is not of type 'string'" in (answer.sole_text or "")
    assert house.ledger.events == []


async def test_a_catalogue_that_was_swapped_is_searched_anew() -> None:
    finder = finding()
    before = await finder.found("translate a text into another language")

    finder.stock.replace(entries_of({"words/translate": "Translate a text."}))

    assert "words__translate" not in before
    assert await finder.found("translate a text into another language") == ["words__translate"]


# What the list shows ------------------------------------------------------------------------


def whole_tokens(finder: FindingHouse) -> int:
    return sum(
        tokens_of(definition_of(entry, with_output_schema=True)) for entry in finder.stock.catalog
    )


async def test_without_a_bound_the_whole_list_is_shown() -> None:
    finder = finding()

    assert len(await finder.listed()) == len(TOOLS) + len(definitions.NAMES)


@pytest.mark.requirement("tools.list-is-cut-by-relevance")
async def test_a_list_that_fits_is_left_whole() -> None:
    tokens = whole_tokens(finding())

    fits = await finding(terms=ListTerms(tokens_max=tokens)).listed()
    cut = await finding(terms=ListTerms(tokens_max=tokens - 1)).listed()

    assert len(fits) == len(TOOLS) + len(definitions.NAMES)
    assert len(cut) < len(fits)


def room_for(finder: FindingHouse, *tools: str) -> int:
    """Return the tokens of the three tools that always stay, and of `tools`."""
    return sum(
        tokens_of(definition_of(entry, with_output_schema=True))
        for entry in finder.stock.catalog
        if entry.exposed in (*definitions.NAMES, *tools)
    )


@pytest.mark.requirement("tools.list-is-cut-by-relevance")
async def test_the_list_shows_what_the_session_is_about() -> None:
    room = room_for(finding(), "charts__bar_chart", "charts__pie_chart")
    finder = finding(terms=ListTerms(tokens_max=room))
    await finder.found("show the figures in a chart")

    listed = await finder.listed()

    assert {"charts__bar_chart", "charts__pie_chart", *definitions.NAMES} <= set(listed)
    assert not [name for name in listed if name.startswith("mail__")]
    assert listed == sorted(listed)


@pytest.mark.requirement("tools.list-is-cut-by-relevance")
async def test_a_new_session_is_shown_what_was_used_with_success() -> None:
    room = room_for(finding(), "weather__forecast")
    finder = finding(terms=ListTerms(tokens_max=room))
    elsewhere = replace(CONTEXT, session_name="another")
    before = await finder.listed()

    await finder.gateway.call(ADA, elsewhere, tool="weather__forecast", arguments={})

    assert "weather__forecast" not in before
    assert "weather__forecast" in await finder.listed()


@pytest.mark.requirement("tools.learned-per-tenant")
async def test_what_one_tenant_does_changes_nothing_for_another() -> None:
    room = room_for(finding(), "weather__forecast")
    finder = finding(terms=ListTerms(tokens_max=room))
    before = await finder.listed(EVE), await finder.found("umbrella day", caller=EVE)

    await finder.found("umbrella day", caller=ADA)
    for number in range(5):
        await finder.gateway.call(
            ADA, CONTEXT, tool="weather__forecast", arguments={"day": str(number)}
        )
    fresh = replace(CONTEXT, session_name="fresh")

    assert "weather__forecast" in await finder.listed(ADA)
    listed = [at.entry.exposed for at in await finder.gateway.listed_for(EVE, fresh)]
    assert listed == before[0]
    assert await finder.found("umbrella day", caller=EVE) == before[1]


@pytest.mark.requirement("tools.list-is-cut-by-relevance")
async def test_kept_tools_and_rules_for_some_callers_hold() -> None:
    small = ListTerms(
        tokens_max=None,
        keep=("mail__*",),
        rules=(ListRule(tokens_max=1, agent="ad*"), ListRule(tokens_max=10, agent="*")),
    )
    finder = finding(terms=small)

    assert set(await finder.listed()) == {
        *definitions.NAMES,
        "mail__send_message",
        "mail__search_messages",
    }
    assert small.tokens_for(EVE.tenant, EVE.agent) == 10


async def test_a_forbidden_tool_takes_no_room_in_the_list() -> None:
    finder = finding(policy=NO_MAIL, terms=ListTerms(tokens_max=whole_tokens(finding()) - 1))

    listed = await finder.listed()

    assert len(listed) == len(TOOLS) + len(definitions.NAMES) - 2


# What is learned ----------------------------------------------------------------------------


@pytest.mark.requirement("tools.learned-from-success")
async def test_a_tool_that_helped_after_a_request_is_found_by_those_words() -> None:
    finder = finding()
    request = "cake slices like in the brochure of the figures"
    others = await finder.found("brochure")
    await finder.found(request)
    for _ in range(3):
        await finder.gateway.call(ADA, CONTEXT, tool="charts__pie_chart", arguments={})

    assert others == []
    assert (await finder.found("brochure"))[0] == "charts__pie_chart"


@pytest.mark.requirement("tools.learned-from-success")
async def test_a_call_that_failed_teaches_nothing() -> None:
    finder = finding()
    await finder.found("brochure with cake slices")
    finder.house.policy = NO_MAIL

    await finder.gateway.call(ADA, CONTEXT, tool="mail__send_message", arguments={})
    await finder.gateway.call(ADA, CONTEXT, tool="weather__forecast", arguments={})

    # The forecast went well, yet the search had not shown it.
    assert await finder.found("brochure") == []


class PastCalls:
    """Call records of an earlier process, or a store that cannot be read."""

    def __init__(self, *calls: PastCall, is_down: bool = False) -> None:
        self.calls, self.is_down = calls, is_down

    async def latest(self, *, calls_max: int, with_words_of: str) -> tuple[PastCall, ...]:
        if self.is_down:
            raise LedgerUnavailableError
        return self.calls[-calls_max:]


@pytest.mark.requirement("tools.learned-from-success")
async def test_earlier_records_teach_a_new_process() -> None:
    chain = chain_of(ADA)
    at = {"tenant": chain.tenant, "session": chain.session, "ended_at_ms": 999_000}
    search = PastCall(tool="tools_search", words="brochure", found=("charts__pie_chart",), **at)
    finder = finding()

    await finder.finder.learn(PastCalls(search, PastCall(tool="charts__pie_chart", **at)))

    assert await finder.found("brochure") == ["charts__pie_chart"]


async def test_records_that_cannot_be_read_stop_nothing() -> None:
    finder = finding()

    await finder.finder.learn(PastCalls(is_down=True))

    assert await finder.found("draw a chart with bars", limit=1) == [BARS]
