"""The shape of `flyball.toml`."""

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from governor.amounts import AMOUNT_MAX, Unit
from governor.budget import BudgetKind, Mode, Overdraft
from governor.gate import When
from governor.learning.bandit import ARMS_MAX
from governor.loops import BREAKER, COUNT_MAX
from governor.puzzle import HOPS_MAX
from governor.scope import ScopeKind
from governor.tracker import Tracker
from governor.turn_policy import TURNS_MAX, TurnMode
from runtime.budget_words import Burst, KnownTargets, Match, WarnAt, match_of
from runtime.configuration.access import AccessTable
from runtime.configuration.confines import ConfinesTable
from runtime.configuration.console import ConsoleTable
from runtime.configuration.content import ContentTable, RedactionTable, unknown_detectors
from runtime.configuration.contention import CommonsTable, ContentionTable, check_names
from runtime.configuration.flow import FlowTable
from runtime.configuration.kept_answers import KeptAnswersTable
from runtime.configuration.ladder import EstimatesTable, LadderTable
from runtime.configuration.listen import Listen
from runtime.configuration.machine import Limits, Local
from runtime.configuration.memory import MemoryTable
from runtime.configuration.models import Pricing, Provider, Tier, TierRuleTable
from runtime.configuration.oauth import OAuthTable
from runtime.configuration.plugins import PluginsTable
from runtime.configuration.provider_care import check_fallbacks
from runtime.configuration.router import RouterTable
from runtime.configuration.strategy import StrategyTable
from runtime.configuration.table import Amount, Flag, Name, Positive, Table
from runtime.configuration.telemetry import TelemetryTable
from runtime.configuration.tools import ToolsTable
from runtime.configuration.upstream import BUILT_IN, Upstream
from runtime.configuration.webhooks import WebhookTables
from runtime.naming import Id
from runtime.windows import WindowShape
from tool_gateway.builtin import ENTRIES
from tool_gateway.shell import LOCAL, LOCAL_TOOLS

LoopCount = Annotated[int, Field(strict=True, ge=0, le=COUNT_MAX)]
TurnCount = Annotated[int, Field(strict=True, ge=1, le=TURNS_MAX)]
TurnCountOrNone = Annotated[int, Field(strict=True, ge=0, le=TURNS_MAX)]
SmallPrice = Annotated[int, Field(strict=True, ge=0, le=1_000_000_000)]
_SESSION_ID = "ses_"
_MIB = 1024 * 1024

# An hour in place, a month to decide: a hold is kept all the while.
_WAIT_S_MAX = 60 * 60
_TTL_S_MAX = 30 * 24 * 60 * 60


class Auth(Table):
    """How agents are recognised."""

    mode: Literal["token", "none"] = "token"
    # Who everybody is where mode is "none"; the first start makes "agent".
    principal: Name = "agent"


class SessionTable(Table):
    """Sessions that a client does not name."""

    idle_s: Positive = 1800


class StoreTable(Table):
    """Where the store is, and how much a crash may cost it: nothing, or the last moment."""

    url: SecretStr | None = None
    durability: Literal["power", "process"] = "power"


class Records(Table):
    """What is kept of calls and their results, and for how long."""

    arguments: Literal["redacted", "full", "hash"] = "redacted"
    # The bounds, a century and a pebibyte, keep what follows from them an integer of SQLite's.
    retention_days: Annotated[int, Field(strict=True, gt=0, le=36_525)] = 30
    archive_mib_per_tenant: Annotated[int, Field(strict=True, gt=0, le=1024**3)] = 1024


class Guidance(Table):
    """What agents are told beside the results: whom to ask, and what remains."""

    admin_contact: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    chat_tracker: Tracker = Tracker.OFF


class UnifiedCost(Table):
    """What a tool call and a second of processor time count beside the money."""

    tool_call_microusd: SmallPrice = 0
    cpu_second_microusd: SmallPrice = 0


