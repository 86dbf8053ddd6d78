"""Policy: the versioned rules that say how a tool may run."""

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from governor.access import FREE_ACCESS, Access
from governor.amounts import NOTHING, Amounts
from governor.content import USUAL, ContentTerms
from governor.errors import InvalidPolicyError
from governor.gate import GateTerms
from governor.ids import PrincipalId, TenantId, ToolName
from governor.limits import ExecutionLimits, Isolation
from governor.loops import REMINDERS, LoopRule
from governor.tracker import Tracker
from governor.unified_cost import MONEY_ALONE, UnifiedPrices

# The governor's own tools: what a session asks about its allowance, or does with it.
STATUS_TOOL = ToolName("governor_status")
# By this name rules speak of whole runs of agents.
AGENT_RUN = ToolName("agent_run")
_OWN_PREFIX = "governor_"
_OWN_TOOLS = frozenset(
    {STATUS_TOOL, "governor_extend", "governor_spawn", "governor_close"},
)
# What upstreams offer besides tools is asked for by method; rules name it as `server__method`.
READ_RESOURCE = "resources/read"
GET_PROMPT = "prompts/get"
COMPLETE = "completion/complete"
# To ask how a task of a call goes on, and to have its result, is part of that call.
TASK_METHODS = ("tasks/get", "tasks/result", "tasks/update", "tasks/cancel")
_BY_THE_WAY = (COMPLETE, *TASK_METHODS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Which calls a rule is for; each part is a shell pattern, `*` by default."""

    tool: str = "*"
    tenant: str = "*"
    agent: str = "*"

    def covers(self, *, tool: ToolName, tenant: TenantId, agent: PrincipalId) -> bool:
        """Tell whether every part matches."""
        return (
            fnmatchcase(tool, self.tool)
            and fnmatchcase(tenant, self.tenant)
            and fnmatchcase(agent, self.agent)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalTerms:
    """How a person is asked: how long a call waits in place, how long they may take.

    Raises:
        InvalidPolicyError: a call would wait for longer than they may take.
    """

    wait_ms: int
    ttl_ms: int

    def __post_init__(self) -> None:
        """Refuse a wait that no answer can end."""
        if self.wait_ms > self.ttl_ms:
            message = f"approval_wait_s: a call would wait {self.wait_ms // 1000} s for an answer"
            raise InvalidPolicyError(f"{message} that is due after {self.ttl_ms // 1000} s")


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheTerms:
    """For how long the answer of a tool that only reads serves the same call again.

    `is_repeatable` is the operator's word that a tool only reads which does not say so itself.
    """

    ttl_ms: int
    is_repeatable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRule:
    """How the calls that match may run.

    `cost_microusd` is the price of one call. `estimate_wall_ms` and `estimate_cpu_ms` are
    held before a call; None holds the limit itself, which no call can go above. `estimates`
    are held of the other units that it names, in place of what the limits imply.
    `archive_above_bytes` is the largest result that reaches the model uncut. Where there is
    an `approval`, a person is asked before each call. `loops` is None
    where repeats are the tool's nature, as in polling. `tracker` says whether results end in
    a line about the budgets; `cheaper` names a tool that does a similar job for less. Where
    there is a `gate`, a puzzle may stand before a call; `cache` says how long answers serve.
    What `is_free` is charged to no budget, and no budget denies it. `content` bounds and checks
    what is sent and answered. `reads_only` is the operator's word that the tools change nothing.

    Raises:
        InvalidPolicyError: an estimate is above the limit that it stands for.
    """

    name: str
    match: Match
    allow: bool
    limits: ExecutionLimits
    isolation: Isolation = Isolation.REQUIRED
    cost_microusd: int = 0
    estimate_wall_ms: int | None = None
    estimate_cpu_ms: int | None = None
    estimates: Amounts = NOTHING
    turn_per_call: bool = False
    archive_above_bytes: int = 16_384
    drop_output_schema: bool = False
    approval: ApprovalTerms | None = None
    loops: LoopRule | None = REMINDERS
    tracker: Tracker = Tracker.OFF
    cheaper: str | None = None
    gate: GateTerms | None = None
    cache: CacheTerms | None = None
    is_free: bool = False
    content: ContentTerms = USUAL
    reads_only: bool = False

    def __post_init__(self) -> None:
        """Refuse estimates that promise more than the limit."""
        if self.estimate_wall_ms is not None and self.estimate_wall_ms > self.limits.wall_ms:
            message = (
                f"estimate_wall_ms: {self.estimate_wall_ms} is above the limit "
                f"wall_ms = {self.limits.wall_ms}"
            )
            raise InvalidPolicyError(message)
        cpu_ms, cpu_ms_max = self.estimate_cpu_ms, self.limits.cpu_ms
        if cpu_ms is not None and cpu_ms_max is not None and cpu_ms > cpu_ms_max:
            message = f"estimate_cpu_ms: {cpu_ms} is above the limit cpu_ms = {cpu_ms_max}"
            raise InvalidPolicyError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Rules in order; the first that covers a call governs it, `fallback` governs the rest.

    `unified` prices what is shown as one cost. `milliwatts_per_core` is what a busy core is
    taken to draw; None leaves energy unmeasured. `access` says who may have what of it at all.
    """

    version: str
    rules: tuple[ToolRule, ...]
    fallback: ToolRule
    unified: UnifiedPrices = MONEY_ALONE
    milliwatts_per_core: int | None = None
    access: Access = FREE_ACCESS

    @property
    def has_gate(self) -> bool:
        """Tell whether a puzzle can stand before any call."""
        return any(rule.gate is not None for rule in (*self.rules, self.fallback))

    def rule_for(
        self, *, tool: ToolName, tenant: TenantId, agent: PrincipalId, is_own: bool = False
    ) -> ToolRule:
        """Return the rule that governs a call of `tool`.

        `is_own` tells that the house itself answers: its name alone makes no tool free.
        """
        for rule in self.rules:
            if rule.match.covers(tool=tool, tenant=tenant, agent=agent):
                break
        else:
            rule = self.fallback
        if is_own and tool in _OWN_TOOLS:
            return _for_own(rule)
        return _for_asides(rule) if tool.endswith(_BY_THE_WAY) else rule


def _for_own(rule: ToolRule) -> ToolRule:
    """Return the rule as it governs the governor's own tools.

    They are for looking at a budget and for living with it, so what a rule says of tools in
    general stands in nobody's way: only one that names them can price them or ask a person.
    To ask them again is no loop.
    """
    if not rule.match.tool.startswith(_OWN_PREFIX):
        return replace(
            rule, cost_microusd=0, approval=None, gate=None, cache=None, loops=None, is_free=True
        )
    return replace(rule, cache=None, loops=None, is_free=rule.cost_microusd == 0)


def _for_asides(rule: ToolRule) -> ToolRule:
    """Return the rule as it governs what is asked again and again beside the calls proper.

    That is the completion of what a person types, key by key, and how a task goes on. What a
    rule says of calls in general is not meant for that: only one that names it prices it.
    """
    if rule.match.tool.endswith(_BY_THE_WAY):
        return replace(rule, loops=None, is_free=rule.cost_microusd == 0)
    return replace(
        rule, cost_microusd=0, approval=None, gate=None, cache=None, loops=None, is_free=True
    )
