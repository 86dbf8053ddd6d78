"""Flow rules: after what a session has seen, which calls may run, and whom to ask about them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase

from governor.flow.labels import Label, Traits
from governor.flow.wording import (
    NOBODY,
    Vouched,
    Words,
    addresses_in,
    objection,
    points_at,
)
from governor.ids import PrincipalId, TaskClass, ToolName


class Unless(StrEnum):
    """What lets a call pass a rule: that the user asked for it, or nothing at all."""

    ASKED = "asked"
    NEVER = "never"


class Then(StrEnum):
    """What becomes of a call that a rule stops."""

    ASK = "ask"
    DENY = "deny"


ACTS = frozenset({Label.CAN_SEND_OUT, Label.CHANGES})
TAINTS = frozenset({Label.READS_PRIVATE, Label.SEES_UNTRUSTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRule:
    """After all of `after` was seen, calls of tools with any label of `on` are stopped."""

    name: str
    after: frozenset[Label] = frozenset({Label.SEES_UNTRUSTED})
    on: frozenset[Label] = ACTS
    tool: str = "*"
    unless: Unless = Unless.ASKED
    then: Then = Then.ASK


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTools:
    """The only tools of the sessions of a class; patterns."""

    task_class: str
    tools: tuple[str, ...]
    agent: str = "*"
    then: Then = Then.DENY


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """The labels that an operator gives to the tools of a pattern, in place of the inferred."""

    tool: str
    labels: frozenset[Label]


# So many addresses can vouch in one session; further ones are asked about.
ADDRESSES_MAX = 1_024

AFTER_UNTRUSTED = FlowRule(name="after-untrusted")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowPolicy:
    """All of it; the first of `labelled` and of `tasks` that covers a tool or a session counts."""

    rules: tuple[FlowRule, ...] = (AFTER_UNTRUSTED,)
    tasks: tuple[TaskTools, ...] = ()
    labelled: tuple[Labelled, ...] = ()

    def traits(self, tool: ToolName, inferred: Traits) -> Traits:
        """Return a tool's traits with the labels that the operator gives it."""
        for given in self.labelled:
            if fnmatchcase(tool, given.tool):
                return Traits(
                    labels=given.labels,
                    why=dict.fromkeys(given.labels, f"the policy says so for {given.tool}"),
                    wishes=inferred.wishes,
                    objects=inferred.objects,
                    roles=inferred.roles,
                )
        return inferred


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a session has seen so far: each label with the tool that first brought it, in order.

    `asked` are the user's own words, None while nobody who is trusted has said them. `vouched`
    are the addresses that what they trust has.
    """

    marks: Mapping[Label, ToolName]
    asked: Words | None = None
    vouched: Vouched = NOBODY
    task_class: TaskClass | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """A call that a rule stops: what then, and why in words for people and models."""

    rule: str
    then: Then
    why: str


def judge(
    policy: FlowPolicy,
    seen: Seen,
    *,
    tool: ToolName,
    agent: PrincipalId,
    traits: Traits,
    arguments: Mapping[str, object],
) -> Stopped | None:
    """Return why a call is stopped, None if it may run."""
    stopped = _outside_of_task(policy, seen, tool=tool, agent=agent)
    if stopped is not None and stopped.then is Then.DENY:
        return stopped
    for rule in policy.rules:
        if not rule.after <= seen.marks.keys() or not rule.on & traits.labels:
            continue
        if not fnmatchcase(tool, rule.tool):
            continue
        why = _why_not(rule, seen, traits, arguments)
        if why is None:
            continue
        found = Stopped(rule=rule.name, then=rule.then, why=f"{_trail(rule, seen)}, and {why}")
        if found.then is Then.DENY:
            return found
        stopped = stopped or found
    return stopped


def learned(seen: Seen, traits: Traits, arguments: Mapping[str, object], answered: str) -> Seen:
    """Return what a session knows after a tool has answered; one that changes things says nothing.

    An answer that can be trusted vouches for its addresses; one that cannot, for those of what
    the user pointed at.
    """
    if Label.CHANGES in traits.labels:
        return seen
    own = not traits.acts and Label.SEES_UNTRUSTED not in traits.labels
    if not own and (seen.asked is None or not points_at(seen.asked, arguments)):
        return seen
    before = seen.vouched
    kept = before.own if own else before.pointed
    # What was asked about is often repeated in the answer, and says nothing there.
    found = addresses_in(answered) - addresses_in(str(dict(arguments)))
    if found <= kept or len(kept) > ADDRESSES_MAX:
        return seen
    changed = {"own" if own else "pointed": kept | found}
    return replace(seen, vouched=replace(before, **changed))


def _why_not(
    rule: FlowRule, seen: Seen, traits: Traits, arguments: Mapping[str, object]
) -> str | None:
    if rule.unless is Unless.NEVER:
        return "the rule knows no exception"
    if seen.asked is None:
        return "the user's own words are not known"
    return objection(traits, arguments, asked=seen.asked, vouched=seen.vouched)


def _outside_of_task(
    policy: FlowPolicy, seen: Seen, *, tool: ToolName, agent: PrincipalId
) -> Stopped | None:
    for task in policy.tasks:
        if fnmatchcase(seen.task_class or "", task.task_class) and fnmatchcase(agent, task.agent):
            if any(fnmatchcase(tool, pattern) for pattern in task.tools):
                return None
            return Stopped(
                rule=f"task {task.task_class}",
                then=task.then,
                why=f"{tool} is not among the tools of the task class {task.task_class}",
            )
    return None


_SAW = {
    Label.SEES_UNTRUSTED: "what others wrote was read with {tool}",
    Label.READS_PRIVATE: "private data was read with {tool}",
}


def _trail(rule: FlowRule, seen: Seen) -> str:
    """Return what was seen that the rule is about, in the order in which it was."""
    said = [
        _SAW[label].format(tool=tool) for label, tool in seen.marks.items() if label in rule.after
    ]
    return " and ".join(said) or "before anything was read"
