"""Comparing turn limits with a real model that is told of them.

Every task is done three times: without a limit, at the P75 of other tasks' turns, and with a
base allowance that is extended on request. Half the tasks teach the limits of the other half, as in
the replay; unlike there, a warned model may finish sooner, and pays for every token.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from governor.turn_control import FinishedSession, base_turns
from governor.turn_policy import TurnMode, TurnTerms
from runtime.errors import RuntimeFaultError
from runtime.evaluate.live_model import CapReachedError, LiveModel, LiveModelError
from runtime.evaluate.live_run import LiveRun, run_task
from runtime.evaluate.live_tasks import Task

FOLDS = 2
TURNS_MAX = 30
_FAILURES_IN_A_ROW_MAX = 3
_P75, _P50 = 75, 50
_REMIND_AT = (5, 3, 1, 0)

Learn = Callable[[Sequence[LiveRun]], TurnTerms]


def _unlimited(_history: Sequence[LiveRun]) -> TurnTerms:
    return TurnTerms()


def _fixed_p75(history: Sequence[LiveRun]) -> TurnTerms:
    turns = _percentile(history, _P75)
    return TurnTerms(mode=TurnMode.FIXED, turns=turns, remind_at=_REMIND_AT)


def _dynamic(history: Sequence[LiveRun]) -> TurnTerms:
    """Begin with what half of the tasks need, and extend by half of that, three times at most."""
    turns = _percentile(history, _P50)
    step = -(-turns // 2)
    return TurnTerms(
        mode=TurnMode.DYNAMIC,
        turns=turns,
        extension=step,
        extensions_max=3,
        extended_max=3 * step,
        remind_at=_REMIND_AT,
    )


ARMS: Mapping[str, Learn] = {"unlimited": _unlimited, "fixed_p75": _fixed_p75, "dynamic": _dynamic}


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveScore:
    """What an arm did, against the runs of the same tasks without a limit."""

    name: str
    cost_saved: float
    solve_rate_delta_pp: float
    cost_of_pass_ratio: float | None
    solved: int
    mean_turns: float
    cost_microusd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveEvaluation:
    """The whole comparison, over the tasks that every arm has ended."""

    seed: int
    scores: Sequence[LiveScore]
    tasks: int
    tasks_compared: int
    spent_microusd: int
    cap_microusd: int
    is_capped: bool
    failures: Sequence[str]

    def shape(self) -> dict[str, Any]:
        """Return the JSON of `flyball eval turns --live`."""
        return {
            "live": True,
            "seed": self.seed,
            "splits": FOLDS,
            "results": [
                {
                    "growth": "measured",
                    "strategies": [
                        {
                            "name": score.name,
                            "cost_saved": score.cost_saved,
                            "solve_rate_delta_pp": score.solve_rate_delta_pp,
                            "cost_of_pass_ratio": score.cost_of_pass_ratio,
                        }
                        for score in self.scores
                    ],
                }
            ],
            "report": {
                "tasks": self.tasks,
                "tasks_compared": self.tasks_compared,
                "spent_microusd": self.spent_microusd,
                "cap_microusd": self.cap_microusd,
                "is_capped": self.is_capped,
                "failures": list(self.failures),
                "arms": {
                    score.name: {
                        "solved": score.solved,
                        "mean_turns": score.mean_turns,
                        "cost_microusd": score.cost_microusd,
                    }
                    for score in self.scores
                },
            },
        }


@dataclass(slots=True)
class _Book:
    """The runs so far, by arm and task, and what went wrong."""

    runs: dict[str, dict[str, LiveRun]] = field(default_factory=lambda: {arm: {} for arm in ARMS})
    failures: list[str] = field(default_factory=list)
    failed_in_a_row: int = 0

    def run(self, model: LiveModel, arm: str, task: Task, terms: TurnTerms, turns_max: int) -> None:
        try:
            done = run_task(model, task, terms=terms, turns_max=turns_max)
        except LiveModelError as error:
            self.failures.append(f"{task.task_id} ({arm}): {error}")
            self.failed_in_a_row += 1
            if self.failed_in_a_row >= _FAILURES_IN_A_ROW_MAX:
                raise
        else:
            self.runs[arm][task.task_id] = done
            self.failed_in_a_row = 0


def evaluate_live(
    model: LiveModel,
    tasks: Sequence[Task],
    *,
    cap_microusd: int,
    seed: int = 0,
    turns_max: int = TURNS_MAX,
) -> LiveEvaluation:
    """Return how the arms fare, as far as the cap on cost allows.

    Raises:
        RuntimeFaultError: the cap was reached before any task could be compared.
        LiveModelError: the server fails again and again.
    """
    halves = _halves(tasks, seed=seed)
    book, is_capped = _Book(), False
    try:
        for half in halves:
            for task in half:
                book.run(model, "unlimited", task, TurnTerms(), turns_max)
        # Task by task from both halves, so that a cap leaves whole comparisons.
        for place in range(max(map(len, halves))):
            for half, other in (halves, halves[::-1]):
                history = [
                    book.runs["unlimited"][task.task_id]
                    for task in other
                    if task.task_id in book.runs["unlimited"]
                ]
                if place < len(half) and history:
                    for arm, learn in list(ARMS.items())[1:]:
                        book.run(model, arm, half[place], learn(history), turns_max)
    except CapReachedError:
        is_capped = True
    whole = [t.task_id for t in tasks if all(t.task_id in runs for runs in book.runs.values())]
    if not whole:
        raise RuntimeFaultError(
            f"no task was ended in every arm for {model.spent_microusd / 1_000_000:.4f} US dollars"
            + ("; raise --max-usd or use fewer tasks" if is_capped else "")
        )
    return LiveEvaluation(
        seed=seed,
        scores=[_score(arm, book.runs, whole) for arm in ARMS],
        tasks=len(tasks),
        tasks_compared=len(whole),
        spent_microusd=model.spent_microusd,
        cap_microusd=cap_microusd,
        is_capped=is_capped,
        failures=book.failures,
    )


def _halves(tasks: Sequence[Task], *, seed: int) -> tuple[list[Task], list[Task]]:
    shuffled = list(tasks)
    random.Random(f"{seed}/live").shuffle(shuffled)  # noqa: S311 - a split is no secret
    middle = len(shuffled) // 2
    return shuffled[:middle], shuffled[middle:]


def _percentile(history: Sequence[LiveRun], percent: int) -> int:
    finished = [FinishedSession(turns=run.turns, was_cut=run.was_cut) for run in history]
    terms = TurnTerms(mode=TurnMode.PERCENTILE, percent=percent, history_min=1)
    limit = base_turns(terms, finished)
    assert limit is not None, "a percentile limits"
    return limit


def _score(arm: str, runs: Mapping[str, Mapping[str, LiveRun]], tasks: Sequence[str]) -> LiveScore:
    own = [runs[arm][task] for task in tasks]
    free = [runs["unlimited"][task] for task in tasks]
    cost, whole_cost = (sum(run.cost_microusd for run in group) for group in (own, free))
    solved, whole_solved = (sum(run.is_solved for run in group) for group in (own, free))
    ratio = None
    if solved and whole_solved and whole_cost:
        ratio = (cost / solved) / (whole_cost / whole_solved)
    return LiveScore(
        name=arm,
        cost_saved=1 - cost / whole_cost if whole_cost else 0.0,
        solve_rate_delta_pp=100 * (solved - whole_solved) / len(tasks),
        cost_of_pass_ratio=ratio,
        solved=solved,
        mean_turns=fmean(run.turns for run in own),
        cost_microusd=cost,
    )
