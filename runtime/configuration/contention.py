"""The tables of `flyball.toml` about contention, and what the turnstile gets of them."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from governor.errors import GovernorError
from governor.fairness.adaptive import Adapts, Concurrency
from governor.fairness.claim import DEADLINE_MS_MAX, WEIGHT_MAX, Priority
from governor.fairness.gate import GateBounds
from governor.fairness.pace import Quota
from governor.fairness.queue import QueueBounds
from governor.fairness.shedding import Pressure, Thresholds
from governor.policy import Match
from runtime.configuration.table import Flag, Name, Table
from runtime.errors import ConfigError
from tool_gateway.contention import Contention, PriorityRule

Count = Annotated[int, Field(strict=True, gt=0, le=100_000)]
Weight = Annotated[int, Field(strict=True, gt=0, le=WEIGHT_MAX)]
Percent = Annotated[int, Field(strict=True, gt=0, le=100)]
PriorityName = Literal["low", "normal", "high"]
_HUNDREDTHS = 100
_MINUTE_S = 60


class ConcurrencyTable(Table):
    """How many calls run at an upstream at once, and between which numbers that moves."""

    start: Count = 64
    min: Count = 16
    max: Count = 512
    adapts: Literal["latency", "failures", "nothing"] = "latency"

    @model_validator(mode="after")
    def _is_in_order(self) -> Self:
        if not self.min <= self.start <= self.max:
            raise ValueError(
                f"min <= start <= max must hold; here they are {self.min}, {self.start}, {self.max}"
            )
        return self


class ThresholdTable(Table):
    """From which pressure on calls are turned away, in percent of the last ten seconds."""

    cpu: Percent | None = None
    memory: Percent | None = None
    io: Percent | None = None


class ShedTable(Table):
    """The thresholds of each priority; calls of one that is not named are never turned away."""

    low: ThresholdTable = ThresholdTable(cpu=95, memory=30, io=95)
    normal: ThresholdTable = ThresholdTable(memory=60)
    high: ThresholdTable = ThresholdTable()


class PriorityTable(Table):
    """Which priority the calls that match have; the first that covers a call governs it."""

    tool: str = "*"
    tenant: str = "*"
    agent: str = "*"
    usual: PriorityName = "normal"
    max: PriorityName = "normal"

    @model_validator(mode="after")
    def _is_in_order(self) -> Self:
        if Priority(self.usual).share > Priority(self.max).share:
            raise ValueError(f"usual = {self.usual!r} is above max = {self.max!r}; raise max")
        return self


class GateBoundsTable(Table):
    """Other bounds for one upstream or model provider."""

    name: Name
    concurrency: ConcurrencyTable = ConcurrencyTable()


class ContentionTable(Table):
    """Who goes next when more calls come than an upstream takes."""

    enabled: Flag = True
    wait_ms_max: Annotated[int, Field(strict=True, gt=0, le=DEADLINE_MS_MAX)] = 30_000
    queue_max: Count = 1024
    queue_max_per_tenant: Count = 1024
    queue_max_per_session: Count = 64
    concurrency: ConcurrencyTable = ConcurrencyTable()
    tenant_weights: dict[str, Weight] = Field(default_factory=dict)
    agent_weights: dict[str, Weight] = Field(default_factory=dict)
    priority: tuple[PriorityTable, ...] = ()
    upstream: tuple[GateBoundsTable, ...] = ()
    shed: ShedTable = ShedTable()

    @model_validator(mode="after")
    def _hangs_together(self) -> Self:
        if not self.queue_max_per_session <= self.queue_max_per_tenant <= self.queue_max:
            raise ValueError(
                "queue_max_per_session <= queue_max_per_tenant <= queue_max must hold; here they "
                f"are {self.queue_max_per_session}, {self.queue_max_per_tenant}, {self.queue_max}"
            )
        _check_once("contention.upstream", [gate.name for gate in self.upstream])
        return self


class CommonsTable(Table):
    """One upstream's quota, divided between the agents that want it."""

    upstream: Name
    per_s: Annotated[int, Field(strict=True, gt=0, le=1_000_000)] | None = None
    per_min: Annotated[int, Field(strict=True, gt=0, le=60_000_000)] | None = None
    burst: Count = 1

    @model_validator(mode="after")
    def _is_one_quota(self) -> Self:
        if (self.per_s is None) == (self.per_min is None):
            raise ValueError("give exactly one of `per_s` and `per_min`")
        if self.burst > self.per_minute:
            raise ValueError(f"burst = {self.burst} is more than a minute allows; write less")
        return self

    @property
    def per_minute(self) -> int:
        """Return how many calls the quota allows in a minute."""
        if self.per_min is not None:
            return self.per_min
        assert self.per_s is not None, "the model lets through one of the two"
        return self.per_s * _MINUTE_S


