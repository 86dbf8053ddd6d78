"""The policy in force as JSON."""

from dataclasses import asdict

from governor.access import AccessRule, Choice
from governor.amounts import Unit
from governor.content import OutputSchema
from governor.limits import Isolation
from governor.policy import Policy, ToolRule
from governor.tracker import Tracker
from runtime.admin.shapes.fields import Out, limits_shape


class MatchOut(Out):
    """Which calls a rule is for; each part is a shell pattern."""

    tool: str
    tenant: str
    agent: str


class ExecutionLimitsOut(Out):
    """What one call may take of the machine; null is unlimited."""

    memory_bytes: int | None
    pids: int | None
    cpu_millis: int | None
    cpu_ms: int | None
    wall_ms: int
    output_bytes: int
    memory_high_bytes: int | None
    swap_bytes: int | None
    cpu_weight: int | None
    io_read_bps: int | None
    io_write_bps: int | None
    egress_bytes: int | None


class ApprovalTermsOut(Out):
    """How a person is asked before a call runs."""

    wait_ms: int
    ttl_ms: int


class LoopRuleOut(Out):
    """At which call of a loop each measure begins; 0 is never."""

    remind: int
    serve: int
    deny: int
    pause: int
    stale: int
    stale_deny: int
    is_repeatable: bool
    within_ms: int


class ContentOut(Out):
    """How large arguments and results may be, and what is made of results."""

    arguments_bytes_max: int
    result_bytes_max: int
    output_schema: OutputSchema
    redact: list[str]


class ChoiceOut(Out):
    """Names by shell patterns; `allow` null is all that `deny` leaves."""

    allow: list[str] | None
    deny: list[str]


class AccessRuleOut(Out):
    """What the callers that match may have."""

    name: str
    tenant: str
    agent: str
    tools: ChoiceOut
    resources: ChoiceOut
    prompts: ChoiceOut
    is_read_only: bool


class RuleOut(Out):
    """How the calls that match may run."""

    name: str
    match: MatchOut
    allow: bool
    limits: ExecutionLimitsOut
    isolation: Isolation
    cost_microusd: int
    estimate_wall_ms: int | None
    estimate_cpu_ms: int | None
    estimates: dict[Unit, int]
    turn_per_call: bool
    archive_above_bytes: int
    drop_output_schema: bool
    approval: ApprovalTermsOut | None
    loops: LoopRuleOut | None
    tracker: Tracker
    cheaper: str | None
    content: ContentOut
    reads_only: bool


class UnifiedPricesOut(Out):
    """What counts beside the money in a unified cost."""

    tool_call_microusd: int
    cpu_second_microusd: int


class PolicyOut(Out):
    """The rules in order: the first that covers a call governs it, `fallback` the rest."""

    version: str
    rules: list[RuleOut]
    fallback: RuleOut
    access: list[AccessRuleOut]
    unified: UnifiedPricesOut
    milliwatts_per_core: int | None


def policy_out(policy: Policy) -> PolicyOut:
    """Return the policy as it is shown."""
    return PolicyOut(
        version=policy.version,
        rules=[_rule_out(rule) for rule in policy.rules],
        fallback=_rule_out(policy.fallback),
        access=[_access_out(rule) for rule in policy.access.rules],
        unified=UnifiedPricesOut(**asdict(policy.unified)),
        milliwatts_per_core=policy.milliwatts_per_core,
    )


def _rule_out(rule: ToolRule) -> RuleOut:
    limits = rule.limits
    return RuleOut(
        name=rule.name,
        match=MatchOut(tool=rule.match.tool, tenant=rule.match.tenant, agent=rule.match.agent),
        allow=rule.allow,
        limits=ExecutionLimitsOut(
            memory_bytes=limits.memory_bytes,
            pids=limits.pids,
            cpu_millis=limits.cpu_millis,
            cpu_ms=limits.cpu_ms,
            wall_ms=limits.wall_ms,
            output_bytes=limits.output_bytes,
            memory_high_bytes=limits.memory_high_bytes,
            swap_bytes=limits.swap_bytes,
            cpu_weight=limits.cpu_weight,
            io_read_bps=limits.io_read_bps,
            io_write_bps=limits.io_write_bps,
            egress_bytes=limits.egress_bytes,
        ),
        isolation=rule.isolation,
        cost_microusd=rule.cost_microusd,
        estimate_wall_ms=rule.estimate_wall_ms,
        estimate_cpu_ms=rule.estimate_cpu_ms,
        estimates=limits_shape(rule.estimates),
        turn_per_call=rule.turn_per_call,
        archive_above_bytes=rule.archive_above_bytes,
        drop_output_schema=rule.drop_output_schema,
        approval=None
        if rule.approval is None
        else ApprovalTermsOut(wait_ms=rule.approval.wait_ms, ttl_ms=rule.approval.ttl_ms),
        loops=None if rule.loops is None else LoopRuleOut(**asdict(rule.loops)),
        tracker=rule.tracker,
        cheaper=rule.cheaper,
        content=ContentOut(**{**asdict(rule.content), "redact": list(rule.content.redact)}),
        reads_only=rule.reads_only,
    )


def _access_out(rule: AccessRule) -> AccessRuleOut:
    return AccessRuleOut(
        name=rule.name,
        tenant=rule.tenant,
        agent=rule.agent,
        tools=_choice_out(rule.tools),
        resources=_choice_out(rule.resources),
        prompts=_choice_out(rule.prompts),
        is_read_only=rule.is_read_only,
    )


def _choice_out(choice: Choice) -> ChoiceOut:
    allow = None if choice.allow is None else list(choice.allow)
    return ChoiceOut(allow=allow, deny=list(choice.deny))
