"""What the memory's tools ask for, hold and look through."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.amounts import Amounts, Unit
from governor.content import ContentTerms
from governor.experience.charges import MemoryPrices
from governor.experience.kinds import Standing, TrustLane
from governor.experience.trust import DOUBTS_TOLD, Doubt
from governor.ids import ToolName
from tests.governor.experience.makers import Said, experience
from tests.tool_gateway.makers import RULE, a_call
from tool_gateway.errors import MemoryRefusedError
from tool_gateway.memory.charging import MemoryCharging, held_for
from tool_gateway.memory.definitions import READ, SEARCH, WRITE
from tool_gateway.memory.grepping import LinePattern, grep_text, grepped
from tool_gateway.memory.ports import Kept
from tool_gateway.memory.requests import read_bounds, write_asked
from tool_gateway.memory.tools import told_of

LINES = st.lists(st.text(alphabet="abx é", max_size=12), max_size=30)


def held(tool: ToolName, **arguments: Any) -> dict[str, int]:
    return held_for(tool, arguments).as_dict()


def test_what_a_call_asks_for_is_held() -> None:
    assert held(SEARCH, query="x") == {"memory_read_tokens": 2_000}
    assert held(SEARCH, query="x", max_tokens=64) == {"memory_read_tokens": 64}
    assert held(READ, index="exp_1") == {"memory_read_tokens": 2_000}
    assert held(READ, index="exp_1", max_bytes=10) == {"memory_read_tokens": 10}
    exact = held(READ, index="exp_1", max_bytes=10, encoding="base64")
    assert exact == {"memory_read_tokens": 16}
    assert held(READ, index="arc_1") == {"memory_read_tokens": 16_384}
    assert held(WRITE, content="größe") == {"memory_bytes": 7, "memory_writes": 1}
    assert held(WRITE, content="AAEC", encoding="base64")["memory_bytes"] == 3
    assert held(ToolName("memory_feedback"), indices=["exp_1"]) == {}


def test_the_price_of_what_is_held_is_held_with_it() -> None:
    charging = MemoryCharging(lambda: MemoryPrices(read_microusd_per_ktoken=500))
    call = replace(a_call(), tool=SEARCH, arguments={"query": "x", "max_tokens": 3_000})

    rule = charging.narrowed(call, RULE)
    other = charging.narrowed(replace(call, tool=ToolName("files__read")), RULE)
    free = charging.narrowed(call, replace(RULE, is_free=True))

    assert rule.estimates.of(Unit.COST_MICROUSD) == RULE.cost_microusd + 1_500
    assert rule.estimates.of(Unit.MEMORY_READ_TOKENS) == 3_000
    assert rule.estimates.of(Unit.CONTEXT_TOKENS) >= 3_000
    assert (other, free.estimates) == (RULE, Amounts({}))


def test_a_write_may_be_as_large_as_one_experience_unless_a_rule_says_less() -> None:
    eight_mib = 8 * 1024 * 1024
    charging = MemoryCharging(MemoryPrices, item_bytes_max=lambda: eight_mib)
    write = replace(a_call(), tool=WRITE, arguments={"content": "x"})
    stricter = replace(RULE, content=ContentTerms(arguments_bytes_max=2_000))

    assert charging.narrowed(write, RULE).content.arguments_bytes_max > eight_mib * 4 // 3
    assert charging.narrowed(write, stricter).content.arguments_bytes_max == 2_000
    assert charging.narrowed(replace(write, tool=SEARCH), RULE).content == RULE.content


def test_an_archived_result_is_read_by_its_bytes_and_an_experience_by_its_tokens() -> None:
    archived, experience = read_bounds({"index": "arc_1"}), read_bounds({"index": "exp_1"})

    assert (archived.bytes_max, archived.tokens_max) == (16_384, None)
    assert (experience.bytes_max, experience.tokens_max) == (1_048_576, 2_000)
    assert read_bounds({"index": "exp_1", "max_bytes": 9}).tokens_max is None
    assert read_bounds({"index": "arc_1", "max_tokens": 9}).tokens_max == 9
    assert read_bounds({"index": "exp_1", "grep": "x", "max_bytes": 8}).tokens_held == 8


def test_a_write_that_is_not_found_like_others_says_why_and_who_can_change_that() -> None:
    one = experience(Said(lane=TrustLane.WEB))
    waiting = replace(one, standing=Standing.QUARANTINED)

    web = told_of(Kept(experience=one, namespace="agent", is_new=True))
    waits = told_of(Kept(experience=waiting, namespace="agent", is_new=True, doubts=("teaches",)))

    assert 'lanes = ["web"]' in web
    assert "anybody may have written it" in waits
    assert "promoted, as a rule by an administrator" in waits
    assert set(Doubt) == set(DOUBTS_TOLD)


@pytest.mark.requirement("memory.refused-clearly")
@pytest.mark.parametrize("content", ["a", "=", "AA=A", "é", "====", ""])
def test_what_is_no_base64_is_refused(content: str) -> None:
    with pytest.raises(MemoryRefusedError, match="content"):
        write_asked({"content": content, "encoding": "base64"})


@pytest.mark.requirement("memory.grep")
@given(
    lines=LINES,
    newline=st.sampled_from(["\n", "\r\n"]),
    pattern=st.sampled_from(["X", "x$", "^x", "^$", "^", r"\s", "a|b", "[^x]", ""]),
    context=st.integers(0, 3),
    most=st.integers(1, 5),
)
def test_every_match_is_counted_and_the_first_are_shown_with_the_lines_around(
    lines: list[str], newline: str, pattern: str, context: int, most: int
) -> None:
    content = newline.join(lines).encode()

    found = grepped(
        content, LinePattern(pattern, ignores_case=True), context_lines=context, most=most
    )

    whole = content.decode().split(newline)
    whole = whole if whole[-1] else whole[:-1]
    matching = [
        number
        for number, line in enumerate(whole, start=1)
        if re.search(pattern, line, re.IGNORECASE)
    ]
    shown = [line.number for line in found.lines]
    around = {
        number
        for match in matching[:most]
        for number in range(match - context, match + context + 1)
        if 0 < number <= len(whole) and not (number > match and number in matching[most:])
    }
    unshown = matching[most : most + 1]
    assert set(shown) == {number for number in around if not unshown or number < unshown[0]}
    assert found.matches == len(matching)
    assert [line.number for line in found.lines if line.is_match] == matching[:most]
    assert shown == sorted(set(shown))
    assert all(
        line.text == whole[line.number - 1]
        and content[line.offset :].startswith(line.text.encode())
        for line in found.lines
    )


@pytest.mark.requirement("memory.grep")
def test_a_pattern_that_explodes_elsewhere_comes_to_an_end() -> None:
    found = grepped(
        b"a" * 2_000_000, LinePattern("(a+)+$b", ignores_case=False), context_lines=0, most=1
    )

    assert found.matches == 0


@pytest.mark.requirement("memory.grep")
@pytest.mark.parametrize(("pattern", "matches"), [("zz", 0), ("", 20_000)])
def test_a_content_of_nothing_but_ends_of_lines_takes_no_step_for_each(
    pattern: str, matches: int
) -> None:
    pattern_of_lines = LinePattern(pattern, ignores_case=False)

    found = grepped(b"\n" * 4_000_000, pattern_of_lines, context_lines=0, most=3)

    assert (found.matches, found.is_all) == (matches, matches == 0)
    assert [line.number for line in found.lines] == ([1, 2, 3] if matches else [])


@pytest.mark.requirement("memory.grep")
def test_a_line_that_is_very_long_is_shown_around_its_match() -> None:
    content = b"x" * 30_000 + b"NEEDLE" + b"y" * 30_000

    found = grepped(content, LinePattern("NEEDLE", ignores_case=False), context_lines=0, most=1)

    text = grep_text(found.lines)
    assert "NEEDLE" in text
    assert len(text) < 600


@pytest.mark.requirement("memory.refused-clearly")
@pytest.mark.parametrize("pattern", ["(", "a{2000}{2000}", "\\1", "(?<=a)b"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(MemoryRefusedError, match="RE2"):
        LinePattern(pattern, ignores_case=False)
