"""What is lost, and what is saved, where a bounded workspace stands for a whole conversation.

Each recorded run is lived through again. Before each call of a tool, the agent is thought to see
the system prompt and the workspace of all that went before, in place of that itself. Whether it
could still make the call is judged by the values of its arguments: those that stood somewhere in
what went before have to stand in the workspace, or in what one search brings.
"""

import json
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import msgspec

from governor.experience.keepsake import Keepsake
from governor.experience.piece import Piece, PieceKind
from governor.experience.tokens import tokens_of
from governor.experience.workspace import PARTS, WorkspaceTerms, workspace_of
from governor.ids import ExperienceId, SessionId, TenantId
from runtime.evaluate.conversations import Messages
from runtime.model_gateway.compaction.chat import read_chat
from runtime.model_gateway.compaction.contents import text_of
from runtime.model_gateway.compaction.conversation import Conversation, Part, pieces_of
from runtime.model_gateway.compaction.expanding import expanded
from runtime.model_gateway.compaction.folding import Owner, folding_of
from runtime.model_gateway.compaction.plan import Plan
from runtime.model_gateway.compaction.report import fenced

TENANT = TenantId("evaluation")
# A value of one character is everywhere.
_VALUE_CHARS_MIN = 2
_QUESTION_CHARS_MAX = 300
_INDEX = re.compile(r"List of all: (exp_[a-z2-7]{16})")
_KEY = b"evaluation"
_PER_MESSAGE = 4
_GOAL = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextTerms:
    """How large a workspace may be, and what one search may bring.

    It is never more than one of `parts` of what it stands for: a workspace as long as a short
    history would be worse than that itself.
    """

    max_tokens: int = 380
    parts: int = PARTS
    last_turns: int = 1
    search_tokens_max: int = 2_000
    search_most: int = 10


class Bank(Protocol):
    """A real store, as an agent has it in one session."""

    async def keep(self, keepsakes: Sequence[Keepsake], session: SessionId) -> int:
        """Return how many of some contents are kept after this."""
        ...

    async def content(self, index: ExperienceId) -> bytes:
        """Return a content, whole."""
        ...

    async def search(self, text: str, session: SessionId, *, most: int) -> Sequence[bytes]:
        """Return the contents that are found for a text among those of the session."""
        ...


@dataclass(slots=True)
class RunFigures:
    """What was counted of one run."""

    history_tokens: int = 0
    system_tokens: int = 0
    workspace_tokens: int = 0
    messages: int = 0
    expanded: int = 0
    values: int = 0
    visible: int = 0
    found: int = 0
    lost: dict[str, int] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """Return how many times smaller the workspace is than what it stands for."""
        return self.history_tokens / max(1, self.workspace_tokens)


async def lived_again(
    messages: Messages, session: SessionId, bank: Bank, terms: ContextTerms
) -> RunFigures:
    """Return the figures of one run, kept in a session of its own."""
    conversation = read_chat(messages)
    figures = RunFigures()
    kept = 0
    for at, message in enumerate(messages):
        if message["role"] != "assistant" or not message.get("tool_calls"):
            continue
        before = Past(messages[:at], conversation, session)
        await bank.keep(before.keepsakes[kept:], session)
        kept = len(before.keepsakes)
        await _judge(message, before, bank, terms, figures)
    whole = Past(messages, conversation, session)
    await bank.keep((*whole.keepsakes, *whole.listed), session)
    text = whole.shown(terms)
    figures.history_tokens, figures.system_tokens = whole.tokens, whole.system_tokens
    figures.workspace_tokens = tokens_of(text)
    await _expand(text, whole, bank, figures)
    return figures


