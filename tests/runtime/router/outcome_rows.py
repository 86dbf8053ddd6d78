"""Outcomes with a known answer: one word of a prompt decides which tier it needs."""

import random

from runtime.router.predictor import OutcomeRow

TOPICS = ("harbour", "meadow", "violin", "engine", "castle", "river", "lantern", "orchard")


def prompt(chance: random.Random, *, is_hard: bool) -> str:
    words = chance.choices(TOPICS, k=8)
    words.insert(chance.randrange(8), "integral" if is_hard else "greeting")
    return " ".join(words)


def rows(count: int, *, seed: int = 0) -> list[OutcomeRow]:
    chance = random.Random(seed)
    found = []
    for _ in range(count):
        is_hard = chance.random() < 0.5
        found.append(
            OutcomeRow(
                text=prompt(chance, is_hard=is_hard),
                scores={"low": 0.0 if is_hard else 1.0, "high": 1.0},
                costs_microusd={"low": 10.0, "high": 900.0 if is_hard else 100.0},
            )
        )
    return found
