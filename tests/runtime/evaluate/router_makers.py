"""Outcomes with known answers, for measuring a router."""

import random
from typing import Any

TOPICS = ("harbour", "meadow", "violin", "engine", "castle", "river", "lantern", "orchard")


def told_by_text(count: int, *, seed: int = 0, strong_cost: float = 0.01) -> list[dict[str, Any]]:
    """Return prompts of which one word says that only the dear tier can do them."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        is_hard = chance.random() < 0.3
        words = chance.choices(TOPICS, k=7)
        words.insert(chance.randrange(7), "integral" if is_hard else "greeting")
        found.append(
            {
                "id": f"t{seed}-{number}",
                "group": chance.choice(("a", "b", "c")),
                "prompt": " ".join(words),
                "tiers": {
                    "high": {"score": 1.0, "cost": strong_cost},
                    "low": {"score": 0.0 if is_hard else 1.0, "cost": 0.001},
                },
            }
        )
    return found


def told_by_nothing(count: int, *, seed: int = 0) -> list[dict[str, Any]]:
    """Return prompts that say nothing of what tiers make of them."""
    chance = random.Random(seed)
    return [
        {
            "id": f"n{number}",
            "group": chance.choice(("a", "b", "c")),
            "prompt": " ".join(chance.choices(TOPICS, k=8)),
            "tiers": {
                "low": {"score": float(chance.random() < 0.5), "cost": 0.001},
                "high": {"score": float(chance.random() < 0.7), "cost": 0.01},
            },
        }
        for number in range(count)
    ]


def told_by_the_run(count: int, *, seed: int = 0, poison: bool = False) -> list[dict[str, Any]]:
    """Return prompts of which only the cheap tier's run says what to do.

    With `poison`, what the *dear* tier's run shows says it too, and the prompts do not.
    """
    lines = told_by_nothing(count, seed=seed)
    for line in lines:
        low = line["tiers"]["low"]["score"]
        line["tiers"]["high"]["score"] = 1.0
        calls = 5 if low else 90
        line["features"] = {"high" if poison else "low": {"calls": calls, "cost": 0.001}}
    return lines