class Energy(Table):
    """What one busy core draws; without it no call is charged energy, and metrics take 10 W."""

    watts_per_core: Annotated[Decimal, Field(gt=0, le=10_000)] | None = None


class Builtin(Table):
    """The tools of Flyball itself: "auto" hides them beside an upstream without a prefix."""

    tools: Literal["auto", "on", "off"] = "auto"


class Estimate(Table):
    """What to hold before a call, where the limit itself would be too much."""

    wall_ms: Amount | None = None
    cpu_ms: Amount | None = None
    memory_mib_s: Amount | None = None
    io_bytes: Amount | None = None
    egress_bytes: Amount | None = None
    energy_mj: Amount | None = None
    context_tokens: Amount | None = None
    probe_1: Amount | None = None
    probe_2: Amount | None = None
    probe_3: Amount | None = None
    probe_4: Amount | None = None


class LoopTable(Table):
    """At which call of a loop each measure begins; 0 is never."""

    remind: LoopCount = BREAKER.remind
    serve: LoopCount = BREAKER.serve
    deny: LoopCount = BREAKER.deny
    pause: LoopCount = BREAKER.pause
    stale: LoopCount = BREAKER.stale
    stale_deny: LoopCount = BREAKER.stale_deny
    repeatable: Flag = BREAKER.is_repeatable
    within_s: Annotated[int, Field(strict=True, gt=0, le=86_400)] = BREAKER.within_ms // 1000


class GateTable(Table):
    """A puzzle before the calls of a rule, for whom is not known or calls too often."""

    when: When = When.UNKNOWN
    hops: Annotated[int, Field(strict=True, ge=1, le=HOPS_MAX)] = 3
    ttl_s: Annotated[int, Field(strict=True, gt=0, le=86_400)] = 120
    pass_s: Annotated[int, Field(strict=True, gt=0, le=2_592_000)] = 3600
    calls: Annotated[int, Field(strict=True, gt=0, le=1_000_000)] = 60
    per_s: Annotated[int, Field(strict=True, gt=0, le=86_400)] = 60


class CacheTable(Table):
    """For how long answers of tools that only read serve the same call again."""

    ttl_s: Annotated[int, Field(strict=True, gt=0, le=86_400)]
    repeatable: Flag = False


class RuleTerms(ContentTable, ConfinesTable):
    """How the calls of a rule may run."""

    allow: Flag = True
    isolation: Literal["required", "best_effort"] = "required"
    cost_microusd: Amount = 0
    limits: Limits = Limits()
    estimate: Estimate = Estimate()
    turn_per_call: Flag = False
    archive_above_bytes: Annotated[int, Field(strict=True, ge=1024, le=AMOUNT_MAX)] = 16_384
    drop_output_schema: Flag = False
    approve: Flag = False
    approval_wait_s: Annotated[int, Field(strict=True, ge=0, le=_WAIT_S_MAX)] = 50
    approval_ttl_s: Annotated[int, Field(strict=True, gt=0, le=_TTL_S_MAX)] = 3600
    loops: Literal["off", "remind", "break"] | LoopTable = "remind"
    tracker: Tracker = Tracker.OFF
    cheaper: Name | None = None
    gate: GateTable | None = None
    cache: CacheTable | None = None
    reads_only: Flag = False

    @field_validator("loops", mode="before")
    @classmethod
    def _is_ladder(cls, value: object) -> object:
        if value not in ("off", "remind", "break") and not isinstance(value, (dict, LoopTable)):
            raise ValueError(
                'use "off", "remind", "break", or { remind = 3, deny = 6 } for counts of your own'
            )
        return value


class Rule(RuleTerms):
    """A rule and the calls that it is for; the first that covers a call governs it."""

    name: Name
    tool: str = "*"
    tenant: str = "*"
    agent: str = "*"


