"""One task, done by a model in turns under the decisions that govern live sessions."""

import re
from dataclasses import dataclass, field
from hashlib import sha256

from governor.turn_control import (
    Extended,
    TurnStanding,
    can_extend,
    decide_extension,
    reminder,
)
from governor.turn_policy import TurnMode, TurnTerms
from governor.turn_progress import CallPrint, Trail
from runtime.evaluate.live_model import LiveModel, Message
from runtime.evaluate.live_tasks import Task

_ANSWER = re.compile(r"^\s*ANSWER:\s*(.*)", re.MULTILINE | re.DOTALL)
_EXTEND = re.compile(r"^\s*EXTEND:\s*(\S.*)$", re.MULTILINE)
_RULES = (
    "Work on the task in turns. In each turn go one step further, in a few sentences. As soon as "
    "you know the answer, finish: write a line that begins with ANSWER: and holds the answer and "
    "nothing else."
)
_LIMITED = "You have {limit} turns in all."
_EXTENSIBLE = (
    "If few turns remain and you need more, write a line that begins with EXTEND: and a reason."
)
_GO_ON = "Continue."


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRun:
    """How a task went: its turns, its cost, whether it was solved or stopped at a limit."""

    turns: int
    cost_microusd: int
    is_solved: bool
    was_cut: bool


@dataclass(slots=True)
class _Agent:
    """A conversation on its way."""

    terms: TurnTerms
    base: int
    messages: list[Message]
    turns: int = 0
    cost_microusd: int = 0
    extended: int = 0
    extensions: int = 0
    trail: Trail = field(default_factory=Trail)

    @property
    def standing(self) -> TurnStanding:
        return TurnStanding(
            base=self.base, used=self.turns, extended=self.extended, extensions=self.extensions
        )

    def note(self, said: str, cost_microusd: int) -> None:
        """Take note of a turn: an answer that was not given before is progress."""
        self.turns += 1
        self.cost_microusd += cost_microusd
        printed = sha256(" ".join(said.split()).encode(errors="replace")).hexdigest()
        self.trail.note(
            CallPrint(tool="answer", arguments_hash="", result_hash=printed, is_success=bool(said))
        )

    def extend(self) -> str:
        """Decide on a request for more turns and return what to say."""
        decision = decide_extension(
            self.terms, self.standing, progress=self.trail.progress, affordable=None
        )
        if not isinstance(decision, Extended):
            return decision.text
        self.extended += decision.turns
        self.extensions += 1
        self.trail.restart()
        return f"{decision.turns} more turns were given."


def run_task(model: LiveModel, task: Task, *, terms: TurnTerms, turns_max: int) -> LiveRun:
    """Return how `model` does on `task`; without a limit it is stopped after `turns_max` turns.

    Raises:
        CapReachedError: the next request could break the cap on cost.
        LiveModelError: the server did not answer.
    """
    is_limited = terms.mode is not TurnMode.UNLIMITED
    base = min(terms.turns, turns_max) if is_limited else turns_max
    rules = [_RULES]
    if is_limited:
        rules.append(_LIMITED.format(limit=base))
    agent = _Agent(terms=terms, base=base, messages=[])
    if can_extend(terms, agent.standing):
        rules.append(_EXTENSIBLE)
    agent.messages = [
        {"role": "system", "content": " ".join(rules)},
        {"role": "user", "content": task.prompt},
    ]
    while agent.turns < turns_max and agent.standing.remaining:
        asked = model.ask(_reminded(agent, is_limited=is_limited))
        agent.note(asked.text, asked.cost_microusd)
        answer = _ANSWER.search(asked.text)
        if answer is not None:
            return _ended(agent, is_solved=task.is_solved_by(answer[1]))
        told = agent.extend() if is_limited and _EXTEND.search(asked.text) else ""
        agent.messages += [
            {"role": "assistant", "content": asked.text},
            {"role": "user", "content": f"{told} {_GO_ON}".strip()},
        ]
    return _ended(agent, is_solved=False, was_cut=True)


def _ended(agent: _Agent, *, is_solved: bool, was_cut: bool = False) -> LiveRun:
    return LiveRun(
        turns=agent.turns, cost_microusd=agent.cost_microusd, is_solved=is_solved, was_cut=was_cut
    )


def _reminded(agent: _Agent, *, is_limited: bool) -> list[Message]:
    """Return the conversation with what the model must know before its next turn."""
    standing = agent.standing
    next_one = TurnStanding(
        base=standing.base,
        used=standing.used + 1,
        extended=standing.extended,
        extensions=standing.extensions,
    )
    text = reminder(agent.terms, next_one) if is_limited else None
    if text is None:
        return agent.messages
    *before, last = agent.messages
    if can_extend(agent.terms, next_one):
        # Here the model has no tools: asking is a line of its answer.
        text = text.replace("call governor_extend with a reason", "write EXTEND: and a reason")
    return [*before, {**last, "content": f"{last['content']}\n\n[{text}]"}]
