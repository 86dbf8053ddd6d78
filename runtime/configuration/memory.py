"""The table of `flyball.toml` about the experience memory, and what it stands for."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from governor.experience.charges import MemoryPrices
from governor.experience.kinds import ExperienceKind
from governor.ids import PrincipalId
from memory_store.search.vector_index import VectorIndex
from runtime.configuration.compaction import CompactionTable
from runtime.configuration.memory_keeping import MS_PER_DAY, KeepTable, KeptDaysTable
from runtime.configuration.memory_learning import CasesTable, PlaybooksTable, SleepTable
from runtime.configuration.memory_tiers import Admission, TiersTable
from runtime.configuration.table import Amount, Flag, Name, Positive, Table

_MIB = 1024 * 1024
_TEAM_PREFIX = "team/"
_Price = Annotated[int, Field(strict=True, ge=0, le=1_000_000_000)]
_Members = Annotated[tuple[Name, ...], Field(max_length=10_000)]


def _is_of_a_team(name: str) -> str:
    team = name.removeprefix(_TEAM_PREFIX)
    if team in ("", name) or not team.isprintable() or "/" in team or " " in team:
        raise ValueError('name a namespace "team/NAME"; "agent" and "tenant" are there anyway')
    return name


class Recorded(StrEnum):
    """Which results of tools become experiences by themselves."""

    OVERSIZE = "oversize"
    ALL = "all"
    NONE = "none"


class NamespaceTable(Table):
    """A namespace that several agents share; "*" is every agent of the tenant."""

    name: Annotated[str, Field(max_length=100), AfterValidator(_is_of_a_team)]
    readers: _Members = ()
    writers: _Members = ()
    bytes_max: Positive | None = None
    admission: Admission = Admission.ALL


class MemoryTable(Table):
    """What the experience memory costs, holds and records."""

    enabled: Flag = True
    record: Recorded = Recorded.OVERSIZE
    vectors: VectorIndex = VectorIndex.AUTO
    read_microusd_per_ktoken: _Price = 0
    write_microusd_per_mib: _Price = 0
    item_bytes_max: Annotated[int, Field(strict=True, ge=1024, le=256 * _MIB)] = 8 * _MIB
    tenant_bytes_max: Amount = 10 * 1024 * _MIB
    namespace_bytes_max: Positive | None = None
    kept_days: KeptDaysTable = KeptDaysTable()
    keep: Annotated[tuple[KeepTable, ...], Field(max_length=1_000)] = ()
    tiers: TiersTable = TiersTable()
    namespace: Annotated[tuple[NamespaceTable, ...], Field(max_length=1_000)] = ()
    compaction: Annotated[tuple[CompactionTable, ...], Field(max_length=100)] = ()
    cases: CasesTable = CasesTable()
    playbooks: PlaybooksTable = PlaybooksTable()
    sleep: SleepTable = SleepTable()

    @model_validator(mode="after")
    def _compacts_into_something(self) -> Self:
        if self.compaction and not self.enabled:
            raise ValueError("compaction: nothing gives way without a memory; set enabled = true")
        return self

    def tiers_named(self) -> Iterator[tuple[str, str]]:
        """Yield each model tier that the memory is to ask, with where the file says so."""
        for where, tier in (("playbooks", self.playbooks.tier), ("tiers", self.tiers.tier)):
            if tier is not None:
                yield f"memory.{where}.tier", tier

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        names = [one.name for one in self.namespace]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"namespace: {twice[0]} is there twice")
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamTerms:
    """Who may read and who may write in a namespace that the file names."""

    readers: frozenset[PrincipalId]
    writers: frozenset[PrincipalId]
    bytes_max: int | None = None
    admission: Admission = Admission.ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTerms:
    """What the memory goes by; `kept_ms` is by kind how long an experience is kept."""

    prices: MemoryPrices
    record: Recorded
    item_bytes_max: int
    tenant_bytes_max: int
    namespace_bytes_max: int | None
    kept_ms: Mapping[ExperienceKind, int] = field(default_factory=dict)
    teams: Mapping[str, TeamTerms] = field(default_factory=dict)

    def chooses(self, name: str) -> bool:
        """Tell whether what enters the namespace of that name is chosen by what is of use."""
        team = self.teams.get(name)
        return team is not None and team.admission is Admission.LEARNED


def terms_in_force(table: Callable[[], MemoryTable]) -> Callable[[], MemoryTerms]:
    """Return what says the terms in force; they are made anew only when the table is another."""
    known: tuple[MemoryTable, MemoryTerms] | None = None

    def terms() -> MemoryTerms:
        nonlocal known
        now = table()
        if known is None or known[0] is not now:
            known = (now, memory_terms_of(now))
        return known[1]

    return terms


def memory_terms_of(table: MemoryTable) -> MemoryTerms:
    """Return what a table says, as the memory goes by it."""
    return MemoryTerms(
        prices=MemoryPrices(
            read_microusd_per_ktoken=table.read_microusd_per_ktoken,
            write_microusd_per_mib=table.write_microusd_per_mib,
        ),
        record=table.record,
        item_bytes_max=table.item_bytes_max,
        tenant_bytes_max=table.tenant_bytes_max,
        namespace_bytes_max=table.namespace_bytes_max,
        kept_ms={kind: days * MS_PER_DAY for kind, days in table.kept_days.by_kind()},
        teams={
            one.name: TeamTerms(
                readers=frozenset(map(PrincipalId, one.readers)),
                writers=frozenset(map(PrincipalId, one.writers)),
                bytes_max=one.bytes_max,
                admission=one.admission,
            )
            for one in table.namespace
        },
    )
