"""The log of a tenant's experiences: what happened to each, chained by hashes without gaps.

An entry covers its experience by a keyed digest, never by a plain hash of the content. The
digest takes the tenant's secret and a salt that is kept beside the experience alone. When the
experience is erased the salt goes with it: the entry then says nothing of what it was, not even
to somebody who guesses the content and has the secret, and the chain is as valid as before.
"""

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from governor.experience.experience import Experience
from governor.experience.kinds import Standing
from governor.ids import ExperienceId, NamespaceId, TenantId

_DOMAIN = b"flyball experience\n"


class LogEvent(StrEnum):
    """What happened to an experience.

    MARKED: its standing was changed, by somebody or because a correction came or went.
    """

    WRITTEN = "written"
    MARKED = "marked"
    ERASED = "erased"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """One entry of a tenant's log.

    `standing` is the one that the experience has from here on, None once it is erased. `digest`
    is that of what was written, empty in other entries. `hash` covers the entry and that before.
    """

    tenant: TenantId
    number: int
    at_ms: int
    event: LogEvent
    experience_id: ExperienceId
    experience_number: int
    namespace: NamespaceId
    standing: Standing | None
    digest: str
    by: str
    why: str
    hash: str


def first_hash(tenant: TenantId) -> str:
    """Return what the first entry of a tenant is chained to."""
    return hashlib.sha256(f"flyball experience log\n{tenant}".encode()).hexdigest()


def entry_hash(previous: str, entry: LogEntry) -> str:
    """Return the hash of an entry that comes after the one with the hash `previous`."""
    return hash_of(
        previous,
        tenant=entry.tenant,
        number=entry.number,
        at_ms=entry.at_ms,
        event=entry.event.value,
        experience_id=entry.experience_id,
        experience_number=entry.experience_number,
        namespace=entry.namespace,
        standing=None if entry.standing is None else entry.standing.value,
        digest=entry.digest,
        by=entry.by,
        why=entry.why,
    )


def hash_of(
    previous: str,
    *,
    tenant: str,
    number: int,
    at_ms: int,
    event: str,
    experience_id: str,
    experience_number: int,
    namespace: str,
    standing: str | None,
    digest: str,
    by: str,
    why: str,
) -> str:
    """Return the hash of an entry with these fields that comes after `previous`."""
    parts = (
        previous,
        tenant,
        str(number),
        str(at_ms),
        event,
        experience_id,
        str(experience_number),
        namespace,
        standing or "",
        digest,
        by,
        why,
    )
    return hashlib.sha256(_joined(parts)).hexdigest()


def digest_of(experience: Experience, *, secret: bytes, salt: bytes) -> str:
    """Return the keyed digest of all that never changes of an experience.

    Its content is covered by its address. What is derived (tokens) and what happens to it later
    (standing, what supersedes it) is not covered; entries of their own say the latter.
    """
    provenance = experience.provenance
    parts = (
        experience.experience_id,
        str(experience.number),
        experience.tenant,
        experience.namespace,
        experience.kind.value,
        experience.lane.value,
        experience.address,
        str(experience.size_bytes),
        experience.media_type,
        experience.summary,
        provenance.writer,
        _optional(provenance.call_id),
        _optional(provenance.upstream),
        provenance.source,
        *_counted(provenance.derived_from),
        str(experience.learned_at_ms),
        str(experience.valid_from_ms),
        _optional(experience.valid_until_ms),
        experience.actor,
        _optional(experience.session),
        _optional(experience.task_class),
        *_counted(experience.tags),
        _optional(experience.cost_microusd),
        _optional(experience.outcome),
        _optional(experience.supersedes),
        _optional(experience.expires_at_ms),
        experience.signature,
    )
    return hmac.digest(secret, _DOMAIN + salt + _joined(parts), "sha256").hex()


def breaks_in(entries: Iterable[LogEntry], *, after_number: int, after_hash: str) -> list[str]:
    """Return what is wrong with `entries`, which must follow the entry of that number and hash."""
    found = []
    number, previous = after_number, after_hash
    for entry in entries:
        number += 1
        if entry.number != number:
            found.append(f"entry {number} is missing")
            number = entry.number
        if entry_hash(previous, entry) != entry.hash:
            found.append(f"entry {entry.number} is not what was logged")
        previous = entry.hash
    return found


def _optional(value: str | float | None) -> str:
    # Nothing and the empty text must not look the same.
    return "-" if value is None else f"={value!r}"


def _counted(values: Sequence[str]) -> tuple[str, ...]:
    return (str(len(values)), *values)


def _joined(parts: Iterable[str]) -> bytes:
    """Return the bytes of `parts`, which cannot be taken for those of others."""
    return "".join([f"{len(part)}:{part}" for part in parts]).encode("utf-8", "surrogatepass")
