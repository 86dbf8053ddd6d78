"""The file's tables as the values that the rest of the house works with."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, Decimal
from fnmatch import fnmatchcase
from pathlib import Path

from pydantic import SecretStr

from governor.amounts import Amounts, Unit
from governor.budget import Budget
from governor.content import USUAL, ContentTerms
from governor.errors import GovernorError
from governor.gate import GateTerms
from governor.ids import BudgetId, TaskClass, TenantId, TierName, ToolName
from governor.limits import ExecutionLimits, Isolation
from governor.loops import BREAKER, REMINDERS, LoopRule
from governor.policy import ApprovalTerms, CacheTerms, Match, Policy, ToolRule
from governor.pricing import ListedPrice, ModelPrice, PriceList
from governor.tiers import ModelTier, TierRule
from governor.turn_policy import AgentClass, TurnPolicy, TurnRule, TurnTerms
from governor.unified_cost import UnifiedPrices
from runtime.budget_words import match_of
from runtime.configuration.access import access_of
from runtime.configuration.confines import confines_of
from runtime.configuration.content import content_of
from runtime.configuration.load import config_version, load_prices
from runtime.configuration.machine import Limits, execution_limits
from runtime.configuration.model import (
    BudgetTable,
    CacheTable,
    Config,
    Estimate,
    GateTable,
    LoopTable,
    Rule,
    RuleTerms,
    TurnTermsTable,
)
from runtime.configuration.models import Pricing, Provider, Tier
from runtime.configuration.named_secrets import secret_named
from runtime.configuration.tier_counting import tokenizer_of
from runtime.configuration.tier_sets import with_sets
from runtime.errors import ConfigError
from runtime.model_gateway.providers.spec import ProviderSpec, Timeouts
from runtime.windows import window_of
from tool_gateway.shell import LOCAL_TOOLS

_MIB = 1024 * 1024
_DAY_MS = 24 * 60 * 60 * 1000
# Where the system's own programs are. What is before them on a PATH may be an environment of
# somebody's, the sidecar's among them, which the user of commands could not even enter.
_SYSTEM_PATH = "/usr/bin:/usr/local/bin:/bin:/opt/homebrew/bin"


def policy_of(config: Config) -> Policy:
    """Return the rules of the file, with local commands off where no rule names them.

    Raises:
        ConfigError: a rule contradicts itself.
    """
    usual = content_of(config.tools)
    rules = [
        _rule(rule, f"rule {rule.name}", _match(rule), name=rule.name, usual=usual)
        for rule in config.rule
    ]
    # A pattern such as "*" is about tools in general and must not switch local commands on by
    # the way. So the rules for shell_run come first, then the one that switches it off, the same
    # for python_run, then the others. The first parts cover one tool each: which rule governs
    # any other tool stays as it was. Among the rules for one the file's order stays too; a
    # pattern that forbids takes its place there, or what it forbids would be allowed by a later
    # rule.
    local = [rule for tool in LOCAL_TOOLS for rule in _local_rules(rules, tool)]
    others = [rule for rule in rules if rule.match.tool not in LOCAL_TOOLS]
    return Policy(
        version=config_version(config),
        rules=(*local, *others),
        fallback=_rule(config.default, "default", Match(), name="default", usual=usual),
        unified=UnifiedPrices(
            tool_call_microusd=config.unified_cost.tool_call_microusd,
            cpu_second_microusd=config.unified_cost.cpu_second_microusd,
        ),
        milliwatts_per_core=_milliwatts(config.energy.watts_per_core),
        access=access_of(config.access),
    )


def local_rules_of(policy: Policy) -> tuple[ToolRule, ...]:
    """Return the rules that allow local commands."""
    return tuple(rule for rule in policy.rules if rule.allow and rule.match.tool in LOCAL_TOOLS)


def python_of(config: Config) -> str | None:
    """Return the interpreter of python_run, None where the system has none."""
    return config.local.python or shutil.which("python3", path=_SYSTEM_PATH)


def shows_builtins(config: Config) -> bool:
    """Tell whether the built-in tools are offered: not beside a sole upstream's own names."""
    if config.builtin.tools != "auto":
        return config.builtin.tools == "on"
    return all(upstream.prefix != "none" for upstream in config.upstream)


def budgets_of(config: Config, *, tenant: TenantId) -> tuple[Budget, ...]:
    """Return the budgets to make at the first start.

    Raises:
        ConfigError: a budget contradicts itself.
    """
    return tuple(_budget(table, tenant) for table in config.budget)


