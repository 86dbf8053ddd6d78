"""An experience: what is handed in to be kept, and what is kept of it."""

from dataclasses import dataclass

from governor.experience.kinds import ExperienceKind, Standing, TrustLane
from governor.ids import (
    CallId,
    ExperienceId,
    NamespaceId,
    PrincipalId,
    SessionId,
    TaskClass,
    TenantId,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Who wrote an experience, in which call, from where, and out of which others.

    `source` names where the words are from as a person would say it: a tool, an address, a file.
    """

    writer: PrincipalId
    call_id: CallId | None = None
    upstream: str | None = None
    source: str = ""
    derived_from: tuple[ExperienceId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What is to be kept: `content` byte for byte, and what is said of it.

    Times are epoch milliseconds. `valid_from_ms` and `valid_until_ms` say when it was true in the
    world, `learned_at_ms` when the house heard of it. `actor` is whose words or deeds they are,
    `tags` are further words to find it by. `cost_microusd` is what it took to find out, None
    where nobody knows; `outcome` is what came of it, from 0 to 1, None where that is open.
    `supersedes` names the experience that this one corrects. From `expires_at_ms` on it is gone.
    """

    experience_id: ExperienceId
    tenant: TenantId
    namespace: NamespaceId
    kind: ExperienceKind
    lane: TrustLane
    content: bytes
    media_type: str
    summary: str
    provenance: Provenance
    learned_at_ms: int
    valid_from_ms: int
    valid_until_ms: int | None = None
    standing: Standing = Standing.ACTIVE
    actor: str = ""
    session: SessionId | None = None
    task_class: TaskClass | None = None
    tags: tuple[str, ...] = ()
    cost_microusd: int | None = None
    outcome: float | None = None
    supersedes: ExperienceId | None = None
    expires_at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Experience:
    """What is kept, without its content.

    `number` counts all that was written to the store, and so orders experiences for good.
    `address` is the SHA-256 of the content, in hex; `tokens` is how many it adds to a context.
    `signature` proves the writer and the lane to whoever has the house's key. `valid_until_ms` is
    also the time from which a correction is true; the house heard of it at `superseded_at_ms`.
    `stated_until_ms` is until when it was said to be true before anything corrected it.
    """

    experience_id: ExperienceId
    number: int
    tenant: TenantId
    namespace: NamespaceId
    kind: ExperienceKind
    lane: TrustLane
    standing: Standing
    address: str
    size_bytes: int
    tokens: int
    media_type: str
    summary: str
    provenance: Provenance
    learned_at_ms: int
    valid_from_ms: int
    valid_until_ms: int | None
    actor: str
    session: SessionId | None
    task_class: TaskClass | None
    tags: tuple[str, ...]
    cost_microusd: int | None
    outcome: float | None
    supersedes: ExperienceId | None
    superseded_by: ExperienceId | None
    expires_at_ms: int | None
    signature: str
    superseded_at_ms: int | None = None
    stated_until_ms: int | None = None
