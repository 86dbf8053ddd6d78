"""The end of each tenant's log of experiences, and the entries that are put behind it.

Whoever changes experiences of a tenant has its head: on a server the row is locked until the
transaction ends, so that the numbers of a log have no gaps and are committed in their order.
"""

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import bindparam, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from governor.experience.chain import LogEntry, LogEvent, first_hash, hash_of
from governor.experience.kinds import Standing
from governor.ids import ExperienceId, NamespaceId, TenantId
from memory_store.experiences.tables import experience_keys, experience_log
from memory_store.statement import Driver, Statement, Value

_SECRET_BYTES = 32
_STANDINGS = frozenset(Standing)
_keys = experience_keys.c
_MAKE = Statement(
    upsert(experience_keys)
    .values({name: bindparam(name) for name in ("tenant", "secret", "head_number", "head_hash")})
    .on_conflict_do_nothing()
)
_LOCKED = Statement(
    select(_keys.secret, _keys.head_number, _keys.head_hash)
    .where(_keys.tenant == bindparam("tenant"))
    .with_for_update()
)
_READ = Statement(
    select(_keys.secret, _keys.head_number, _keys.head_hash).where(
        _keys.tenant == bindparam("tenant")
    )
)
_MOVE = Statement(
    update(experience_keys)
    .where(_keys.tenant == bindparam("of_tenant"))
    .values(head_number=bindparam("number"), head_hash=bindparam("hash"))
)
_LOG_NAMES = tuple(column.name for column in experience_log.columns)
_LOG = Statement(insert(experience_log).values({name: bindparam(name) for name in _LOG_NAMES}))


class Entered(NamedTuple):
    """Where an entry stands in a log."""

    number: int
    hash: str


@dataclass(slots=True, kw_only=True)
class Head:
    """The end of a tenant's log, as this transaction moves it."""

    tenant: TenantId
    secret: bytes
    number: int
    hash: str
    _rows: list[dict[str, Value]] = field(default_factory=list)

    def log(
        self,
        event: LogEvent,
        *,
        experience_id: ExperienceId,
        experience_number: int,
        namespace: NamespaceId,
        standing: Standing | None,
        at_ms: int,
        digest: str = "",
        by: str = "",
        why: str = "",
    ) -> Entered:
        """Return where the entry stands that is put behind the log."""
        number = self.number + 1
        fields: dict[str, Any] = {
            "tenant": self.tenant,
            "number": number,
            "at_ms": at_ms,
            "event": event.value,
            "experience_id": experience_id,
            "experience_number": experience_number,
            "namespace": namespace,
            "standing": None if standing is None else standing.value,
            "digest": digest,
            "by": by,
            "why": why,
        }
        entered = Entered(number, hash_of(self.hash, **fields))
        fields["hash"] = entered.hash
        self._rows.append(fields)
        self.number, self.hash = entered
        return entered

    def write(self, driver: Driver) -> None:
        """Write what was logged."""
        if not self._rows:
            return
        _LOG.run_each(driver, self._rows)
        moved: dict[str, Value] = {
            "of_tenant": self.tenant,
            "number": self.number,
            "hash": self.hash,
        }
        _MOVE.run(driver, moved)
        self._rows.clear()


def locked_head(driver: Driver, tenant: TenantId) -> Head:
    """Return the end of a tenant's log, which nobody else moves until this transaction ends."""
    row = _LOCKED.row(driver, {"tenant": tenant})
    if row is None:
        made: dict[str, Value] = {"tenant": tenant, "secret": secrets.token_bytes(_SECRET_BYTES)}
        _MAKE.run(driver, {**made, "head_number": 0, "head_hash": first_hash(tenant)})
        row = _LOCKED.row(driver, {"tenant": tenant})
    return _head_of(tenant, row)


def read_head(driver: Driver, tenant: TenantId) -> Head | None:
    """Return the end of a tenant's log, None if nothing was ever logged."""
    row = _READ.row(driver, {"tenant": tenant})
    return None if row is None else _head_of(tenant, row)


def entries_of(rows: Iterable[Sequence[Any]]) -> tuple[LogEntry, ...]:
    """Return the entries in whole rows of the log."""
    return tuple(_entry_of(row) for row in rows)


def _head_of(tenant: TenantId, row: Sequence[Any]) -> Head:
    secret, number, hash_ = row
    return Head(tenant=tenant, secret=bytes(secret), number=number, hash=hash_)


def _entry_of(row: Sequence[Any]) -> LogEntry:
    named = dict(zip(_LOG_NAMES, row, strict=True))
    standing = named.pop("standing")
    return LogEntry(
        **{
            **named,
            "event": LogEvent(named["event"]),
            # What nobody wrote there is told of by the hash, which it does not have.
            "standing": Standing(standing) if standing in _STANDINGS else None,
        }
    )