def providers_of(config: Config) -> tuple[ProviderSpec, ...]:
    """Return the model servers, with the keys that the environment holds.

    Raises:
        ConfigError: a variable that the file names is not set.
    """
    return tuple(
        ProviderSpec(
            name=table.name,
            base_url=table.base_url,
            api_key=None
            if table.api_key_from is None
            else SecretStr(secret_named(table.api_key_from, f"provider {table.name}.api_key_from")),
            api_keys=tuple(
                SecretStr(secret_named(variable, f"provider {table.name}.api_keys_from"))
                for variable in table.api_keys_from
            ),
            timeouts=Timeouts(
                whole_ms=table.timeout_ms,
                connect_ms=table.connect_ms,
                first_ms=table.first_token_ms,
                between_ms=table.between_tokens_ms,
            ),
        )
        for table in config.provider
    )


def tiers_of(config: Config) -> tuple[ModelTier, ...]:
    """Return the model tiers, cheapest first as the file lists them.

    They have the prices that they state themselves; those of others are in a price list,
    which can be changed at any time.

    Raises:
        ConfigError: a price cannot be charged.
    """
    version = config_version(config)
    providers = {provider.name: provider for provider in config.provider}
    return tuple(
        with_sets(_tier(tier, providers[tier.provider], version), tier, providers[tier.provider])
        for tier in config.tier
    )


def prices_of(config: Config) -> PriceList:
    """Return the price list, with the ceiling for the models that it does not know.

    Raises:
        ConfigError: the file of prices cannot be read, or contradicts itself.
    """
    pricing = config.pricing
    tables = () if pricing.file is None else load_prices(Path(pricing.file)).price
    try:
        return PriceList(
            prices=tuple(
                ListedPrice(
                    provider=table.provider,
                    model=table.model,
                    price=ModelPrice(
                        input_microusd_per_mtok=table.input_microusd_per_mtok,
                        output_microusd_per_mtok=table.output_microusd_per_mtok,
                        cached_input_microusd_per_mtok=table.cached_input_microusd_per_mtok,
                        cache_write_microusd_per_mtok=table.cache_write_microusd_per_mtok,
                        cache_write_1h_microusd_per_mtok=table.cache_write_1h_microusd_per_mtok,
                    ),
                )
                for table in tables
            ),
            unknown=_ceiling(pricing),
        )
    except GovernorError as error:
        raise ConfigError(f"{pricing.file}: {error}") from error


def _ceiling(pricing: Pricing) -> ModelPrice | None:
    paid_in = pricing.unknown_input_microusd_per_mtok
    paid_out = pricing.unknown_output_microusd_per_mtok
    if paid_in is None or paid_out is None:
        return None
    return ModelPrice(input_microusd_per_mtok=paid_in, output_microusd_per_mtok=paid_out)


def tier_rules_of(config: Config) -> tuple[TierRule, ...]:
    """Return when `auto` means which tier."""
    return tuple(
        TierRule(
            tier=TierName(rule.tier),
            prompt_chars_min=rule.prompt_chars_min,
            keywords=tuple(word.lower() for word in rule.keywords),
            has_tools=rule.has_tools,
        )
        for rule in config.tier_rule
    )


def turn_policy_of(config: Config) -> TurnPolicy:
    """Return how sessions' turns are limited."""
    return TurnPolicy(
        rules=tuple(
            TurnRule(
                terms=_turn_terms(table),
                tenant=table.tenant,
                agent=table.agent,
                task_class=table.task_class,
            )
            for table in config.turn_rule
        ),
        fallback=_turn_terms(config.turns),
        classes=tuple(
            AgentClass(agent=table.agent, task_class=TaskClass(table.name))
            for table in config.task_class
        ),
    )


def _turn_terms(table: TurnTermsTable) -> TurnTerms:
    # One list of fields: the file's names are the governor's.
    return TurnTerms(**{name: getattr(table, name) for name in TurnTermsTable.model_fields})


def retention_ms_of(config: Config) -> int:
    """Return how long records are kept."""
    return config.records.retention_days * _DAY_MS


def archive_bytes_max_of(config: Config) -> int:
    """Return how much of the archive each tenant may have."""
    return config.records.archive_mib_per_tenant * _MIB


def _match(rule: Rule) -> Match:
    return Match(tool=rule.tool, tenant=rule.tenant, agent=rule.agent)


def _local_rules(rules: Sequence[ToolRule], tool: ToolName) -> tuple[ToolRule, ...]:
    """Return the rules as they are for one local tool alone, the last of which switches it off.

    A rule decides about it that names it, or forbids it with others.
    """
    alone = Match(tool=tool)
    off = _rule(RuleTerms(allow=False), "built-in rule", alone, name="local-commands-off")
    deciding = [
        replace(rule, match=replace(rule.match, tool=tool))
        for rule in rules
        if rule.match.tool == tool or (not rule.allow and fnmatchcase(tool, rule.match.tool))
    ]
    return (*deciding, off)