def check_names(
    contention: ContentionTable,
    commons: Iterable[CommonsTable],
    *,
    upstreams: list[str],
    providers: list[str],
) -> None:
    """Refuse what is about an upstream that is not there, or about two of one name.

    Raises:
        ValueError: a name is unknown, or could mean two things.
    """
    shared = [entry.upstream for entry in commons]
    _check_once("commons", shared)
    named = [("contention.upstream", gate.name) for gate in contention.upstream]
    for where, name in [*named, *(("commons", name) for name in shared)]:
        found = [*upstreams, *providers].count(name)
        if not found:
            raise ValueError(f"{where}: no [[upstream]] or [[provider]] is called {name!r}")
        if found > 1:
            raise ValueError(
                f"{where}: {name!r} is an upstream and a provider; give one another name"
            )
    if shared and not contention.enabled:
        raise ValueError("commons: contention.enabled = false switches it off; remove one of them")


def contention_of(contention: ContentionTable, commons: Iterable[CommonsTable]) -> Contention:
    """Return the terms of the file.

    Raises:
        ConfigError: they contradict themselves.
    """
    try:
        return _contention(contention, {entry.upstream: _quota(entry) for entry in commons})
    except GovernorError as error:
        raise ConfigError(f"contention: {error}") from error


def divided(contention: Contention, *, between: int) -> Contention:
    """Return the part of one of so many processes, so that together they keep to the terms.

    Each has at least one place; only where an upstream allows fewer calls at once, or in a
    minute, than there are processes can that be more in all.
    """
    if between == 1:
        return contention
    return replace(
        contention,
        gate=_part(contention.gate, between),
        gates={name: _part(terms, between) for name, terms in contention.gates.items()},
    )


def _part(terms: GateBounds, between: int) -> GateBounds:
    def part(whole: int) -> int:
        return max(1, whole // between)

    at_once, quota = terms.concurrency, terms.quota
    return replace(
        terms,
        concurrency=replace(
            at_once,
            start=part(at_once.start),
            lowest=part(at_once.lowest),
            highest=part(at_once.highest),
        ),
        quota=None
        if quota is None
        else replace(quota, per_minute=part(quota.per_minute), burst=part(quota.burst)),
    )


def _contention(table: ContentionTable, quotas: dict[str, Quota]) -> Contention:
    queue = QueueBounds(
        total=table.queue_max,
        per_tenant=table.queue_max_per_tenant,
        per_session=table.queue_max_per_session,
    )
    own = {gate.name: gate.concurrency for gate in table.upstream}
    return Contention(
        enabled=table.enabled,
        wait_ms_max=table.wait_ms_max,
        gate=GateBounds(queue=queue, concurrency=_concurrency(table.concurrency)),
        gates={
            name: GateBounds(
                queue=queue,
                concurrency=_concurrency(own.get(name, table.concurrency)),
                quota=quotas.get(name),
            )
            for name in own.keys() | quotas.keys()
        },
        tenant_weights=table.tenant_weights,
        agent_weights=table.agent_weights,
        priorities=tuple(
            PriorityRule(
                match=Match(tool=rule.tool, tenant=rule.tenant, agent=rule.agent),
                usual=Priority(rule.usual),
                highest=Priority(rule.max),
            )
            for rule in table.priority
        ),
        thresholds=_thresholds(table.shed),
    )


def _concurrency(table: ConcurrencyTable) -> Concurrency:
    return Concurrency(
        start=table.start, lowest=table.min, highest=table.max, adapts=Adapts(table.adapts)
    )


def _quota(table: CommonsTable) -> Quota:
    return Quota(per_minute=table.per_minute, burst=table.burst)


def _thresholds(table: ShedTable) -> Thresholds:
    bounds = {Priority.LOW: table.low, Priority.NORMAL: table.normal, Priority.HIGH: table.high}
    return Thresholds(
        of={
            priority: Pressure(
                cpu=_hundredths(of.cpu), memory=_hundredths(of.memory), io=_hundredths(of.io)
            )
            for priority, of in bounds.items()
            if of != ThresholdTable()
        }
    )


def _hundredths(percent: int | None) -> int | None:
    return None if percent is None else percent * _HUNDREDTHS


def _check_once(what: str, names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{what}: {', '.join(twice)} appears twice; names are unique")
