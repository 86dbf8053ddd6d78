"""What gives way in any conversation: it comes back as it was, and nothing is torn apart."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from governor.ids import ExperienceId, SessionId, TenantId
from runtime.model_gateway.compaction.chat import read_chat
from runtime.model_gateway.compaction.conversation import Conversation
from runtime.model_gateway.compaction.expanding import expanded
from runtime.model_gateway.compaction.folding import Owner, Shortened, folding_of, shortened
from runtime.model_gateway.compaction.messages import read_messages
from runtime.model_gateway.compaction.plan import plan_of
from runtime.model_gateway.compaction.terms import CompactionTerms, Fold
from runtime.model_gateway.compaction.told import Told
from tests.runtime.model_gateway.compaction.conversations import (
    KEY,
    SYSTEM,
    Turn,
    blocks,
    chat,
    flights,
)

Read = Callable[[Sequence[Mapping[str, Any]]], Conversation]

OWNER = Owner(tenant=TenantId("acme"), session=SessionId("s1"), key=KEY)
WIRES: list[tuple[Callable[[Sequence[Turn]], list[dict[str, Any]]], Read]] = [
    (chat, read_chat),
    (blocks, read_messages),
]
RESULTS = st.one_of(
    st.text(max_size=200),
    st.integers(0, 99).map(lambda number: flights(number, rows=30)),
    st.sampled_from(["", "Error: no such flight", "KEEP " + "word " * 900, "\ud800", "[]"]),
)
TURNS = st.lists(
    st.builds(
        Turn,
        tool=st.sampled_from(["search_flights", "read_policy", "book"]),
        result=RESULTS,
        said=st.sampled_from(["", "Go on, please.", "Is it cheaper on Monday?"]),
    ),
    max_size=16,
)
TERMS = st.builds(
    CompactionTerms,
    above_tokens=st.integers(100, 3_000),
    keep_turns=st.integers(1, 4),
    fold=st.sampled_from(Fold),
    pin_tools=st.sampled_from([(), ("read_*",)]),
    pin_patterns=st.sampled_from([(), ("KEEP",)]),
    summary_chars_max=st.sampled_from([40, 240]),
)


def short(
    messages: list[dict[str, Any]],
    read: Read,
    terms: CompactionTerms,
    *,
    loses: int | None = None,
) -> tuple[Shortened, dict[ExperienceId, bytes], ExperienceId | None] | None:
    """Return what becomes of a conversation whose keeper loses every so many contents."""
    conversation = read(messages)
    plan = plan_of(conversation, terms)
    if plan is None:
        return None
    folding = folding_of(messages, conversation, plan, OWNER)
    kept = {
        one.index: one.content
        for at, one in enumerate(folding.keepsakes)
        if loses is None or at % loses
    }
    told = Told()
    found = [
        shortened(
            messages,
            conversation,
            plan,
            folding,
            kept=kept,
            terms=terms,
            owner=OWNER,
            told=told,
        )
        for _ in range(2)
    ]
    assert found[0] == found[1], "what is said again is what was said"
    return found[0], kept, folding.contents


def calls_and_results(messages: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return, in their order, the calls that are asked for and those that are answered."""
    found = []
    for message in messages:
        content = message.get("content")
        found += [("asked", call["id"]) for call in message.get("tool_calls") or ()]
        if message["role"] == "tool":
            found.append(("answered", message["tool_call_id"]))
        for block in content if isinstance(content, list) else ():
            if block["type"] == "tool_use":
                found.append(("asked", block["id"]))
            elif block["type"] == "tool_result":
                found.append(("answered", block["tool_use_id"]))
    return found


@pytest.mark.requirement("memory.compaction-folds-turns")
@pytest.mark.requirement("memory.compaction-replaces-old-results")
@settings(max_examples=80, deadline=None)
@given(turns=TURNS, terms=TERMS, wire=st.sampled_from(WIRES))
def test_everything_that_gave_way_is_put_back_byte_for_byte(
    turns: list[Turn], terms: CompactionTerms, wire: Any
) -> None:
    write, read = wire
    messages = write(turns)
    found = short(messages, read, terms)
    if found is None:
        return
    told, kept, contents = found
    plan = plan_of(read(messages), terms)
    assert plan is not None
    folded = [messages[place] for place in plan.folded]
    assert msgspec.json.encode(expanded(contents, kept.__getitem__)) == msgspec.json.encode(folded)
    assert told.left_whole == 0
    assert told.results == len(plan.results)
    for place, number in plan.results:
        result = read(messages).messages[place].results[number]
        assert result.content in kept.values()