class TurnTermsTable(Table):
    """How many turns a session may take."""

    mode: TurnMode = TurnMode.UNLIMITED
    # The limit of "fixed", the base allowance of "dynamic", the cold start of "percentile".
    turns: TurnCount = 50
    percent: Annotated[int, Field(strict=True, ge=1, le=100)] = 75
    history_min: TurnCount = 20
    extension: TurnCount = 10
    extensions_max: TurnCountOrNone = 3
    extended_max: TurnCountOrNone = 30
    automatic: Flag = False
    progress_min: TurnCount = 1
    solve_price: Annotated[float, Field(strict=True, gt=0, le=1_000_000)] | None = None
    remind_at: Annotated[tuple[TurnCountOrNone, ...], Field(max_length=20)] = (5, 3, 1)
    note_results: Flag = True
    note_chats: Flag = True


class TurnRuleTable(TurnTermsTable):
    """Other terms for the sessions that match; the first that covers a session governs it."""

    tenant: str = "*"
    agent: str = "*"
    task_class: str = "*"


class TaskClassTable(Table):
    """The task class of agents that name none."""

    name: Name
    agent: str


class BudgetTable(Table):
    """A budget that is made at the first start; afterwards the admin API owns it."""

    id: Id
    scope: ScopeKind
    subject: str | None = None
    limits: dict[Unit, Amount] = Field(min_length=1)
    window: WindowShape = "lifetime"
    kind: BudgetKind = BudgetKind.ALLOWANCE
    burst: Burst = None
    match: Match = Match()
    mode: Mode = Mode.ENFORCE
    overdraft: Overdraft = Overdraft.DENY
    warn_at_permille: WarnAt = ()

    @model_validator(mode="after")
    def _can_be_somebodys(self) -> Self:
        is_session = self.scope is ScopeKind.SESSION
        if is_session and self.subject is not None and not self.subject.startswith(_SESSION_ID):
            raise ValueError(
                f"subject = {self.subject!r} is no session's id (ses_…); leave it out, and each "
                "session has the allowance to itself"
            )
        return self


