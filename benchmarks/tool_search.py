"""How long a search over a thousand tools takes, and making its index.

The tools are made up from a seed: names of two to four words, descriptions of thirty, five
parameters each with a sentence, on fifty servers, out of words whose frequencies fall off as in
a language. Requests are eight words, six of them of one tool's own.
"""

import platform
import random
import statistics
import time

from governor.ids import SessionId, TenantId
from governor.retrieval.thesaurus import CONCEPTS
from runtime.word_vectors import word_vectors
from tool_gateway.discovery.index import ToolIndex
from tool_gateway.discovery.texts import ToolText
from tool_gateway.discovery.uses import PastUses

TOOLS = 1_000
SERVERS = 50
REQUESTS = 400
ROUNDS = 5
WORDS = 4_000
FOUND_MIN = 0.9
TENANT, SESSION = TenantId("acme"), SessionId("one")


def vocabulary(chance: random.Random) -> list[str]:
    """Return words, the frequent ones first: the thesaurus' own, then made-up ones."""
    syllables = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
    made_up = {"".join(chance.choices(syllables, k=chance.randint(2, 4))) for _ in range(WORDS)}
    return [*sorted(CONCEPTS), *sorted(made_up)]


def practised(tools: list[ToolText], chance: random.Random) -> PastUses:
    """Return a memory in which every tool was found and used four times."""
    uses = PastUses()
    for tool in tools * 4:
        request = " ".join(chance.sample(tool.description.split(), 8))
        uses.note_search(SESSION, request=request, found=[tool.name])
        uses.note_success(TENANT, SESSION, tool=tool.name, now_ms=0)
    return uses


def recalling(uses: PastUses, requests: list[str]) -> list[float]:
    """Return the milliseconds that past use takes to be asked for each request."""
    took = []
    for request in requests:
        began = time.perf_counter_ns()
        uses.fitting(TENANT, request, now_ms=1)
        uses.usual(TENANT, now_ms=1)
        took.append((time.perf_counter_ns() - began) / 1e6)
    return took


def main() -> None:
    """Print the table."""
    chance = random.Random(0)  # noqa: S311 - made-up words are no secret
    words = vocabulary(chance)
    weights = [1 / (rank + 10) for rank in range(len(words))]

    def some(count: int) -> list[str]:
        return chance.choices(words, weights=weights, k=count)

    tools = []
    for number in range(TOOLS):
        properties = {
            "_".join(some(2)): {"type": "string", "description": " ".join(some(8))}
            for _ in range(5)
        }
        tools.append(
            ToolText(
                name="_".join(some(chance.randint(2, 4))),
                description=f"{' '.join(some(10))}. {' '.join(some(20))}.",
                server=f"server-{number % SERVERS}",
                about=" ".join(some(12)),
                schema={"type": "object", "properties": properties},
            )
        )
    owns = [chance.randrange(TOOLS) for _ in range(REQUESTS)]
    requests = [
        " ".join(some(2) + chance.sample(tools[own].description.split(), 6)) for own in owns
    ]

    uses, vectors = practised(tools, chance), word_vectors()
    builds, p50s, p99s, recalled = [], [], [], []
    for _ in range(ROUNDS):
        began = time.perf_counter_ns()
        index = ToolIndex(tools, vectors=vectors)
        builds.append((time.perf_counter_ns() - began) / 1e6)
        took, found = [], 0
        for own, request in zip(owns, requests, strict=True):
            began = time.perf_counter_ns()
            hits = index.search(request, limit=5)
            took.append((time.perf_counter_ns() - began) / 1e6)
            found += any(hit.number == own for hit in hits)
        assert found >= FOUND_MIN * REQUESTS, f"found {found} of {REQUESTS}"
        recalled.append(statistics.median(recalling(uses, requests)))
        took.sort()
        p50s.append(took[len(took) // 2])
        p99s.append(took[int(len(took) * 0.99)])
    print(f"{platform.python_version()}, {TOOLS} tools, {REQUESTS} requests, {ROUNDS} rounds")
    print("| what | ms |\n|---|---|")
    for what, figures in (
        ("a search, p50", p50s),
        ("a search, p99", p99s),
        ("past use of every tool, asked beside it, p50", recalled),
        ("making the index", builds),
    ):
        middle = statistics.median(figures)
        print(f"| {what} | {middle:.2f} ({min(figures):.2f}-{max(figures):.2f}) |")


if __name__ == "__main__":
    main()
