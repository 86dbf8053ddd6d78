import base64
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.call import CallStatus, ToolCall
from governor.ids import ArchiveId, PrincipalId
from governor.policy import Match, Policy, ToolRule
from tests.governor.makers import Books as FoldedBooks
from tests.governor.makers import budget
from tests.tool_gateway.finding_makers import a_finder
from tests.tool_gateway.makers import CHAIN, LIMITS, FakeArchive, FakeClock, FakeLedger, a_call
from tests.tool_gateway.spawn_makers import NoSubSessions
from tests.tool_gateway.turn_makers import a_gate
from tool_gateway.archiving import archive_form, cut_to_characters, indexed, is_oversize
from tool_gateway.books import Books
from tool_gateway.builtin import GOVERNOR_STATUS, MEMORY_READ, Builtins
from tool_gateway.discovery.answers import Answers
from tool_gateway.memory.tools import MemoryTools
from tool_gateway.ports import Archived, Meter
from tool_gateway.results import ARCHIVE_META, Outcome, ToolResult, text_block, text_result
from tool_gateway.spawning import Spawning

ARCHIVED = Archived(archive_id=ArchiveId("arc_1"), sha256="0" * 64, total_bytes=0)
# Characters of one to four bytes, so that every cut has a chance to fall inside of one.
TEXT = st.text("aé€😀\n", max_size=400)


def rule(above: int = 100, *, drop: bool = False) -> ToolRule:
    return ToolRule(
        name="any",
        match=Match(),
        allow=True,
        limits=LIMITS,
        archive_above_bytes=above,
        drop_output_schema=drop,
    )


POLICY = Policy(version="v1", rules=(), fallback=rule())


def builtins(archive: FakeArchive) -> Builtins:
    ledger = FakeLedger(FoldedBooks((budget("calls", tool_calls=10),)))
    books = Books(ledger=ledger, clock=FakeClock())
    return Builtins(
        memories=MemoryTools(archive=archive),
        books=books,
        turns=a_gate(books, FakeClock()),
        policy=lambda: POLICY,
        spawning=Spawning(NoSubSessions()),
        answers=Answers(a_finder()),
    )


async def keep(content: bytes) -> tuple[Builtins, ArchiveId]:
    archive = FakeArchive()
    kept = await archive.put(
        content, chain=CHAIN, call_id=a_call().call_id, media_type="text/plain", now_ms=0
    )
    return builtins(archive), kept.archive_id


def reading(index: str, **arguments: object) -> ToolCall:
    return replace(a_call(), tool=MEMORY_READ, arguments={"index": index, **arguments})


async def read_all(tool: Builtins, index: str, **arguments: object) -> bytes:
    """Read on from where each answer ends, as a model does."""
    whole, offset = b"", 0
    while True:
        outcome = await tool.run(reading(index, offset=offset, **arguments), LIMITS, Meter())
        shown = str(outcome.result.content[0]["text"])
        as_base64 = arguments.get("encoding") == "base64"
        whole += base64.b64decode(shown) if as_base64 else shown.encode()
        entry = outcome.result.meta[ARCHIVE_META]
        assert isinstance(entry, dict)
        if entry["next_offset"] is None:
            return whole
        assert entry["next_offset"] > offset, "every answer goes on"
        offset = entry["next_offset"]


@pytest.mark.requirement("archive.byte-exact")
@pytest.mark.anyio
@given(text=TEXT, max_bytes=st.integers(4, 64))
async def test_the_ranges_of_a_text_joined_are_the_text(text: str, max_bytes: int) -> None:
    tool, index = await keep(text.encode())

    assert await read_all(tool, index, max_bytes=max_bytes) == text.encode()


@pytest.mark.requirement("archive.byte-exact")
@pytest.mark.anyio
@given(content=st.binary(max_size=300), max_bytes=st.integers(4, 64))
async def test_the_ranges_of_any_bytes_joined_are_the_bytes(content: bytes, max_bytes: int) -> None:
    tool, index = await keep(content)

    read = await read_all(tool, index, max_bytes=max_bytes, encoding="base64")

    assert read == content