def _rule(
    terms: RuleTerms, where: str, match: Match, *, name: str, usual: ContentTerms = USUAL
) -> ToolRule:
    try:
        return ToolRule(
            name=name,
            match=match,
            allow=terms.allow,
            limits=replace(
                _limits(terms.limits, terms.estimate),
                confines=confines_of(terms, where=where, tool=match.tool),
                probe_limits=tuple(sorted(terms.probe_limits.items())),
            ),
            isolation=Isolation(terms.isolation),
            cost_microusd=terms.cost_microusd,
            estimate_wall_ms=terms.estimate.wall_ms,
            estimate_cpu_ms=terms.estimate.cpu_ms,
            estimates=_estimates(terms.estimate),
            turn_per_call=terms.turn_per_call,
            archive_above_bytes=terms.archive_above_bytes,
            drop_output_schema=terms.drop_output_schema,
            approval=_approval(terms),
            loops=_loops(terms.loops),
            tracker=terms.tracker,
            cheaper=terms.cheaper,
            gate=_gate(terms.gate),
            cache=_cache(terms.cache),
            content=content_of(terms, usual),
            reads_only=terms.reads_only,
        )
    except GovernorError as error:
        raise ConfigError(f"{where}: {error}") from error


def _approval(terms: RuleTerms) -> ApprovalTerms | None:
    if not terms.approve:
        return None
    return ApprovalTerms(wait_ms=terms.approval_wait_s * 1000, ttl_ms=terms.approval_ttl_s * 1000)


def _cache(table: CacheTable | None) -> CacheTerms | None:
    if table is None:
        return None
    return CacheTerms(ttl_ms=table.ttl_s * 1000, is_repeatable=table.repeatable)


def _gate(table: GateTable | None) -> GateTerms | None:
    if table is None:
        return None
    return GateTerms(
        when=table.when,
        hops=table.hops,
        ttl_ms=table.ttl_s * 1000,
        pass_ms=table.pass_s * 1000,
        calls=table.calls,
        per_ms=table.per_s * 1000,
    )


def _estimates(table: Estimate) -> Amounts:
    """Return the estimates that the file gives of the units beside the times."""
    said = table.model_dump(exclude={"wall_ms", "cpu_ms"}, exclude_none=True)
    return Amounts({Unit(name): amount for name, amount in said.items()})


def _milliwatts(watts: Decimal | None) -> int | None:
    if watts is None:
        return None
    return int((watts * 1_000).to_integral_value(rounding=ROUND_CEILING))


def _loops(loops: str | LoopTable) -> LoopRule | None:
    if isinstance(loops, LoopTable):
        return LoopRule(
            remind=loops.remind,
            serve=loops.serve,
            deny=loops.deny,
            pause=loops.pause,
            stale=loops.stale,
            stale_deny=loops.stale_deny,
            is_repeatable=loops.repeatable,
            within_ms=loops.within_s * 1000,
        )
    return {"off": None, "remind": REMINDERS, "break": BREAKER}[loops]


def _limits(limits: Limits, estimate: Estimate) -> ExecutionLimits:
    # What is held of a budget is what may be sent: nothing else bounds a call without a limit.
    egress = estimate.egress_bytes if limits.egress_bytes is None else limits.egress_bytes
    return replace(execution_limits(limits), egress_bytes=egress)


def _budget(table: BudgetTable, tenant: TenantId) -> Budget:
    try:
        return Budget(
            budget_id=BudgetId(table.id),
            tenant=tenant,
            scope=table.scope,
            subject=table.subject,
            limits=Amounts(table.limits),
            window=window_of(table.window),
            kind=table.kind,
            burst=table.burst,
            match=match_of(table.match),
            mode=table.mode,
            overdraft=table.overdraft,
            warn_at_permille=table.warn_at_permille,
        )
    except GovernorError as error:
        raise ConfigError(f"budget {table.id}: {error}") from error


def _tier(table: Tier, provider: Provider, version: str) -> ModelTier:
    try:
        price = table.price()
        return ModelTier(
            name=TierName(table.name),
            provider=table.provider,
            model=table.model,
            price=price,
            output_tokens_max=table.output_tokens_max,
            output_tokens_min=table.output_tokens_min,
            price_version="" if price is None else version,
            wires=provider.spoken,
            context_tokens_max=table.context_tokens_max,
            extras=frozenset(table.extras),
            tokenizer=tokenizer_of(table.name, table.tokenizer),
            hidden_reasoning=table.hidden_reasoning,
            image_tokens_max=table.image_tokens_max,
            fallback=table.fallbacks,
            times=table.times,
            asks_for_usage=provider.stream_usage == "ask",
            output_caps=provider.output_caps,
        )
    except GovernorError as error:
        raise ConfigError(f"tier {table.name}: {error}") from error