class Config(Table):
    """The whole file."""

    listen: Listen = Listen()
    console: ConsoleTable = ConsoleTable()
    auth: Auth = Auth()
    oauth: OAuthTable = OAuthTable()
    session: SessionTable = SessionTable()
    store: StoreTable = StoreTable()
    records: Records = Records()
    local: Local = Local()
    guidance: Guidance = Guidance()
    unified_cost: UnifiedCost = UnifiedCost()
    energy: Energy = Energy()
    builtin: Builtin = Builtin()
    upstream: tuple[Upstream, ...] = ()
    rule: tuple[Rule, ...] = ()
    default: RuleTerms = RuleTerms()
    access: tuple[AccessTable, ...] = ()
    redaction: Annotated[tuple[RedactionTable, ...], Field(max_length=100)] = ()
    tools: ToolsTable = ToolsTable()
    budget: tuple[BudgetTable, ...] = ()
    webhook: WebhookTables = ()
    telemetry: TelemetryTable = TelemetryTable()
    turns: TurnTermsTable = TurnTermsTable()
    turn_rule: tuple[TurnRuleTable, ...] = ()
    task_class: tuple[TaskClassTable, ...] = ()
    provider: tuple[Provider, ...] = ()
    tier: tuple[Tier, ...] = ()
    pricing: Pricing = Pricing()
    kept_answers: KeptAnswersTable = KeptAnswersTable()
    tier_rule: tuple[TierRuleTable, ...] = ()
    strategy: StrategyTable = StrategyTable()
    router: RouterTable = RouterTable()
    contention: ContentionTable = ContentionTable()
    commons: tuple[CommonsTable, ...] = ()
    flow: FlowTable = FlowTable()
    ladder: LadderTable = LadderTable()
    estimates: EstimatesTable = EstimatesTable()
    memory: MemoryTable = MemoryTable()
    plugins: PluginsTable = PluginsTable()

    @model_validator(mode="after")
    def _hangs_together(self) -> Self:
        _check_unique(
            upstream=[entry.name for entry in self.upstream],
            rule=[entry.name for entry in self.rule],
            access=[entry.name for entry in self.access],
            redaction=[entry.name for entry in self.redaction],
            budget=[entry.id for entry in self.budget],
            provider=[entry.name for entry in self.provider],
            tier=[entry.name for entry in self.tier],
            webhook=[entry.name for entry in self.webhook],
        )
        if self.oauth.server and self.auth.mode == "none":
            raise ValueError('oauth.server: nobody shows a token with auth.mode = "none"')
        callers_own = {"token_exchange", "forward"}
        for number, upstream in enumerate(self.upstream):
            if (
                upstream.auth is not None
                and upstream.auth.kind in callers_own
                and not self.oauth.server
            ):
                raise ValueError(
                    f"upstream[{number}].auth: no caller has a token of its own without an "
                    "[[oauth.server]] that issues them"
                )
        self.plugins.check_kinds({entry.name: entry.kind for entry in self.upstream})
        if len(self.upstream) > 1 and any(entry.prefix == "none" for entry in self.upstream):
            raise ValueError('upstream: prefix = "none" is for a single upstream; remove it')
        unknown = unknown_detectors((*self.rule, self.default, self.tools), self.redaction)
        if unknown:
            raise ValueError(f"redact_results: no [[redaction]] is called {min(unknown)!r}")
        providers = {entry.name for entry in self.provider}
        check_names(
            self.contention,
            self.commons,
            upstreams=[LOCAL, *(entry.name for entry in self.upstream)],
            providers=list(providers),
        )
        tiers = _tier_names(self.tier)
        for entry in self.tier:
            if entry.provider not in providers:
                raise ValueError(f"tier {entry.name}: no [[provider]] is called {entry.provider!r}")
        check_fallbacks(self.tier)
        for where, tier in self._tiers_named():
            if tier not in tiers:
                raise ValueError(f"{where}: no [[tier]] is called {tier!r}")
        known = known_targets(self)
        _refuse(
            (("budget", number, "match", part), why)
            for number, budget in enumerate(self.budget)
            for part, why in known.unknown(match_of(budget.match))
        )
        return self

    def _tiers_named(self) -> Iterator[tuple[str, str]]:
        for number, rule in enumerate(self.tier_rule):
            yield f"tier_rule[{number}]", rule.tier
        if self.strategy.cascade.judge is not None:
            yield "strategy.cascade.judge", self.strategy.cascade.judge
        yield from self.memory.tiers_named()


def known_targets(config: Config) -> KnownTargets:
    """Return what budgets can be for; tools of upstreams are known by their prefix alone."""
    return KnownTargets(
        tools=frozenset({entry.exposed for entry in ENTRIES} | {*LOCAL_TOOLS})
        | {tier.model for tier in config.tier},
        prefixes=tuple(
            f"{upstream.name}__" if upstream.prefix == "server" else ""
            for upstream in config.upstream
        ),
        upstreams=BUILT_IN | {upstream.name for upstream in config.upstream},
        providers=frozenset(provider.name for provider in config.provider),
        tiers=frozenset(tier.name for tier in config.tier),
    )


def _check_unique(**named: Sequence[str]) -> None:
    """Refuse each entry that is called like one before it."""
    _refuse(
        ((what, number, "id" if what == "budget" else "name"), f"{what} {name} appears twice")
        for what, names in named.items()
        for number, name in enumerate(names)
        if name in names[:number]
    )


def _tier_names(tiers: Sequence[Tier]) -> set[str]:
    if len(tiers) > ARMS_MAX:
        raise ValueError(
            f"tier: {len(tiers)} are too many; `auto` chooses between at most {ARMS_MAX}"
        )
    return {entry.name for entry in tiers}


def _refuse(faults: Iterable[tuple[tuple[str | int, ...], str]]) -> None:
    """Return if there are no faults, each of which has a place and words."""
    found = [
        InitErrorDetails(type=PydanticCustomError("contradiction", told), loc=place, input={})
        for place, told in faults
    ]
    if found:
        raise ValidationError.from_exception_data(Config.__name__, found)
