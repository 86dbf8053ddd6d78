"""What the defence costs: recall of benign turns with it and without it, before and after attacks.

Turns of conversations are written as agents write them, in sessions that saw nothing and in ones
that read a page before, and as results of tools. Without the defence the same items stand in one
namespace, all in one lane and in force.
"""

import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.memory_house import TEAM, House, a_house
from governor.experience.experience import Draft, Provenance
from governor.experience.kinds import ExperienceKind, TrustLane
from governor.experience.search import Filters, Search
from governor.ids import ExperienceId, NamespaceId, PrincipalId, SessionId
from runtime.evaluate.memory.conversations import Conversation, Turn, read_conversations
from runtime.memory.indexing import indexed
from runtime.token_files import TENANT
from runtime.word_vectors import vectors_if_any

MOST = 10
_LANES = tuple(TrustLane)
_CONVERSATIONS = 2
_COPIES = 10
_NOW_MS = 1_800_000_000_000

Asked = Callable[[str], Awaitable[list[str]]]
"""Returns what is found for a question, by the ids of turns where it is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """How much of the evidence of questions was found, in the mean."""

    recall: float
    questions: int

    def shape(self) -> dict[str, float | int]:
        """Return it for a program."""
        return {"recall@10": self.recall, "n": self.questions}


@dataclass
class Benign:
    """What became of benign turns."""

    written: int = 0
    quarantined: int = 0
    recalls: dict[str, Recall] = field(default_factory=dict)


async def recalls_of(path: Path, payloads: Sequence[str], folder: Path) -> Benign:
    """Return recall before and after an attack, with the defence and without it."""
    conversations = read_conversations(path)[:_CONVERSATIONS]
    benign = Benign()
    async with a_house(folder) as house:
        turn_of = await _defended(house, conversations, benign)
        bare = await house.store.namespaces.make("team/bare", tenant=TENANT, now_ms=1)
        writing = _Bare(house, bare.namespace)
        for conversation in conversations:
            for turn in conversation.turns:
                await writing.write(turn.text, f"{conversation.name} {turn.turn_id}", turn)

        async def through_tools(question: str) -> list[str]:
            found = await house.agents["victim"].call(
                "asks",
                "memory_search",
                query=question,
                limit=MOST,
                max_tokens=32_000,
                lanes=[lane.value for lane in _LANES],
                namespaces=[TEAM, "agent"],
            )
            return [turn_of.get(str(hit["index"]), "") for hit in found.hits]

        arms: Mapping[str, Asked] = {"defended": through_tools, "undefended": writing.search}
        for when in ("before the attack", "after it"):
            for name, asked in arms.items():
                benign.recalls[f"{name}, {when}"] = await _recall(asked, conversations)
            if when == "before the attack":
                await _flood(house, writing, payloads)
    return benign


async def _defended(
    house: House, conversations: Sequence[Conversation], benign: Benign
) -> dict[str, str]:
    """Write the turns as agents do, and return the turn of each index."""
    victim = house.agents["victim"]
    turn_of: dict[str, str] = {}
    for conversation in conversations:
        for number, (session, turns) in enumerate(
            itertools.groupby(conversation.turns, key=lambda turn: turn.session)
        ):
            named = f"{conversation.name} {session}"
            if number % 2:
                await victim.call(named, "web__echo", text="a page")
            for turn in turns:
                kept = await victim.call(
                    named, "memory_write", content=turn.text, actor=turn.speaker, namespace=TEAM
                )
                benign.written += 1
                benign.quarantined += kept.structured["standing"] == "quarantined"
                turn_of[kept.index] = f"{conversation.name} {turn.turn_id}"
    return turn_of


async def _flood(house: House, writing: "_Bare", payloads: Sequence[str]) -> None:
    """Write each payload many times over, by an agent that may write there."""
    attacker = house.agents["attacker"]
    for at, payload in enumerate(payloads):
        for number in range(_COPIES):
            text = payload if number % 2 else f"{payload} Note {number}."
            await attacker.call(f"flood{at}", "memory_write", content=text, namespace=TEAM)
            await writing.write(text, "")


async def _recall(asked: Asked, conversations: Sequence[Conversation]) -> Recall:
    shares: list[float] = []
    for conversation in conversations:
        for question in conversation.questions:
            found = set(await asked(question.text))
            wanted = {f"{conversation.name} {turn}" for turn in question.evidence}
            shares.append(len(found & wanted) / len(wanted))
    return Recall(recall=sum(shares) / len(shares), questions=len(shares))


class _Bare:
    """A memory that trusts everybody: one lane, everything in force, found as it is ranked."""

    def __init__(self, house: House, namespace: NamespaceId) -> None:
        self._store = house.store
        self._namespace = namespace
        self._numbers = itertools.count()
        self._turn_of: dict[str, str] = {}

    async def write(self, text: str, turn_id: str, turn: Turn | None = None) -> None:
        """Keep a text."""
        index = ExperienceId(f"exp_bare{next(self._numbers):08d}")
        self._turn_of[index] = turn_id
        draft = Draft(
            experience_id=index,
            tenant=TENANT,
            namespace=self._namespace,
            kind=ExperienceKind.OBSERVATION,
            lane=TrustLane.AGENT,
            content=text.encode(),
            media_type="text/plain",
            summary=text[:200],
            provenance=Provenance(writer=PrincipalId("victim")),
            learned_at_ms=_NOW_MS,
            valid_from_ms=_NOW_MS,
            actor="" if turn is None else turn.speaker,
            session=None if turn is None else SessionId(turn.session),
        )
        await self._store.experiences.write((await indexed(draft, vectors_if_any()),))

    async def search(self, question: str) -> list[str]:
        """Return what is found."""
        found = await self._store.experience_search.search(
            Search(
                tenant=TENANT,
                namespaces=(self._namespace,),
                text=question,
                now_ms=_NOW_MS,
                most=MOST,
                filters=Filters(lanes=_LANES),
            )
        )
        return [self._turn_of[hit.experience.experience_id] for hit in found.hits]
