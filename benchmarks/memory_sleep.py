"""What quiet hours cost, and what they save later.

    python -m benchmarks.memory_sleep [--asks 1500] [--seeds 3] [--json]

Facts of some 300 tokens are kept in a real store (SQLite), and asked for as words are, by Zipf.
The same questions are asked twice: of a memory that is searched each time, and of one that the
house works for after every tenth of them. Counted are the tokens that readers were given (of a
search, what it found up to 2,000 tokens), those that the house read itself, and how often what was
given says what is true: one fact in ten is corrected half-way, and more facts come all the time.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio
import numpy as np

from benchmarks.measure import machine
from governor.amounts import Amounts, Unit
from governor.experience.experience import Draft, Experience, Provenance
from governor.experience.kinds import ExperienceKind, TrustLane
from governor.experience.search import Found, Search
from governor.experience.tokens import tokens_of
from governor.ids import ExperienceId, NamespaceId, PrincipalId, TenantId
from governor.retrieval.analysis import index_terms, traits_of
from memory_store.audit import Actor
from memory_store.engine import Durability
from memory_store.experiences.values import Indexed, Written
from memory_store.lessons.ended import EndedSession
from memory_store.lessons.quiet_turn import QuietTurn
from memory_store.store import Store, open_store
from runtime.adapters import StoreLedger
from runtime.clock import SystemClock
from runtime.configuration.memory_learning import SleepTable, sleep_terms_of
from runtime.memory.house.allowance import Allowance
from runtime.memory.lessons.playbooks import Place, PlaybookDesk
from runtime.memory.ports import Searching
from runtime.memory.quiet.prepared import PreparedSearching
from runtime.memory.quiet.sleeping import Sleeper
from tool_gateway.books import Books

TENANT, AGENT = TenantId("acme"), PrincipalId("ada")
FACTS = 300
MOST = 5
READ_TOKENS_MAX = 2_000
NIGHTS = 10
_THINGS = ("deploy key", "on-call phone", "backup window", "invoice number", "door code", "licence")
_PLACES = ("billing", "search", "checkout", "warehouse", "payroll", "support", "mobile", "fraud")
_CITIES = ("Oslo", "Lima", "Cairo", "Perth", "Quito", "Turin", "Kyoto")
_FILLER = (
    "It was agreed with everybody who has a say in it. ",
    "Who has questions may ask the team that looks after it. ",
    "There is a page with pictures that explains how it came about. ",
    "Nobody remembers what was there before it. ",
)


@dataclass
class Memory:
    """A store with facts in it; `truth` is what is true of each question."""

    store: Store
    space: NamespaceId
    truth: dict[str, str] = field(default_factory=dict)
    kept: dict[str, ExperienceId] = field(default_factory=dict)

    async def keep(self, draft: Draft, *, is_found: bool = True) -> bool:
        """Keep a draft as the house does; tell whether it is new."""
        text = draft.content.decode()
        ready = Indexed(
            draft=draft,
            terms=index_terms(text) if is_found else "",
            traits=traits_of(text),
            tokens=tokens_of(text),
        )
        (written,) = await self.store.experiences.write((ready,))
        return isinstance(written, Written) and written.is_new

    async def tell(self, question: str, value: str, *, number: int, now_ms: int) -> None:
        """Keep a fact; it corrects what was known of the question before."""
        filler = "".join(_FILLER[(number + n) % len(_FILLER)] for n in range(20))
        text = f"The {question} is {value}. {filler}"
        index = ExperienceId(f"exp_{number:06d}")
        await self.keep(
            Draft(
                experience_id=index,
                tenant=TENANT,
                namespace=self.space,
                kind=ExperienceKind.FACT,
                lane=TrustLane.AGENT,
                content=text.encode(),
                media_type="text/plain",
                summary=text[:200],
                provenance=Provenance(writer=AGENT),
                learned_at_ms=now_ms,
                valid_from_ms=now_ms,
                supersedes=self.kept.get(question),
            )
        )
        self.truth[question], self.kept[question] = value, index


@dataclass
class Tally:
    """What readers were given, whether it was true, and how long it took."""

    tokens: int = 0
    right: int = 0
    asks: int = 0
    ms: list[float] = field(default_factory=list)

    async def ask(self, memory: Memory, searching: Searching, question: str, now_ms: int) -> None:
        """Ask a question, and count what a reader is given."""
        began = time.perf_counter()
        found = await searching.search(
            Search(
                tenant=TENANT,
                namespaces=(memory.space,),
                text=f"what is the {question}",
                now_ms=now_ms,
                most=MOST,
            )
        )
        self.ms.append((time.perf_counter() - began) * 1e3)
        words = await _given(memory, found)
        self.asks += 1
        self.tokens += sum(map(tokens_of, words))
        self.right += any(memory.truth[question] in text for text in words)


async def _given(memory: Memory, found: Found) -> list[str]:
    """Return what a reader of so many tokens gets, the best first."""
    ids = tuple(hit.experience.experience_id for hit in found.hits)
    contents = await memory.store.experiences.contents(ids, tenant=TENANT, bytes_max=1 << 20)
    texts, left = [], READ_TOKENS_MAX
    for content in contents:
        text = (content or b"").decode()
        if tokens_of(text) > left:
            break
        left -= tokens_of(text)
        texts.append(text)
    return texts


def _sleeper(memory: Memory, clock: SystemClock) -> Sleeper:
    store = memory.store
    books = Books(ledger=StoreLedger(ledger=store.ledger, calls=store.calls), clock=clock)

    async def nothing(_: EndedSession) -> tuple[Experience, ...]:
        return ()

    async def clean(_: EndedSession) -> bool:
        return False

    async def place_of(ended: EndedSession) -> Place:
        return Place(tenant=TENANT, namespace=memory.space, task_class=ended.task_class)

    desk = PlaybookDesk(
        store.playbooks, store.calls, kept=nothing, saw_untrusted=clean, key=b"secret", clock=clock
    )
    limits = Amounts({Unit.MEMORY_READ_TOKENS: 100_000_000})
    terms = sleep_terms_of(SleepTable(asked_min=2, answer_tokens_max=120))
    return Sleeper(
        store,
        store.experience_search,
        desk,
        Allowance(books, store.budgets, store.questions, clock=clock, limits=limits),
        keep=memory.keep,
        place_of=place_of,
        is_idle=lambda: True,
        clock=clock,
        turn=QuietTurn(reader=store.reader).taken,
        terms=lambda: terms,
    )


async def run(folder: Path, *, asks: int, seed: int, sleeps: bool) -> dict[str, float]:
    """Return what one run of the questions took and gave."""
    chance, clock = np.random.default_rng(seed), SystemClock()
    async with open_store(folder, durability=Durability.PROCESS) as store:
        await store.tenants.create(TENANT, name="Acme", by=Actor(name="root"), now_ms=1)
        made = await store.namespaces.make("agent", tenant=TENANT, owner=AGENT, now_ms=1)
        memory = Memory(store=store, space=made.namespace)
        names = [f"{a} of {b} in {c}" for a in _THINGS for b in _PLACES for c in _CITIES][:FACTS]
        for number, name in enumerate(names):
            await memory.tell(name, f"V{number:05d}", number=number, now_ms=clock.now_ms())
        order = chance.permutation(FACTS)
        chances = 1.0 / np.arange(1, FACTS + 1)
        asked = [names[order[n]] for n in chance.choice(FACTS, asks, p=chances / chances.sum())]
        prepared = PreparedSearching(store.experience_search, store.questions, store.experiences)
        searching: Searching = prepared if sleeps else store.experience_search
        sleeper, tally, number = _sleeper(memory, clock), Tally(), FACTS
        for place, question in enumerate(asked):
            if place == asks // 2:
                for name in names[::10]:
                    await memory.tell(name, f"W{number:05d}", number=number, now_ms=clock.now_ms())
                    number += 1
            if place % 20 == 0:
                news = f"lunch number {number}"
                await memory.tell(news, f"N{number:05d}", number=number, now_ms=clock.now_ms())
                number += 1
            await tally.ask(memory, searching, question, clock.now_ms())
            if sleeps and place % (asks // NIGHTS) == asks // NIGHTS - 1:
                await prepared.flush()
                while (await sleeper.night()).answered:
                    pass
        await prepared.flush()
        figures = await store.questions.figures(TENANT)
    return {
        "given_tokens": tally.tokens,
        "house_tokens": figures.tokens,
        "answers_made": figures.made,
        "served": figures.served,
        "right": tally.right / tally.asks,
        "p50_ms": statistics.median(tally.ms),
    }


async def compared(*, asks: int, seeds: int) -> dict[str, object]:
    """Return both arms over some seeds, and what sleeping saves after its own cost."""
    arms: dict[str, list[dict[str, float]]] = {"searched": [], "slept": []}
    for seed in range(seeds):
        for name, found in arms.items():
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "state"
                found.append(await run(path, asks=asks, seed=seed, sleeps=name == "slept"))
    means = {
        name: {key: round(statistics.mean(one[key] for one in found), 4) for key in found[0]}
        for name, found in arms.items()
    }
    nets = [
        1.0 - (slept["given_tokens"] + slept["house_tokens"]) / searched["given_tokens"]
        for slept, searched in zip(arms["slept"], arms["searched"], strict=True)
    ]
    given = [
        1.0 - slept["given_tokens"] / searched["given_tokens"]
        for slept, searched in zip(arms["slept"], arms["searched"], strict=True)
    ]
    return {
        "asks": asks,
        "seeds": seeds,
        "arms": means,
        "saved_for_readers": [
            round(one, 4) for one in (min(given), statistics.mean(given), max(given))
        ],
        "saved_after_own_cost": [
            round(one, 4) for one in (min(nets), statistics.mean(nets), max(nets))
        ],
    }


def main() -> int:
    """Print the table, or one object with `--json`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--asks", type=int, default=1_500)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found = anyio.run(partial(compared, asks=asked.asks, seeds=asked.seeds))
    if not asked.json:
        print(machine())
    print(json.dumps(found, indent=None if asked.json else 2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
