"""Which turns of a conversation are old: a function of the conversation, so it stays the same.

A provider caches the beginning of a prompt. Were the border moved with each turn, every request
would change what was cached: it is moved where the conversation has grown by a good part since
it was moved last. As only what is before a turn decides whether it is moved there, a conversation
that goes on keeps all the borders that it had.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from runtime.model_gateway.compaction.conversation import Conversation, Message, Part, Result
from runtime.model_gateway.compaction.terms import CompactionTerms, Fold

# What a line in the place of a result takes, besides what is said of it.
_MARK_TOKENS = 40
_CHARS_PER_TOKEN = 3
# By which part of what is allowed a conversation has to grow until the border is moved again.
_GROWTH_PARTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What gives way. `borders` are all that there ever were, in turns; what is before is old.

    `results` are places of old results: the message and which of its results. `folded` are the
    places of whole messages that a report stands for.
    """

    borders: tuple[int, ...]
    results: tuple[tuple[int, int], ...]
    folded: tuple[int, ...]


def plan_of(conversation: Conversation, terms: CompactionTerms) -> Plan | None:
    """Return what gives way in a conversation; None where nothing does."""
    turns = _by_turn(conversation)
    borders = _borders(turns, terms)
    if not borders:
        return None
    old = range(1, borders[-1])
    pinned = frozenset(turn for turn in old if is_pinned(turns[turn], terms))
    folded: tuple[int, ...] = ()
    if terms.fold is Fold.TURNS:
        may_go = frozenset(turn for turn in old if turn not in pinned and _is_whole(turns[turn]))
        folded = tuple(
            place
            for place, message in enumerate(conversation.messages)
            if message.turn in may_go and message.part is not Part.INSTRUCTIONS
        )
    gone = frozenset(folded)
    results = tuple(
        (place, number)
        for place, message in enumerate(conversation.messages)
        if 0 < message.turn < borders[-1] and place not in gone
        for number, result in enumerate(message.results)
        if _gives_way(result, terms)
    )
    return Plan(borders=borders, results=results, folded=folded) if results or folded else None


def mark_tokens(terms: CompactionTerms) -> int:
    """Return about how many tokens stand in the place of a result."""
    return _MARK_TOKENS + terms.summary_chars_max // _CHARS_PER_TOKEN


def is_pinned(messages: Sequence[Message], terms: CompactionTerms) -> bool:
    """Tell whether anything of a turn is never to be touched."""
    return any(
        terms.pins(message.text)
        or any(terms.pins(result.text, tool=result.name) for result in message.results)
        or any(terms.pins(asked.arguments, tool=asked.name) for asked in message.asked)
        for message in messages
    )


def _gives_way(result: Result, terms: CompactionTerms) -> bool:
    if result.content is None or terms.pins(result.text, tool=result.name):
        return False
    return result.tokens > mark_tokens(terms)


def _by_turn(conversation: Conversation) -> list[list[Message]]:
    turns: list[list[Message]] = [[] for _ in range(conversation.turns + 1)]
    for message in conversation.messages:
        turns[message.turn].append(message)
    return turns


def _borders(turns: Sequence[Sequence[Message]], terms: CompactionTerms) -> tuple[int, ...]:
    """Return where the border was moved to while the conversation grew turn by turn."""
    whole = [sum(message.tokens for message in turn) for turn in turns]
    old = [_old_tokens(turn, terms) for turn in turns]
    whole_until, old_until = list(accumulate(whole)), list(accumulate(old))
    allowed, found = terms.above_tokens, [1]
    for turn in range(1, len(turns)):
        before = found[-1] - 1
        size = whole_until[turn] - whole_until[before] + whole[0] + old_until[before] - old[0]
        border = turn - terms.keep_turns + 1
        if size <= allowed or border <= found[-1]:
            continue
        found.append(border)
        size -= whole_until[border - 1] - whole_until[before]
        size += old_until[border - 1] - old_until[before]
        allowed = max(terms.above_tokens, size + terms.above_tokens // _GROWTH_PARTS)
    return tuple(found[1:])


def _old_tokens(turn: Sequence[Message], terms: CompactionTerms) -> int:
    """Return about how many tokens of a turn stay when it is old."""
    if terms.fold is Fold.TURNS and not is_pinned(turn, terms):
        return 0
    most = mark_tokens(terms)
    return sum(
        message.tokens - sum(one.tokens - most for one in message.results if _gives_way(one, terms))
        for message in turn
    )


def _is_whole(turn: Sequence[Message]) -> bool:
    """Tell whether a turn can be left out: every call has its result in it, and can be kept."""
    asked = {one.call for message in turn for one in message.asked}
    answered = {result.call for message in turn for result in message.results}
    return asked == answered and all(message.can_be_kept for message in turn)
