"""What a puzzle of the reasoning gate costs the house: made, and its answer checked."""

import statistics
import time

from governor.gate import GateTerms
from governor.ids import PrincipalId
from governor.puzzle import HOPS_MAX
from runtime.clock import SystemClock
from tool_gateway.guards.gate import ReasoningGate

ROUNDS = 2_000
AGENT = PrincipalId("agent")


def measure(hops: int) -> list[float]:
    """Return microseconds for a challenge and the answer to it, right or wrong."""
    gate = ReasoningGate(key=b"k" * 32, clock=SystemClock())
    terms = GateTerms(hops=hops)
    figures = []
    for _ in range(ROUNDS):
        began = time.perf_counter_ns()
        denied = gate.asked(terms, AGENT, rule="any")
        assert denied is not None
        assert denied.challenge is not None
        why = gate.taken(AGENT, denied.challenge.token, "0")
        figures.append((time.perf_counter_ns() - began) / 1_000)
        assert why is not None, "no answer has a digit"
    return figures


def main() -> None:
    """Print a row for each difficulty."""
    print("| steps | p50 µs | p99 µs |\n|---|---|---|")
    for hops in (1, 3, 6, HOPS_MAX):
        figures = measure(hops)
        p99 = statistics.quantiles(figures, n=100)[98]
        print(f"| {hops} | {statistics.median(figures):.0f} | {p99:.0f} |")


if __name__ == "__main__":
    main()