@pytest.mark.requirement("archive.byte-exact")
@pytest.mark.anyio
@given(text=TEXT, above=st.integers(1, 200))
async def test_the_head_and_what_is_read_on_from_it_are_the_whole(text: str, above: int) -> None:
    result = text_result(text)
    content, _ = archive_form(result)
    tool, index = await keep(content)
    archived = Archived(archive_id=index, sha256="", total_bytes=len(content))

    shown = indexed(result, archived, rule(above), has_output_schema=False)
    head = str(shown.content[0]["text"]).encode()
    outcome = await tool.run(reading(index, offset=len(head), max_bytes=10_000), LIMITS, Meter())

    assert head + str(outcome.result.content[0]["text"]).encode() == text.encode()
    assert len(head) <= max(1, above // 4)
    note = str(shown.content[1]["text"])
    assert f'{{"index": "{index}", "offset": {len(head)}}}' in note


@given(text=TEXT, at=st.integers(0, 1_600))
def test_a_cut_takes_at_most_the_bytes_of_one_character(text: str, at: int) -> None:
    content = text.encode()[:at]

    cut = cut_to_characters(content)

    assert content.startswith(cut)
    assert len(content) - len(cut) < 4
    cut.decode()


@pytest.mark.anyio
async def test_a_range_that_begins_inside_a_character_says_how_to_read_it() -> None:
    tool, index = await keep("€uro".encode())

    outcome = await tool.run(reading(index, offset=1), LIMITS, Meter())

    assert outcome.result.is_error
    assert "base64" in (outcome.result.sole_text or "")


@pytest.mark.anyio
async def test_a_range_beyond_the_end_is_empty_and_says_so() -> None:
    tool, index = await keep(b"abc")

    outcome = await tool.run(reading(index, offset=50), LIMITS, Meter())

    assert outcome.result.content[0]["text"] == ""
    assert "this is the end" in str(outcome.result.content[1]["text"])


@pytest.mark.anyio
async def test_another_agents_result_is_answered_like_an_unknown_one() -> None:
    tool, index = await keep(b"mine")
    eve = replace(CHAIN, agent=PrincipalId("eve"))

    theirs = await tool.run(replace(reading(index), chain=eve), LIMITS, Meter())
    unknown = await tool.run(reading("arc_404"), LIMITS, Meter())

    assert theirs.status is unknown.status is CallStatus.TOOL_ERROR
    assert theirs.detail == unknown.detail
    assert "mine" not in str(theirs.result)


@pytest.mark.requirement("budget.remaining-is-shown")
@pytest.mark.anyio
async def test_the_status_tool_shows_every_budget_as_text_and_as_structure() -> None:
    outcome = await builtins(FakeArchive()).run(
        replace(a_call(), tool=GOVERNOR_STATUS, arguments={}), LIMITS, Meter()
    )

    assert outcome == Outcome(result=outcome.result)
    structure, words = (str(block["text"]) for block in outcome.result.content)
    assert json.loads(structure) == outcome.result.structured
    assert outcome.result.structured == {
        "budgets": [
            {
                "budget_id": "calls",
                "scope": "tenant",
                "unit": "tool_calls",
                "limit": 10,
                "used": 0,
                "reserved": 0,
                "remaining": 10,
                "share_left": 1.0,
                "pace": None,
                "left": "HIGH",
            }
        ],
        "left": "HIGH",
        "turns": None,
        "session": {"charged": {}, "unified_cost_microusd": 0},
    }
    assert "tenant budget calls: 10 of 10 tool calls left (100%)" in words


def test_several_blocks_are_kept_as_the_json_of_them_all() -> None:
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    result = ToolResult(content=(text_block("é"), image))

    content, media_type = archive_form(result)

    assert json.loads(content) == {"content": [text_block("é"), image], "isError": False}
    assert media_type == "application/json"


def test_structured_content_that_says_more_than_the_text_is_kept_with_it() -> None:
    same = ToolResult(content=(text_block('{"rows": 2}'),), structured={"rows": 2})
    more = ToolResult(content=(text_block("two rows"),), structured={"rows": 2})

    assert archive_form(same) == (b'{"rows": 2}', "text/plain; charset=utf-8")
    assert json.loads(archive_form(more)[0])["structuredContent"] == {"rows": 2}


def test_how_a_command_ended_is_shown_whatever_is_cut_and_is_no_part_of_its_output() -> None:
    result = replace(text_result("x" * 500), closing="[exit code 3]")
    content, _ = archive_form(result)
    archived = Archived(archive_id=ArchiveId("arc_1"), sha256="0", total_bytes=len(content))

    shown = indexed(result, archived, rule(100), has_output_schema=False).to_wire()

    assert content == b"x" * 500
    assert shown["content"][-1] == text_block("[exit code 3]")


@pytest.mark.parametrize(("text", "oversize"), [("x" * 100, False), ("x" * 101, True)])
def test_a_result_is_oversize_above_the_rules_limit_in_bytes(text: str, *, oversize: bool) -> None:
    assert is_oversize(text_result(text), rule(100)) is oversize
    assert is_oversize(text_result("€" * 34), rule(100))


def test_structured_content_counts_towards_the_size_of_a_result() -> None:
    """Clients hand it to the model as well; without a text block it would pass unbounded."""
    result = ToolResult(content=(), structured={"rows": ["x" * 1_000]})

    assert is_oversize(result, rule(100))


@pytest.mark.parametrize("drop", [False, True])
def test_a_result_that_clients_validate_is_cut_only_if_the_rule_drops_the_schema(
    *, drop: bool
) -> None:
    result = ToolResult(content=(text_block("x" * 500),), structured={"rows": [1]})

    shown = indexed(result, ARCHIVED, rule(100, drop=drop), has_output_schema=True)

    entry = shown.meta[ARCHIVE_META]
    assert isinstance(entry, dict)
    assert entry["cut"] is drop
    assert (shown.content == result.content) is not drop
    assert (shown.structured is None) is drop
