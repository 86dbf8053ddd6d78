"""Whether there is room for what is written: in the tenant, a namespace, and a writer's lanes."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import bindparam, select
from sqlalchemy.dialects.postgresql import insert as upsert

from governor.experience.kinds import TrustLane
from governor.experience.quota import Exceeded, Tally
from governor.ids import PrincipalId, TenantId
from memory_store.errors import ExperienceQuotaError
from memory_store.experiences.batch import Batch
from memory_store.experiences.drafts import ReadyDraft
from memory_store.experiences.known import identity
from memory_store.experiences.tables import experience_tallies, experience_totals
from memory_store.experiences.values import WriteLimits
from memory_store.statement import Driver, Statement, Value

_totals = experience_totals.c
_TOTALS = Statement(
    select(_totals.namespace, _totals["items"], _totals.content_bytes).where(
        _totals.tenant == bindparam("tenant")
    )
)
_new_total = upsert(experience_totals)
GROW = Statement(
    _new_total.values(
        {c.name: bindparam(c.name) for c in experience_totals.columns}
    ).on_conflict_do_update(
        index_elements=["tenant", "namespace", "lane"],
        set_={
            "items": _totals["items"] + _new_total.excluded["items"],
            "content_bytes": _totals.content_bytes + _new_total.excluded.content_bytes,
        },
    )
)
_tallies = experience_tallies.c
_TALLY = Statement(
    select(_tallies.window_from_ms, _tallies.writes, _tallies.content_bytes).where(
        _tallies.tenant == bindparam("tenant"),
        _tallies.writer == bindparam("writer"),
        _tallies.lane == bindparam("lane"),
    )
)
_new_tally = upsert(experience_tallies)
_PUT_TALLY = Statement(
    _new_tally.values(
        {c.name: bindparam(c.name) for c in experience_tallies.columns}
    ).on_conflict_do_update(
        index_elements=["tenant", "writer", "lane"],
        set_={
            name: getattr(_new_tally.excluded, name)
            for name in ("window_from_ms", "writes", "content_bytes")
        },
    )
)
_ROOM = "erase some of what is kept there or have the limit raised"
_Lane = tuple[PrincipalId, TrustLane]


@dataclass(slots=True, kw_only=True)
class Tallies:
    """What writers have written into their lanes in the present window."""

    tenant: TenantId
    limits: WriteLimits
    _by_lane: dict[_Lane, Tally] = field(default_factory=dict)
    _windows: dict[_Lane, int] = field(default_factory=dict)

    def admitted(
        self, driver: Driver, drafts: Sequence[ReadyDraft]
    ) -> tuple[list[ReadyDraft], dict[object, Exceeded]]:
        """Return those of `drafts` that fit, and by their identity what the others break."""
        now_ms, lanes = self.limits.now_ms, self.limits.lanes
        if now_ms is None:
            return list(drafts), {}
        fitting: list[ReadyDraft] = []
        exceeded: dict[object, Exceeded] = {}
        for draft in drafts:
            lane, size = draft.experience.lane, draft.experience.size_bytes
            key = (draft.experience.provenance.writer, lane)
            if key not in self._by_lane:
                self._by_lane[key] = self._read(driver, key, now_ms)
            refused = lanes.exceeded(lane, self._by_lane[key], size, now_ms=now_ms)
            if refused is not None:
                exceeded[identity(draft.experience)] = refused
                continue
            self._by_lane[key] = self._by_lane[key].plus(size)
            fitting.append(draft)
        return fitting, exceeded

    def write(self, driver: Driver) -> None:
        """Write what was counted."""
        if self.limits.now_ms is None:
            return
        rows: list[dict[str, Value]] = [
            {
                "tenant": self.tenant,
                "writer": writer,
                "lane": lane.value,
                "window_from_ms": self._windows[writer, lane],
                "writes": tally.writes,
                "content_bytes": tally.bytes,
            }
            for (writer, lane), tally in self._by_lane.items()
        ]
        _PUT_TALLY.run_each(driver, rows)

    def _read(self, driver: Driver, key: _Lane, now_ms: int) -> Tally:
        writer, lane = key
        asked = {"tenant": self.tenant, "writer": writer, "lane": lane.value}
        row = _TALLY.row(driver, asked)
        window_from_ms = self.limits.lanes.window_of(now_ms)
        # A later window than ours is that of a sidecar whose clock is ahead: it goes on.
        is_current = row is not None and row[0] >= window_from_ms
        self._windows[key] = row[0] if is_current else window_from_ms
        return Tally(writes=row[1], bytes=row[2]) if is_current else Tally()


def grow(driver: Driver, batch: Batch) -> None:
    """Add what is written to what its namespaces hold."""
    rows: list[dict[str, Value]] = [
        {
            "tenant": batch.head.tenant,
            "namespace": namespace,
            "lane": lane.value,
            "items": count,
            "content_bytes": batch.sizes[namespace, lane],
        }
        for (namespace, lane), count in batch.items.items()
    ]
    GROW.run_each(driver, rows)


def check_room(driver: Driver, batch: Batch, limits: WriteLimits) -> None:
    """Return if what is written fits beside what is kept.

    Raises:
        ExperienceQuotaError: a limit of the tenant or a namespace would be passed.
    """
    spaces = {space: batch.known.spaces[space] for space, _ in batch.items}
    bounds = (limits.tenant_items_max, limits.tenant_bytes_max, *spaces.values())
    if all(most is None for most in bounds):
        return
    items, sizes = sum(batch.items.values()), Counter[str]()
    for (namespace, _), size in batch.sizes.items():
        sizes[namespace] += size
    for namespace, kept_items, kept_bytes in _TOTALS.rows(driver, {"tenant": batch.head.tenant}):
        items += kept_items
        sizes[namespace] += kept_bytes
    measured: list[tuple[str, int, int | None]] = [
        ("the tenant's items", items, limits.tenant_items_max),
        ("the tenant's bytes", sizes.total(), limits.tenant_bytes_max),
        *(("the namespace's bytes", sizes[space], most) for space, most in spaces.items()),
    ]
    for what, kept, most in measured:
        if most is not None and kept > most:
            message = f"{what} would be {kept} of at most {most}; {_ROOM}"
            raise ExperienceQuotaError(message)
