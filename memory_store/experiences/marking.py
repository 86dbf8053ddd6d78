"""Experiences put where they are to stand: promoted, quarantined, revoked, with what follows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from sqlalchemy import Connection, bindparam, insert, select

from governor.experience.chain import LogEvent
from governor.experience.experience import Experience
from governor.experience.kinds import Standing
from governor.ids import ExperienceId, TenantId
from memory_store.engine import driver_of
from memory_store.errors import ExperienceNotFoundError, InvalidExperienceError
from memory_store.experiences.drafts import checked_names, storable_text
from memory_store.experiences.heads import Head, locked_head
from memory_store.experiences.rows import HEAD, experience_of
from memory_store.experiences.standings import (
    CORRECT,
    HAND_OVER,
    STAND,
    standing_corrected,
    standing_restored,
)
from memory_store.experiences.tables import experience_links, experiences
from memory_store.experiences.values import Relation
from memory_store.statement import Driver, Statement, Value

# What one transaction changes, so that nobody behind it waits for long.
MARKED_AT_ONCE = 256
WHY_CHARS_MAX = 500
WITHDRAWN = frozenset({Standing.REVOKED, Standing.QUARANTINED})

Forget = Callable[[Connection, TenantId, Sequence[ExperienceId]], None]
"""Takes out what other tables hold of experiences, in the transaction that withdraws these."""

_rows = experiences.c
_links = experience_links.c
BY_NUMBER = Statement(
    select(*HEAD).where(_rows.tenant == bindparam("tenant"), _rows.number == bindparam("number"))
)
BY_ID = Statement(
    select(*HEAD).where(
        _rows.tenant == bindparam("tenant"), _rows.experience_id == bindparam("experience_id")
    )
)
DERIVED = Statement(
    select(_links.source)
    .where(_links.target == bindparam("number"), _links.relation == bindparam("relation"))
    .order_by(_links.source)
)


# What an experience corrects: what it was written to correct, and whatever the corrections between
# the two had corrected that were withdrawn.
CORRECTED = Statement(
    select(*HEAD)
    .join_from(experience_links, experiences, _rows.number == _links.target)
    .where(
        _rows.tenant == bindparam("tenant"),
        _links.source == bindparam("number"),
        _links.relation == bindparam("relation"),
    )
    .order_by(_rows.number)
)
_TIED = Statement(
    select(_links.target).where(
        _links.source == bindparam("source"),
        _links.target == bindparam("target"),
        _links.relation == bindparam("relation"),
    )
)
_TIE = Statement(
    insert(experience_links).values(
        {name: bindparam(name) for name in ("source", "target", "relation")}
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Who changes experiences of which tenant, and why."""

    tenant: TenantId
    by: str
    why: str
    now_ms: int

    @classmethod
    def made(cls, *, tenant: TenantId, by: str, why: str, now_ms: int) -> "Order":
        """Return an order as the log can hold it."""
        checked_names(tenant=tenant, by=by)
        kept = storable_text(why)[:WHY_CHARS_MAX]
        return cls(tenant=tenant, by=by, why=kept, now_ms=now_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """How many were changed, and the numbers of what was made of all that was looked at."""

    count: int
    derived: tuple[int, ...]


def checked(standing: Standing) -> Standing:
    """Return a standing that can be asked for.

    Raises:
        InvalidExperienceError: only a correction supersedes.
    """
    if standing is Standing.SUPERSEDED:
        message = "nothing is superseded by order; write the correction"
        raise InvalidExperienceError(message)
    return standing


def mark_ids(
    connection: Connection,
    *,
    ids: Sequence[ExperienceId],
    standing: Standing,
    order: Order,
    takes_effect: bool,
    forgets: Sequence[Forget],
) -> Marked:
    """Put experiences where they are to stand.

    Raises:
        ExperienceNotFoundError: one is not there; none is changed.
    """
    driver = driver_of(connection)
    head = locked_head(driver, order.tenant)
    asked: list[dict[str, Value]] = [
        {"tenant": order.tenant, "experience_id": one} for one in dict.fromkeys(ids)
    ]
    found = [experience_of(row) for row in BY_ID.rows_many(driver, asked)]
    if len(found) < len(asked):
        raise ExperienceNotFoundError
    marking = Marking(driver=driver, head=head, order=order)
    marking.put(found, standing, takes_effect=takes_effect)
    return marking.finished(connection, forgets)


def revoke_numbers(
    connection: Connection,
    *,
    numbers: Sequence[int],
    order: Order,
    forgets: Sequence[Forget],
) -> Marked:
    """Revoke the experiences of those numbers; those that are gone are passed over."""
    driver = driver_of(connection)
    head = locked_head(driver, order.tenant)
    marking = Marking(driver=driver, head=head, order=order)
    marking.put(found_by_number(driver, order.tenant, numbers), Standing.REVOKED)
    return marking.finished(connection, forgets)


def found_by_number(driver: Driver, tenant: TenantId, numbers: Iterable[int]) -> list[Experience]:
    """Return the tenant's experiences of those numbers that are there."""
    asked: list[dict[str, Value]] = [{"tenant": tenant, "number": one} for one in numbers]
    return [experience_of(row) for row in BY_NUMBER.rows_many(driver, asked)]


def derived_of(driver: Driver, numbers: Iterable[int]) -> tuple[int, ...]:
    """Return the numbers of what was made of those experiences, each once."""
    relation = Relation.DERIVED_FROM.value
    asked: list[dict[str, Value]] = [{"number": one, "relation": relation} for one in numbers]
    rows = DERIVED.rows_many(driver, asked)
    return tuple(dict.fromkeys(number for (number,) in rows))


@dataclass(slots=True, kw_only=True)
class Marking:
    """The changes of standing that one transaction makes."""

    driver: Driver
    head: Head
    order: Order
    _looked_at: dict[int, Experience] = field(default_factory=dict)
    _revoked: list[ExperienceId] = field(default_factory=list)
    _changed: int = 0

    def put(
        self, found: Sequence[Experience], standing: Standing, *, takes_effect: bool = False
    ) -> None:
        """Put `found` where they are to stand."""
        self._looked_at.update((one.number, one) for one in found)
        for one in found:
            # Its correction may have been changed before it.
            experience = self._looked_at[one.number]
            is_back = standing is not Standing.REVOKED
            if experience.standing is Standing.REVOKED and is_back:
                # Whoever decided this may not have known: the revocation came in between.
                continue
            meant = standing
            if standing is Standing.ACTIVE and experience.superseded_by is not None:
                meant = Standing.SUPERSEDED
            if meant is not experience.standing:
                self._set(experience, meant, by=experience.superseded_by)
                self._changed += 1
                if meant is Standing.REVOKED:
                    self._revoked.append(experience.experience_id)
            if experience.supersedes is not None:
                self._follow(experience, standing, takes_effect=takes_effect)

    def put_aside(self, found: Sequence[Experience]) -> int:
        """Quarantine those of `found` that are active and may not instruct; return how many."""
        aside = [one for one in found if one.standing is Standing.ACTIVE and not one.lane.instructs]
        self.put(aside, Standing.QUARANTINED)
        return len(aside)

    def finished(self, connection: Connection, forgets: Sequence[Forget]) -> Marked:
        """Return what was changed, once it is written."""
        self.head.write(self.driver)
        if self._revoked:
            for forget in forgets:
                forget(connection, self.order.tenant, self._revoked)
        return Marked(count=self._changed, derived=derived_of(self.driver, self._looked_at))

    def restore(
        self,
        withdrawn: Experience,
        *,
        going: Mapping[ExperienceId, Experience] = MappingProxyType({}),
    ) -> None:
        """Let what `withdrawn` corrected stand again, or as what corrected `withdrawn` has it.

        Those that are `going` with it are left as they are, and correct nothing any more.
        """
        giver = withdrawn
        for _ in going:
            giver = going.get(giver.superseded_by or giver.experience_id, giver)
        for corrected in self._corrected_by(withdrawn):
            is_its = corrected.superseded_by == withdrawn.experience_id
            if not is_its or corrected.experience_id in going:
                continue
            if giver.superseded_by is None:
                self._set(corrected, standing_restored(corrected.standing), by=None)
            else:
                self._hand_over(corrected, giver, to=giver.superseded_by)

    def _follow(self, experience: Experience, standing: Standing, *, takes_effect: bool) -> None:
        """Have what `experience` corrects go with it."""
        if standing is not Standing.ACTIVE:
            self.restore(experience)
            return
        if not takes_effect:
            return
        # What was handed over to its own correction, while it was withdrawn, is its again.
        free = (None, experience.superseded_by)
        for corrected in self._corrected_in_all(experience):
            if corrected.superseded_by in free:
                meant = standing_corrected(corrected.standing)
                self._set(corrected, meant, by=experience.experience_id, correction=experience)
                self._tie(experience.number, corrected.number)

    def _corrected_in_all(self, experience: Experience) -> list[Experience]:
        """Return what `experience` corrects, and what those had corrected that are withdrawn."""
        found: dict[int, Experience] = {}
        waiting = [experience]
        while waiting:
            for corrected in self._corrected_by(waiting.pop()):
                if corrected.number not in found and corrected.standing in WITHDRAWN:
                    waiting.append(corrected)
                found[corrected.number] = corrected
        return list(found.values())

    def _corrected_by(self, experience: Experience) -> list[Experience]:
        asked: dict[str, Value] = {
            "tenant": self.order.tenant,
            "number": experience.number,
            "relation": Relation.SUPERSEDES.value,
        }
        return [experience_of(row) for row in CORRECTED.rows(self.driver, asked)]

    def _hand_over(self, corrected: Experience, giver: Experience, *, to: ExperienceId) -> None:
        """Have `corrected` superseded by what supersedes `giver`."""
        HAND_OVER.run(self.driver, {"of_number": corrected.number, "giver": giver.number})
        heir = BY_ID.row(self.driver, {"tenant": self.order.tenant, "experience_id": to})
        if heir is not None:
            self._tie(experience_of(heir).number, corrected.number)
        self._stands(corrected, corrected.standing, by=to)

    def _tie(self, source: int, target: int) -> None:
        """Note that one supersedes the other, as long as that is not noted."""
        relation = Relation.SUPERSEDES.value
        ends: dict[str, Value] = {"source": source, "target": target, "relation": relation}
        if _TIED.row(self.driver, ends) is None:
            _TIE.run(self.driver, ends)

    def _set(
        self,
        experience: Experience,
        standing: Standing,
        *,
        by: ExperienceId | None,
        correction: Experience | None = None,
    ) -> None:
        """Write and log where an experience stands, and what supersedes it from now on."""
        stands: dict[str, Value] = {"of_number": experience.number, "standing": standing.value}
        if by == experience.superseded_by:
            STAND.run(self.driver, stands)
        else:
            at_ms = None if correction is None else self.order.now_ms
            from_ms = None if correction is None else correction.valid_from_ms
            CORRECT.run(self.driver, {**stands, "by": by, "at_ms": at_ms, "from_ms": from_ms})
        self._stands(experience, standing, by=by)

    def _stands(
        self, experience: Experience, standing: Standing, *, by: ExperienceId | None
    ) -> None:
        """Remember and log where an experience stands from now on."""
        if experience.number in self._looked_at:
            changed = replace(experience, standing=standing, superseded_by=by)
            self._looked_at[experience.number] = changed
        self.head.log(
            LogEvent.MARKED,
            experience_id=experience.experience_id,
            experience_number=experience.number,
            namespace=experience.namespace,
            standing=standing,
            at_ms=self.order.now_ms,
            by=self.order.by,
            why=self.order.why,
        )