class Past:
    """What went before a moment of a run: its pieces, and what of it is kept."""

    def __init__(self, messages: Messages, whole: Conversation, session: SessionId) -> None:
        """Take the messages before that moment, of a conversation that was read whole."""
        read = whole.messages[: len(messages)]
        # What cannot be kept whole, a picture that a tool gave, stays where it is.
        places = tuple(
            at
            for at, one in enumerate(read)
            if one.part is not Part.INSTRUCTIONS and one.can_be_kept
        )
        self.owner = Owner(tenant=TENANT, session=session, key=_KEY)
        self.messages = [messages[at] for at in places]
        self._read = [read[at] for at in places]
        self.system_tokens = sum(
            _PER_MESSAGE + tokens_of(one.text) for one in read if one.part is Part.INSTRUCTIONS
        )
        if not places:
            self.keepsakes: tuple[Keepsake, ...] = ()
            self.listed: tuple[Keepsake, ...] = ()
            self.contents: ExperienceId | None = None
            return
        plan = Plan(borders=(read[-1].turn + 1,), results=(), folded=places)
        folding = folding_of(messages, Conversation(messages=tuple(read)), plan, self.owner)
        self.keepsakes, self.listed = folding.folded[:-1], folding.folded[-1:]
        self.contents = folding.contents

    @property
    def pieces(self) -> list[Piece]:
        """Return the pieces, each with where it is kept."""
        found = []
        for message in self._read:
            results = iter(message.results)
            for piece in pieces_of([message]):
                kept = message.content
                if piece.kind is PieceKind.RESULT:
                    kept = next(results).content
                index = None if kept is None else self.owner.index(kept)
                found.append(replace(piece, index=index))
        return found

    @property
    def text(self) -> str:
        """Return everything that was said, asked and answered, as the model had it."""
        return "\n".join(_texts(self.messages))

    @property
    def tokens(self) -> int:
        """Return how many tokens it is, without what a template puts around messages."""
        return sum(tokens_of(text) for text in _texts(self.messages))

    @property
    def last_words(self) -> str:
        """Return what the user said last."""
        said = [message for message in self.messages if message["role"] == "user"]
        return text_of(said[-1].get("content"))[:_QUESTION_CHARS_MAX] if said else ""

    def shown(self, terms: ContextTerms) -> str:
        """Return the workspace as the model gets it, with the marks around what is quoted."""
        bare = WorkspaceTerms(
            max_tokens=min(terms.max_tokens, self.tokens // terms.parts)
            - tokens_of(fenced("", key=_KEY)),
            last_turns=terms.last_turns,
            contents=self.contents,
        )
        workspace = workspace_of(self.pieces, bare)
        return fenced(workspace.text, key=_KEY)


async def _judge(
    message: Mapping[str, Any],
    before: Past,
    bank: Bank,
    terms: ContextTerms,
    figures: RunFigures,
) -> None:
    """Count the values of a call's arguments: those that are visible, and those found again."""
    past, shown = before.text, before.shown(terms)
    for call in message["tool_calls"]:
        function = call["function"]
        values = [one for one in _values(function["arguments"]) if _stands_in(one[1], past)]
        missing = [one for one in values if not _stands_in(one[1], shown)]
        figures.values += len(values)
        figures.visible += len(values) - len(missing)
        if not missing:
            continue
        question = _question(function["name"], values, missing, before.last_words)
        session = before.owner.session
        contents = await bank.search(question, session, most=terms.search_most)
        brought = _within(contents, terms.search_tokens_max)
        for key, value in missing:
            if _stands_in(value, brought):
                figures.found += 1
            else:
                figures.lost[key] = figures.lost.get(key, 0) + 1


def _question(
    tool: str,
    values: Sequence[tuple[str, str]],
    missing: Sequence[tuple[str, str]],
    last_words: str,
) -> str:
    """Return what is searched for, once for a whole call, in words that its maker has.

    Those are the tool and the names of its arguments, the values that are still visible, and
    what the user said last.
    """
    names = " ".join(dict.fromkeys([tool, *(key for key, _ in values)])).replace("_", " ")
    visible = " ".join(dict.fromkeys(one[1] for one in values if one not in missing))
    return f"{names} {visible} {last_words}"


async def _expand(text: str, whole: Past, bank: Bank, figures: RunFigures) -> None:
    """Count the messages that come back as they were, from no more than what the workspace says."""
    figures.messages = len(whole.messages)
    index = _INDEX.search(text)
    if index is None:
        return
    read: dict[ExperienceId, bytes] = {}
    waiting = [ExperienceId(index[1])]
    while waiting:
        one = waiting.pop()
        if one not in read:
            read[one] = await bank.content(one)
            waiting += _named_in(read[one]) if one == index[1] else []
    back = expanded(ExperienceId(index[1]), read.__getitem__)
    figures.expanded = sum(
        msgspec.json.encode(was) == msgspec.json.encode(now)
        for was, now in zip(whole.messages, back, strict=False)
    )


def _named_in(listed: bytes) -> list[ExperienceId]:
    entries = msgspec.json.decode(listed)["messages"]
    found = [entry["index"] for entry in entries if "index" in entry]
    return found + [one["index"] for entry in entries for one in entry.get("results", ())]


def _texts(messages: Messages) -> Iterator[str]:
    for message in messages:
        yield text_of(message.get("content"))
        for call in message.get("tool_calls") or ():
            yield call["function"]["name"]
            yield call["function"]["arguments"]


def _values(arguments: str) -> list[tuple[str, str]]:
    """Return each value of a call's arguments with its name."""
    try:
        return list(_leaves(json.loads(arguments), ""))
    except ValueError:
        return []


def _leaves(value: object, key: str) -> Iterator[tuple[str, str]]:
    match value:
        case dict():
            for name, held in value.items():
                yield from _leaves(held, name)
        case list():
            for held in value:
                yield from _leaves(held, key)
        case bool() | None:
            return
        case _:
            if len(text := str(value)) >= _VALUE_CHARS_MIN:
                yield key, text


def _stands_in(value: str, text: str) -> bool:
    """Tell whether a value stands in a text by itself, not as a part of another word."""
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text) is not None