@pytest.mark.requirement("memory.compaction-touches-no-pin")
@settings(max_examples=80, deadline=None)
@given(
    turns=TURNS,
    terms=TERMS,
    wire=st.sampled_from(WIRES),
    loses=st.sampled_from([None, 1, 2, 3]),
)
def test_no_call_is_parted_from_its_result_and_what_is_to_stay_stays(
    turns: list[Turn], terms: CompactionTerms, wire: Any, loses: int | None
) -> None:
    write, read = wire
    messages = write(turns)
    found = short(messages, read, terms, loses=loses)
    if found is None:
        return
    told = found[0].messages
    pairs = calls_and_results(told)
    assert pairs[::2] == [("asked", call) for _, call in pairs[1::2]]
    assert set(pairs) <= set(calls_and_results(messages))
    conversation = read(messages)
    last = [
        message
        for message, one in zip(messages, conversation.messages, strict=True)
        if one.turn > conversation.turns - terms.keep_turns and one.turn > 0
    ]
    assert told[len(told) - len(last) :] == last
    if write is chat:
        assert told[0] == {"role": "system", "content": SYSTEM}
    for number, turn in enumerate(turns):
        pinned = turn.tool == "read_policy" and terms.pin_tools
        if pinned or ("KEEP" in str(turn.result) and terms.pin_patterns):
            at = next(
                place for place, one in enumerate(conversation.messages) if one.turn == number + 1
            )
            assert messages[at + 1] in told


@pytest.mark.requirement("memory.compaction-is-stable")
@settings(max_examples=60, deadline=None)
@given(turns=TURNS, terms=TERMS, wire=st.sampled_from(WIRES), cut=st.integers(0, 15))
def test_borders_of_a_conversation_stay_when_it_goes_on(
    turns: list[Turn], terms: CompactionTerms, wire: Any, cut: int
) -> None:
    write, read = wire
    before = plan_of(read(write(turns[:cut])), terms)
    after = plan_of(read(write(turns)), terms)
    if before is not None:
        assert after is not None
        assert after.borders[: len(before.borders)] == before.borders
        assert set(before.folded) <= set(after.folded)


def test_a_report_of_a_conversation_that_no_user_began_is_a_message_of_its_own() -> None:
    messages = chat([Turn() for _ in range(8)])
    del messages[1]
    found = short(messages, read_chat, CompactionTerms(above_tokens=900, fold=Fold.TURNS))
    assert found is not None
    assert [one["role"] for one in found[0].messages[:3]] == ["system", "user", "assistant"]


def test_what_means_something_to_the_provider_alone_stays_where_it_is() -> None:
    messages = blocks([Turn() for _ in range(8)])
    shown = {"type": "tool_reference", "tool_name": "book"}
    messages[2]["content"][0]["content"].append(shown)
    border = {"type": "ephemeral"}
    messages[4]["content"][0]["content"][0]["cache_control"] = border
    found = short(messages, read_messages, CompactionTerms(above_tokens=900))
    assert found is not None
    told = found[0].messages
    assert told[2] == messages[2]
    (mark,) = told[4]["content"][0]["content"]
    assert mark["cache_control"] == border
    assert "result kept as" in mark["text"]


def test_pictures_in_results_give_way_like_words() -> None:
    messages = blocks([Turn() for _ in range(8)])
    source = {"type": "base64", "media_type": "image/png", "data": "iVBOR" * 4_000}
    picture = {"type": "image", "source": source}
    messages[2]["content"][0]["content"] = [picture]
    found = short(messages, read_messages, CompactionTerms(above_tokens=900))
    assert found is not None
    told, kept, _ = found
    mark = told.messages[2]["content"][0]["content"]
    assert "summary: no text, " in mark
    index = ExperienceId(mark.partition("kept as ")[2][:20])
    assert json.loads(kept[index]) == [picture]
