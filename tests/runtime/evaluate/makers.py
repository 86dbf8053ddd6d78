from random import Random

from governor.turns import PastRun
from runtime.evaluate.runs_file import RecordedRun

MODELS = ("quick", "slow", "poor")


def recorded(
    model: str, task: str, *, turns: int, cost: int = 1_000, solved: bool = False
) -> RecordedRun:
    run = PastRun(turns=turns, cost_microusd=cost, is_solved=solved)
    return RecordedRun(model=model, instance_id=task, run=run)


def made_up_runs(tasks: int = 60, seed: int = 1) -> list[RecordedRun]:
    """Runs in which long ones cost the most and seldom succeed."""
    dice = Random(seed)
    runs = []
    for task in range(tasks):
        for place, model in enumerate(MODELS):
            turns = 1 + int(dice.expovariate(1 / (10 + 10 * place)))
            solved = dice.random() < (0.9 if turns < 30 else 0.1) / (1 + place)
            cost = turns * dice.randint(500, 1_500)
            runs.append(recorded(model, f"task-{task}", turns=turns, cost=cost, solved=solved))
    return runs
