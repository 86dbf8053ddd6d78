"""What is asked of experiences, and what was found."""

from dataclasses import dataclass, field
from enum import StrEnum

from governor.experience.experience import Experience
from governor.experience.kinds import ExperienceKind, Standing, TrustLane
from governor.ids import NamespaceId, SessionId, TaskClass, TenantId

# What a reader gets that names no lanes: everything but what anybody may have written.
LANES_ASKED = (TrustLane.OPERATOR, TrustLane.USER, TrustLane.AGENT, TrustLane.TOOL)


class MemoryTier(StrEnum):
    """How much a search may cost (after BudgetMem); MID is the shipped ranker over everything."""

    LOW = "low"
    MID = "mid"
    HIGH = "high"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which experiences count at all.

    Empty tuples leave out nothing. `at_ms` is the time at which they must have been true, None for
    any; `learned_before_ms` is the time by which the house must have heard of them, and as of which
    it is asked: what was corrected later counts as it stood then.
    """

    lanes: tuple[TrustLane, ...] = LANES_ASKED
    kinds: tuple[ExperienceKind, ...] = ()
    actors: tuple[str, ...] = ()
    session: SessionId | None = None
    task_class: TaskClass | None = None
    tags: tuple[str, ...] = ()
    at_ms: int | None = None
    learned_from_ms: int | None = None
    learned_before_ms: int | None = None

    def admit(self, experience: Experience) -> bool:
        """Tell whether the experience is one of those that count."""
        is_sort = (
            (not self.lanes or experience.lane in self.lanes)
            and (not self.kinds or experience.kind in self.kinds)
            and (not self.actors or experience.actor in self.actors)
            and self.session in (None, experience.session)
            and self.task_class in (None, experience.task_class)
            and set(self.tags) <= set(experience.tags)
        )
        return is_sort and self._admit_times(experience)

    def _admit_times(self, experience: Experience) -> bool:
        at_ms, until_ms = self.at_ms, self._until_ms(experience)
        was_true = at_ms is None or (
            experience.valid_from_ms <= at_ms and (until_ms is None or at_ms < until_ms)
        )
        learned_ms = experience.learned_at_ms
        return (
            was_true
            and (self.learned_from_ms is None or learned_ms >= self.learned_from_ms)
            and (self.learned_before_ms is None or learned_ms < self.learned_before_ms)
        )

    def stands(self, experience: Experience) -> bool:
        """Tell whether it is in force: now, at the time asked for, or as the house then knew."""
        if experience.standing is not Standing.SUPERSEDED:
            return experience.standing is Standing.ACTIVE
        if experience.superseded_at_ms is None:
            return False
        # A corrected one is true until its correction is: the times asked for decide.
        return self.at_ms is not None or not self._knows_correction(experience)

    def _knows_correction(self, experience: Experience) -> bool:
        before_ms, heard_ms = self.learned_before_ms, experience.superseded_at_ms
        return before_ms is None or heard_ms is None or heard_ms < before_ms

    def _until_ms(self, experience: Experience) -> int | None:
        is_unheard = experience.standing is Standing.SUPERSEDED and not self._knows_correction(
            experience
        )
        return experience.stated_until_ms if is_unheard else experience.valid_until_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A question to the experiences of some namespaces of one tenant.

    `most` bounds how many are returned. `use_vectors` off is the mode without a model.
    """

    tenant: TenantId
    namespaces: tuple[NamespaceId, ...]
    text: str
    now_ms: int
    most: int = 10
    filters: Filters = field(default_factory=Filters)
    tier: MemoryTier = MemoryTier.MID
    use_vectors: bool = True

    def finds(self, experience: Experience) -> bool:
        """Tell whether the experience is one that this search may find at all."""
        is_there = (
            experience.tenant == self.tenant
            and experience.namespace in self.namespaces
            and self.filters.stands(experience)
            and (experience.expires_at_ms is None or experience.expires_at_ms > self.now_ms)
        )
        return is_there and self.filters.admit(experience)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """An experience that was found; `score` orders hits of one search and means nothing else."""

    experience: Experience
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a search found, the best first, and how many more matched and were left out."""

    hits: tuple[Hit, ...]
    left_out: int