def _within(contents: Sequence[bytes], tokens_max: int) -> str:
    """Return as much of the contents as a bounded answer holds, the last one cut."""
    left, taken = tokens_max, []
    for content in contents:
        text = content.decode(errors="replace")
        tokens = tokens_of(text)
        if tokens > left:
            taken.append(text[: len(text) * left // max(1, tokens)])
            break
        taken.append(text)
        left -= tokens
    return "\n".join(taken)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextEvaluation:
    """The figures of all runs."""

    runs: tuple[RunFigures, ...]
    terms: ContextTerms

    def shape(self) -> dict[str, object]:
        """Return the evaluation as it is printed with --json."""
        ratios = [run.ratio for run in self.runs]
        values, visible, found = (
            self._sum(lambda run: run.values),
            self._sum(lambda run: run.visible),
            self._sum(lambda run: run.found),
        )
        history = self._sum(lambda run: run.history_tokens)
        system = self._sum(lambda run: run.system_tokens)
        workspace = self._sum(lambda run: run.workspace_tokens)
        lost: dict[str, int] = {}
        for run in self.runs:
            for key, count in run.lost.items():
                lost[key] = lost.get(key, 0) + count
        return {
            "runs": len(self.runs),
            "compression": {
                "total": round(history / workspace, 3),
                "median": round(statistics.median(ratios), 3),
                "least": round(min(ratios), 3),
                "share_of_runs_at_5x": round(sum(one >= _GOAL for one in ratios) / len(ratios), 3),
                "total_with_system": round((history + system) / (workspace + system), 3),
                "history_tokens": history,
                "system_tokens": system,
                "workspace_tokens": workspace,
            },
            "expansion": {
                "messages": self._sum(lambda run: run.messages),
                "byte_exact": self._sum(lambda run: run.expanded),
            },
            "arguments": {
                "visible_before": values,
                "visible": round(visible / max(1, values), 4),
                "found_by_one_search": round(found / max(1, values), 4),
                "kept_in_reach": round((visible + found) / max(1, values), 4),
                "lost": dict(sorted(lost.items(), key=lambda each: -each[1])),
            },
            "terms": msgspec.to_builtins(self.terms),
        }

    def _sum(self, of: Callable[[RunFigures], int]) -> int:
        return sum(of(run) for run in self.runs)
