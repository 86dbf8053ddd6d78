"""What goes into the book of experiences and what comes out, beside experiences themselves."""

from dataclasses import dataclass, field
from enum import StrEnum

from governor.experience.experience import Draft, Experience
from governor.experience.kinds import ExperienceKind, TrustLane
from governor.experience.quota import LaneQuotas
from governor.experience.receipt import Receipt
from governor.ids import (
    CallId,
    ExperienceId,
    NamespaceId,
    PrincipalId,
    SessionId,
    TenantId,
)

CONTENT_BYTES_MAX = 64 * 1024 * 1024
SLICE_BYTES_MAX = 1024 * 1024


class Relation(StrEnum):
    """How one experience is tied to another."""

    DERIVED_FROM = "derived_from"
    SUPERSEDES = "supersedes"
    SAME_AS = "same_as"
    CITES = "cites"


@dataclass(frozen=True, slots=True, kw_only=True)
class Superseded:
    """What superseded an experience, when the house heard of it, and from when on it is true."""

    by: ExperienceId
    at_ms: int
    from_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexed:
    """A draft with what it is found by.

    `terms` are its words as the analysis cuts them, joined by spaces; `vector` is little-endian
    float16, None without a model; `traits` is the mask of what kind of text it is. `tokens` is
    how many it adds to a context. A correction that does not `take_effect` says what it corrects
    and leaves that as it is until it is promoted.

    What is `brought_back` was kept before: what it names may be gone by now, and is then only
    named. `superseded` is what had superseded it, where nothing else that is brought back says so.
    """

    draft: Draft
    terms: str = ""
    vector: bytes | None = None
    traits: int = 0
    tokens: int = 0
    takes_effect: bool = True
    brought_back: bool = False
    superseded: Superseded | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteLimits:
    """How much may be kept, None is no limit; `lanes` is what one writer may write in a window.

    What is above a lane's quota at `now_ms` is refused by itself; nothing is asked of the lanes
    without a time.
    """

    content_bytes_max: int = CONTENT_BYTES_MAX
    tenant_bytes_max: int | None = None
    tenant_items_max: int | None = None
    lanes: LaneQuotas = field(default_factory=LaneQuotas)
    now_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What became of a draft; not new if the same call had written the same content before.

    `entry_number` is where the log says so.
    """

    experience_id: ExperienceId
    number: int
    address: str
    size_bytes: int
    entry_number: int
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Dereferenced:
    """An experience with a part of its content, of which the whole proved intact.

    `content` starts at `offset`; `receipt` is for the whole.
    """

    experience: Experience
    content: bytes
    offset: int
    receipt: Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptFinding:
    """What a receipt proves: that the house signed it, and that its entry stands in the log.

    `is_erased` says that the experience has been erased since.
    """

    is_genuine: bool
    is_logged: bool
    is_erased: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """How many experiences were changed; `derived` of them because of what they were made of.

    `quarantined` beside them were put aside, because what they were made of is gone.
    """

    experiences: int
    derived: int = 0
    quarantined: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UseNote:
    """That somebody was given an experience, whether it was used, and how that went (0 to 1)."""

    experience_id: ExperienceId
    reader: PrincipalId
    at_ms: int
    session: SessionId | None = None
    call_id: CallId | None = None
    used: bool | None = None
    score: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceUsage:
    """How much a namespace keeps in one lane."""

    namespace: NamespaceId
    lane: TrustLane
    items: int
    content_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepRule:
    """That experiences learned before `before_ms` are erased; None is every tenant or kind."""

    before_ms: int
    tenant: TenantId | None = None
    kind: ExperienceKind | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Purged:
    """How much a purge removed: experiences, and blobs that no row named."""

    experiences: int
    orphans: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that does not add up; `experience_id` is None where it is about none."""

    what: str
    experience_id: ExperienceId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What was looked through of a tenant, and what did not add up.

    `is_cut` says that there is more than the problems that are listed.
    """

    entries: int
    experiences: int
    problems: tuple[Problem, ...]
    is_cut: bool
