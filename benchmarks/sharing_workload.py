"""A made workload of agents that work side by side, and what they share through one bank.

Topics have facts; a task needs some facts of its topic, and each fact is looked for in the bank
before it is worked out anew. Besides facts, agents note what helps nobody else; some facts are
true for a while only, and one agent gets many of them wrong. Everything is drawn from one seed, so
a workload is the same for every way of sharing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from governor.experience.kinds import ExperienceKind, TrustLane
from governor.experience.sharing import (
    Admission,
    Entry,
    EntryCredit,
    EntryOutcome,
    Offer,
    Sharing,
    SharingTerms,
    decided,
    is_withdrawn,
    nothing_known,
    taught,
)
from governor.ids import ExperienceId, PrincipalId

AGENTS, ROUNDS, TOPICS, FACTS = 6, 120, 40, 8
FACTS_NEEDED, NOTES = 4, 3
HITS, TOKENS_MAX = 5, 1_500
# An experience that nobody made anything of for so many rounds is learned to be worth nothing.
SETTLED_ROUNDS = 20
_WRONG_OF_CARELESS, _WRONG_OF_OTHERS = 0.5, 0.02
_MISLED = 0.5
_FLEETING = 0.2
_NOISE = 0.22


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something to be found out: what it takes, and for how many rounds it stays true."""

    topic: int
    number: int
    tokens: int
    cost_microusd: int
    lasts: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What one agent does in one round."""

    topic: int
    facts: tuple[Fact, ...]
    notes: tuple[int, ...]


@dataclass(slots=True, kw_only=True)
class Item:
    """What was written, whether the team finds it, and what became of it."""

    offer: Offer
    fact: Fact | None
    topic: int
    made: int
    is_right: bool
    admission: Admission | None
    credit: EntryCredit = field(default_factory=EntryCredit)
    learned: EntryCredit | None = None
    is_shared: bool = False


@dataclass(slots=True, kw_only=True)
class Tally:
    """What came of a workload."""

    tasks: int = 0
    solved: int = 0
    worked: int = 0
    redone: int = 0
    saved: int = 0
    misled: int = 0
    tokens_read: int = 0
    cost_microusd: int = 0
    entered: int = 0
    offered: int = 0
    of_use: int = 0


class Bank(Protocol):
    """A way to share: what enters, and what is learned of it."""

    def admits(self, offer: Offer) -> Admission | None:
        """Return what is decided, None where nothing is."""
        ...

    def withdraws(self, admission: Admission, credit: EntryCredit) -> bool:
        """Tell whether what entered leaves again."""
        ...

    def learn(self, usages: tuple[EntryOutcome, ...]) -> None:
        """Learn what became of decisions."""
        ...


class Everything:
    """Shares all that is written; exactly the same is not shared twice."""

    def admits(self, offer: Offer) -> Admission:
        """Return that it enters."""
        state = nothing_known("everything")
        found = decided(offer, state, SharingTerms(worth_min=-9.0, explored=0.0, token_cost=0.0))
        assert found.entry is not Entry.STAYS
        return found

    def withdraws(self, admission: Admission, credit: EntryCredit) -> bool:
        """Return that nothing leaves."""
        return False

    def learn(self, usages: tuple[EntryOutcome, ...]) -> None:
        """Learn nothing."""


class Nothing:
    """Shares nothing."""

    def admits(self, offer: Offer) -> None:
        """Return that nothing is decided."""

    def withdraws(self, admission: Admission, credit: EntryCredit) -> bool:
        """Return that nothing leaves."""
        return False

    def learn(self, usages: tuple[EntryOutcome, ...]) -> None:
        """Learn nothing."""


class Learned:
    """Shares what was learned to be of use."""

    def __init__(self, terms: SharingTerms | None = None) -> None:
        """Begin with nothing learned."""
        self.terms = terms or SharingTerms()
        self.state: Sharing = nothing_known("workload")

    def admits(self, offer: Offer) -> Admission:
        """Return what is decided by what was learned until now."""
        return decided(offer, self.state, self.terms)

    def withdraws(self, admission: Admission, credit: EntryCredit) -> bool:
        """Tell whether what entered did more harm than good."""
        return is_withdrawn(admission.expected, credit, self.terms)

    def learn(self, usages: tuple[EntryOutcome, ...]) -> None:
        """Learn what became of decisions."""
        self.state = taught(self.state, usages)


def facts_of(dice: Random) -> list[list[Fact]]:
    """Return the facts of each topic."""
    return [
        [
            Fact(
                topic=topic,
                number=number,
                tokens=int(dice.lognormvariate(5.0, 0.8)) + 20,
                cost_microusd=int(dice.lognormvariate(6.5, 1.0)) + 50,
                lasts=dice.randint(4, 15) if dice.random() < _FLEETING else None,
            )
            for number in range(FACTS)
        ]
        for topic in range(TOPICS)
    ]


def tasks_of(dice: Random) -> list[list[Task]]:
    """Return for each round a task for each agent; some topics are asked for again and again."""
    facts = facts_of(dice)
    weights = [1.0 / (rank + 2) for rank in range(TOPICS)]
    rounds = []
    for _ in range(ROUNDS):
        topics = dice.choices(range(TOPICS), weights, k=AGENTS)
        rounds.append(
            [
                Task(
                    topic=topic,
                    facts=tuple(dice.sample(facts[topic], FACTS_NEEDED)),
                    notes=tuple(int(dice.lognormvariate(5.0, 0.8)) + 20 for _ in range(NOTES)),
                )
                for topic in topics
            ]
        )
    return rounds


class Workload:
    """Agents at work for some rounds with one bank."""

    def __init__(self, seed: int, bank: Bank) -> None:
        """Take the seed that the tasks, and what agents make of them, are drawn from."""
        self._rounds = tasks_of(Random(seed))  # noqa: S311 - a simulation
        self._dice = Random(seed + 1)  # noqa: S311 - a simulation
        self._bank = bank
        self._items: list[list[Item]] = [[] for _ in range(TOPICS)]
        self._known: list[dict[Fact, tuple[int, bool]]] = [{} for _ in range(AGENTS)]
        self._in_bank = 0
        self.tally = Tally()

    def run(self) -> Tally:
        """Return what came of all rounds."""
        for now, tasks in enumerate(self._rounds):
            # All of a round begin together, so none of them finds what the others are making.
            there = [[item for item in items if item.is_shared] for items in self._items]
            made = [
                item
                for agent, task in enumerate(tasks)
                for item in self._do(agent, task, there[task.topic], now)
            ]
            for item in made:
                self._decide(item)
            self._learn(now)
        entered = [item for items in self._items for item in items if _entered(item)]
        self.tally.of_use = sum(item.credit.helped > 0 for item in entered)
        return self.tally

    def _decide(self, item: Item) -> None:
        item.admission = self._bank.admits(item.offer)
        item.is_shared = _entered(item)
        self.tally.offered += 1
        self.tally.entered += item.is_shared
        self._in_bank += item.is_shared
        self._items[item.topic].append(item)

    def _do(self, agent: int, task: Task, there: Sequence[Item], now: int) -> list[Item]:
        known = self._known[agent]
        made: list[Item] = []
        read: list[Item] = []
        for fact in task.facts:
            own = known.get(fact)
            if own is not None and _holds(fact, made=own[0], now=now):
                continue
            found = self._search(agent, fact, there)
            if found is None:
                made.append(self._work(agent, fact, now))
            else:
                read.append(found)
                known[fact] = found.made, found.is_right
                self.tally.saved += _is_right(found, now)
        wrong = [
            fact
            for fact in task.facts
            if not (known[fact][1] and _holds(fact, made=known[fact][0], now=now))
        ]
        solved = not wrong or self._dice.random() > _MISLED
        self.tally.tasks += 1
        self.tally.solved += solved
        self.tally.misled += any(not _is_right(item, now) for item in read)
        for item in read:
            _credit(item, helped=int(solved), failed=int(not solved))
        if not solved:
            # Who failed finds out by what, and works it out anew the next time.
            for fact in wrong:
                known.pop(fact)
        return [*made, *(self._note(agent, task.topic, tokens, now) for tokens in task.notes)]

    def _search(self, agent: int, fact: Fact, there: Sequence[Item]) -> Item | None:
        """Return the best of what is shown that says the fact, and count what is shown."""
        scored = [
            (self._dice.gauss(1.0 if item.fact == fact else 0.6, _NOISE), -at, item)
            for at, item in enumerate(there)
            if item.offer.writer != _name(agent)
        ]
        room, shown = TOKENS_MAX, []
        for _, _, item in sorted(scored, key=lambda one: one[:2], reverse=True)[:HITS]:
            if item.offer.tokens <= room:
                room -= item.offer.tokens
                shown.append(item)
        self.tally.tokens_read += TOKENS_MAX - room
        found = next((item for item in shown if item.fact == fact), None)
        for item in shown:
            if item is not found:
                _credit(item, unread=1)
        return found

    def _work(self, agent: int, fact: Fact, now: int) -> Item:
        wrong = _WRONG_OF_CARELESS if agent == 0 else _WRONG_OF_OTHERS
        is_right = self._dice.random() >= wrong
        self.tally.worked += 1
        self.tally.cost_microusd += fact.cost_microusd
        others = [
            item
            for item in self._items[fact.topic]
            if item.fact == fact and item.offer.writer != _name(agent) and _is_right(item, now)
        ]
        self.tally.redone += bool(others)
        for item in others:
            # The same came of it, so whoever looks can see that it was done twice.
            if not item.is_shared and is_right:
                _credit(item, redone=1)
        self._known[agent][fact] = now, is_right
        # What is true for a while mostly looks like an observation, the rest like a result.
        kinds = [ExperienceKind.TOOL_RESULT, ExperienceKind.OBSERVATION, ExperienceKind.LESSON]
        kind = self._dice.choices(kinds, [1, 8, 1] if fact.lasts else [6, 2, 2])[0]
        offer = self._offer(agent, fact.topic, kind, fact.tokens, fact.cost_microusd, fact=fact)
        return Item(
            offer=offer, fact=fact, topic=fact.topic, made=now, is_right=is_right, admission=None
        )

    def _note(self, agent: int, topic: int, tokens: int, now: int) -> Item:
        kinds = [ExperienceKind.DECISION, ExperienceKind.OBSERVATION, ExperienceKind.TOOL_RESULT]
        kind = self._dice.choices(kinds, [6, 3, 1])[0]
        cost = int(self._dice.lognormvariate(4.5, 1.0))
        offer = self._offer(agent, topic, kind, tokens, cost)
        return Item(offer=offer, fact=None, topic=topic, made=now, is_right=True, admission=None)

    def _offer(
        self,
        agent: int,
        topic: int,
        kind: ExperienceKind,
        tokens: int,
        cost: int,
        *,
        fact: Fact | None = None,
    ) -> Offer:
        alike = [item for item in self._items[topic] if item.is_shared]
        is_known = any(fact is not None and item.fact == fact for item in alike)
        novelty = 0.1 if is_known else self._dice.uniform(0.3, 0.9) if alike else 1.0
        return Offer(
            experience=ExperienceId(f"exp_{self.tally.offered}_{topic}_{agent}_{cost}_{tokens}"),
            writer=_name(agent),
            kind=kind,
            lane=TrustLane.TOOL if kind is ExperienceKind.TOOL_RESULT else TrustLane.AGENT,
            novelty=novelty,
            tokens=tokens,
            cost_microusd=cost,
            bank_items=self._in_bank,
        )

    def _learn(self, now: int) -> None:
        """Teach what changed, and of what is old by now that nothing came of it."""
        usages = []
        for item in (item for items in self._items for item in items):
            admission = item.admission
            is_due = item.credit.is_any or now - item.made >= SETTLED_ROUNDS
            if admission is None or item.learned == item.credit or not is_due:
                continue
            usages.append(
                EntryOutcome(
                    context=admission.context,
                    writer=item.offer.writer,
                    entered=_entered(item),
                    credit=item.credit,
                    before=item.learned,
                )
            )
            item.learned = item.credit
            if item.is_shared and self._bank.withdraws(admission, item.credit):
                item.is_shared = False
                self._in_bank -= 1
        self._bank.learn(tuple(usages))


def _credit(
    item: Item, *, helped: int = 0, failed: int = 0, unread: int = 0, redone: int = 0
) -> None:
    before = item.credit
    item.credit = EntryCredit(
        helped=before.helped + helped,
        failed=before.failed + failed,
        unread=before.unread + unread,
        redone=before.redone + redone,
    )


def _entered(item: Item) -> bool:
    return item.admission is not None and item.admission.entry is Entry.ENTERS


def _is_right(item: Item, now: int) -> bool:
    return item.is_right and (item.fact is None or _holds(item.fact, made=item.made, now=now))


def _holds(fact: Fact, *, made: int, now: int) -> bool:
    return fact.lasts is None or now - made < fact.lasts


def _name(agent: int) -> PrincipalId:
    return PrincipalId(f"agent-{agent}")
