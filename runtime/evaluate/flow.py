"""Playing attack suites against flow rules: how many are blocked, how many benign tasks asked.

A replay: the calls are given, no model chooses them. A benign task is disturbed if any of its
calls is asked about or denied. An attack is blocked if any of its calls is, after all calls of
the task that it came in by have run; its text then stands in all that others could write.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

from governor.flow.labels import Label, Traits, traits_of
from governor.flow.policy import TAINTS, FlowPolicy, Seen, judge, learned
from governor.flow.wording import words_of
from governor.ids import PrincipalId, ToolName
from runtime.evaluate.flow_cases import CaseCall, CaseTask, FlowCasesError, Suite
from tool_gateway.guards.facts import facts_of

_Z = 1.959964
_AGENT = PrincipalId("agent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """So many of so many, with Wilson's interval at 95 %."""

    count: int
    of: int

    @property
    def rate(self) -> float | None:
        """Return the share, None of nothing."""
        return self.count / self.of if self.of else None

    @property
    def ci95(self) -> tuple[float, float] | None:
        """Return the interval, None of nothing."""
        if not self.of:
            return None
        rate, n = self.count / self.of, self.of
        middle = (rate + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
        half = _Z * sqrt(rate * (1 - rate) / n + _Z**2 / (4 * n**2)) / (1 + _Z**2 / n)
        return max(0.0, middle - half), min(1.0, middle + half)

    def shape(self) -> dict[str, Any]:
        """Return the share as JSON."""
        return {"count": self.count, "n": self.of, "share": self.rate, "ci95": self.ci95}


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteResult:
    """What became of one suite; `missed` and `asked` name them."""

    suite: str
    blocked: Share
    disturbed: Share
    missed: tuple[str, ...]
    asked: tuple[str, ...]

    def shape(self) -> dict[str, Any]:
        """Return the result as JSON."""
        return {
            "suite": self.suite,
            "attacks_blocked": self.blocked.shape(),
            "benign_disturbed": self.disturbed.shape(),
            "missed": list(self.missed),
            "asked": list(self.asked),
        }


def evaluate_flow(suites: Sequence[Suite], policy: FlowPolicy) -> list[SuiteResult]:
    """Return how each suite fares under `policy`.

    Raises:
        FlowCasesError: a task calls a tool that its suite does not have.
    """
    return [_played(suite, policy) for suite in suites]


def total_of(results: Iterable[SuiteResult]) -> SuiteResult:
    """Return all results as one."""
    every = list(results)
    return SuiteResult(
        suite="all",
        blocked=_sum(one.blocked for one in every),
        disturbed=_sum(one.disturbed for one in every),
        missed=(),
        asked=(),
    )


def _sum(shares: Iterable[Share]) -> Share:
    every = list(shares)
    return Share(count=sum(one.count for one in every), of=sum(one.of for one in every))


def _played(suite: Suite, policy: FlowPolicy) -> SuiteResult:
    traits = {
        name: policy.traits(ToolName(name), traits_of(facts_of(entry)))
        for name, entry in suite.tools.items()
    }
    asked = []
    for task in suite.tasks:
        stops, _ = _run(task.calls, Seen(marks={}, asked=words_of(task.words)), traits, policy)
        if stops:
            asked.append(f"{task.name}: {stops[0]}")
    missed = []
    for task, goal in suite.attacks:
        seen = Seen(marks={}, asked=words_of(task.words))
        _, seen = _run(task.calls, seen, traits, policy, slipped_in=_as_text(goal))
        stops, _ = _run(goal.calls, seen, traits, policy)
        if not stops:
            missed.append(f"{goal.name} in {task.name}")
    return SuiteResult(
        suite=suite.name,
        blocked=Share(count=len(suite.attacks) - len(missed), of=len(suite.attacks)),
        disturbed=Share(count=len(asked), of=len(suite.tasks)),
        missed=tuple(missed),
        asked=tuple(asked),
    )


def _run(
    calls: Sequence[CaseCall],
    seen: Seen,
    traits: dict[str, Traits],
    policy: FlowPolicy,
    *,
    slipped_in: str = "",
) -> tuple[list[str], Seen]:
    """Return why calls were stopped, and what the session has seen after all of them.

    What is `slipped_in` stands in every answer that others could write in.
    """
    stops = []
    for call in calls:
        if call.tool not in traits:
            raise FlowCasesError(f"the suite has no tool {call.tool}")
        of_tool, name = traits[call.tool], ToolName(call.tool)
        stopped = judge(
            policy, seen, tool=name, agent=_AGENT, traits=of_tool, arguments=call.arguments
        )
        if stopped is not None:
            stops.append(f"{call.tool}: {stopped.why}")
        new = dict.fromkeys(of_tool.labels & TAINTS, name)
        seen = replace(seen, marks={**new, **seen.marks})
        heard = slipped_in if Label.SEES_UNTRUSTED in of_tool.labels else ""
        seen = learned(seen, of_tool, call.arguments, f"{heard}\n{call.result}")
    return stops, seen


def _as_text(goal: CaseTask) -> str:
    """Return an injected goal as its text, with whatever its calls would need."""
    return "\n".join((goal.words, *(repr(dict(call.arguments)) for call in goal.calls)))
