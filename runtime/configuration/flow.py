"""The tables of flow rules, and the policy that they stand for."""

from typing import Annotated, Literal

from pydantic import Field

from governor.errors import GovernorError
from governor.flow.labels import Label
from governor.flow.policy import (
    ACTS,
    AFTER_UNTRUSTED,
    FlowPolicy,
    FlowRule,
    Labelled,
    TaskTools,
    Then,
    Unless,
)
from governor.policy import ApprovalTerms
from runtime.configuration.table import Flag, Name, Table
from runtime.errors import ConfigError

_WAIT_S_MAX = 60 * 60
_TTL_S_MAX = 30 * 24 * 60 * 60

Labels = Annotated[tuple[Label, ...], Field(max_length=len(Label))]
Taint = Literal[Label.READS_PRIVATE, Label.SEES_UNTRUSTED]
Act = Literal[Label.CAN_SEND_OUT, Label.CHANGES]


class FlowRuleTable(Table):
    """After all of `after` was seen, calls of tools with any label of `on` are stopped."""

    name: Name
    after: tuple[Taint, ...] = (Label.SEES_UNTRUSTED,)
    on: Annotated[tuple[Act, ...], Field(min_length=1)] = (Label.CAN_SEND_OUT, Label.CHANGES)
    tool: str = "*"
    unless: Unless = Unless.ASKED
    then: Then = Then.ASK


class FlowTaskTable(Table):
    """The only tools of the sessions of a class."""

    task_class: Name
    tools: Annotated[tuple[Name, ...], Field(max_length=512)]
    agent: str = "*"
    then: Then = Then.DENY


class FlowLabelTable(Table):
    """The labels of the tools of a pattern, in place of those that were inferred."""

    tool: str
    labels: Labels


class FlowTable(Table):
    """Flow rules; without any of one's own, one: after what others wrote, only what was asked."""

    enabled: Flag = False
    then: Then = Then.ASK
    approval_wait_s: Annotated[int, Field(strict=True, ge=0, le=_WAIT_S_MAX)] = 50
    approval_ttl_s: Annotated[int, Field(strict=True, gt=0, le=_TTL_S_MAX)] = 3600
    launchers: tuple[Name, ...] = ()
    rule: tuple[FlowRuleTable, ...] = ()
    task: tuple[FlowTaskTable, ...] = ()
    label: tuple[FlowLabelTable, ...] = ()


def flow_policy_of(table: FlowTable) -> FlowPolicy | None:
    """Return the flow rules, None where they are switched off."""
    if not table.enabled:
        return None
    rules = tuple(
        FlowRule(
            name=rule.name,
            after=frozenset(rule.after),
            on=frozenset(rule.on) & ACTS,
            tool=rule.tool,
            unless=rule.unless,
            then=rule.then,
        )
        for rule in table.rule
    )
    usual = FlowRule(name=AFTER_UNTRUSTED.name, then=table.then)
    return FlowPolicy(
        rules=rules or (usual,),
        tasks=tuple(
            TaskTools(
                task_class=task.task_class, tools=task.tools, agent=task.agent, then=task.then
            )
            for task in table.task
        ),
        labelled=tuple(
            Labelled(tool=given.tool, labels=frozenset(given.labels)) for given in table.label
        ),
    )


def flow_approval_of(table: FlowTable) -> ApprovalTerms:
    """Return how a person is asked about what a flow rule stops.

    Raises:
        ConfigError: a call would wait for longer than they may take.
    """
    try:
        return ApprovalTerms(
            wait_ms=table.approval_wait_s * 1000, ttl_ms=table.approval_ttl_s * 1000
        )
    except GovernorError as error:
        raise ConfigError(f"flow.{error}") from error
