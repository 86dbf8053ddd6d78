"""How the experience memory is written in the admin interface."""

import base64
import binascii
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from governor.experience.chain import LogEntry, LogEvent
from governor.experience.experience import Experience
from governor.experience.kinds import ExperienceKind, Standing, TrustLane
from governor.experience.namespace import EVERYBODY, Grant, Namespace, Right
from governor.experience.promotion import Whereto
from governor.experience.receipt import Receipt
from governor.experience.search import Hit
from governor.experience.trust import DOUBTS_TOLD, doubts_of
from governor.ids import ExperienceId, PrincipalId, SessionId, TenantId
from memory_store.experiences.values import Changed, NamespaceUsage, ReceiptFinding
from runtime.admin.shapes.fields import EpochMs, Label, Out, Paging, Shape
from runtime.memory.administration.experiences import SEARCHED_MAX, Promoted, Taught
from runtime.memory.indexing import text_of
from runtime.memory.namespaces.places import GivenAnyway, name_of
from runtime.token_files import TENANT

_QUERY_CHARS_MAX = 20_000
_IDS_MAX = 500
_Source = Literal["granted", "file", "always"]
_Index = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
_Why = Annotated[str, Field(max_length=500, description="kept in the log of experiences")]
Tenant = Annotated[Label, Field(description="whose memory")]


class OfTenant(Shape):
    """Whose memory is meant."""

    tenant: Tenant = TENANT


class ContentWanted(OfTenant):
    """From which byte on a content is wanted."""

    offset: Annotated[int, Field(ge=0, le=2**40)] = 0


class ExperienceFilters(Paging):
    """Which experiences are wanted."""

    tenant: Tenant = TENANT
    namespace: Label | None = None
    kind: ExperienceKind | None = None
    lane: TrustLane | None = None
    standing: Standing | None = None
    writer: Label | None = None


class ExperienceNew(Shape):
    """What is to be remembered, in the administrator's own words."""

    tenant: Tenant = TENANT
    content: Annotated[str, Field(min_length=1)]
    encoding: Literal["utf-8", "base64"] = "utf-8"
    media_type: Label = "text/plain"
    kind: ExperienceKind = ExperienceKind.LESSON
    summary: Annotated[str, Field(max_length=4_000)] = ""
    namespace: Annotated[
        Label | None, Field(description="its id or name; the tenant's without one")
    ] = None
    tags: Annotated[tuple[Label, ...], Field(max_length=32)] = ()

    @model_validator(mode="after")
    def _is_readable(self) -> Self:
        _ = self.taught
        return self

    @property
    def taught(self) -> Taught:
        """Return it as the memory takes it.

        Raises:
            ValueError: the content is not in its encoding.
        """
        content = self.content.encode(errors="surrogatepass")
        if self.encoding == "base64":
            try:
                content = base64.b64decode(self.content, validate=True)
            except binascii.Error as error:
                message = f"content: is no base64: {error}"
                raise ValueError(message) from error
        else:
            content.decode()  # half of a surrogate pair is no text
        if text_of(content) is None:
            raise ValueError("content: is no text in UTF-8, so it can instruct nobody")
        return Taught(
            content=content,
            media_type=self.media_type,
            kind=self.kind,
            summary=self.summary,
            namespace=self.namespace,
            tags=self.tags,
        )


class SearchIn(Shape):
    """What is searched for; without namespaces in all of the tenant's."""

    tenant: Tenant = TENANT
    query: Annotated[str, Field(min_length=1, max_length=_QUERY_CHARS_MAX)]
    namespaces: Annotated[tuple[Label, ...], Field(max_length=20)] = ()
    limit: Annotated[int, Field(strict=True, ge=1, le=SEARCHED_MAX)] = 10
    kind: ExperienceKind | None = None
    lane: TrustLane | None = None


class PromoteIn(Shape):
    """Whereto an experience is promoted: found as evidence, or as an instruction."""

    tenant: Tenant = TENANT
    to: Whereto = Whereto.EVIDENCE
    why: _Why = ""


class WithdrawIn(Shape):
    """How an experience is withdrawn."""

    tenant: Tenant = TENANT
    to: Literal[Standing.QUARANTINED, Standing.REVOKED] = Standing.REVOKED
    why: _Why = ""


class RevokeIn(Shape):
    """Whose experiences are revoked, with everything that was made of them."""

    tenant: Tenant = TENANT
    writer: Label
    since_ms: EpochMs = 0
    why: _Why = ""


class EraseIn(Shape):
    """What is erased for good, with everything that was made of it: one or more of these."""

    tenant: Tenant = TENANT
    indices: Annotated[tuple[_Index, ...], Field(max_length=_IDS_MAX)] = ()
    session: Label | None = None
    writer: Label | None = None
    namespace: Label | None = None
    why: _Why = ""

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if not (self.indices or self.session or self.writer or self.namespace):
            raise ValueError("name indices, a session, a writer or a namespace")
        return self

    @property
    def ids(self) -> tuple[ExperienceId, ...]:
        """Return the indices."""
        return tuple(map(ExperienceId, self.indices))

    @property
    def of_session(self) -> SessionId | None:
        """Return the session."""
        return None if self.session is None else SessionId(self.session)

    @property
    def of_writer(self) -> PrincipalId | None:
        """Return the writer."""
        return None if self.writer is None else PrincipalId(self.writer)


class ChangedOut(Out):
    """How many experiences were changed; `derived` of them for what they were made of."""

    experiences: int
    derived: int
    quarantined: int
    missing: Annotated[tuple[str, ...], Field(description="indices that are not there")] = ()


class NamespaceNew(Shape):
    """A namespace that is to be there."""

    tenant: Tenant = TENANT
    name: Annotated[str, Field(pattern=r"^team/[A-Za-z0-9_.-]{1,64}$")]
    bytes_max: Annotated[int | None, Field(strict=True, gt=0, le=2**62)] = None


class LimitIn(Shape):
    """How many bytes a namespace may keep; `null` is no bound."""

    tenant: Tenant = TENANT
    bytes_max: Annotated[int | None, Field(strict=True, gt=0, le=2**62)]


class GrantIn(Shape):
    """The right that a principal gets; `null` takes away what it had."""

    tenant: Tenant = TENANT
    principal: Annotated[Label, Field(description='"*" is every principal of the tenant')] = (
        EVERYBODY
    )
    right: Right | None = None


class GrantOut(Out):
    """A right that a principal has, by an administrator's grant, the file, or for good."""

    principal: str
    right: Right
    source: _Source


class NamespaceOut(Out):
    """A namespace, whose own it is, and who was granted what."""

    id: str
    tenant: str
    name: str
    owner: str | None
    bytes_max: int | None
    grants: list[GrantOut]


class GrantedOut(NamespaceOut):
    """A namespace after a grant, and whether there is a principal of that id."""

    is_known: bool


class LaneUsageOut(Out):
    """How much a namespace keeps in one lane."""

    namespace: str
    name: str
    lane: TrustLane
    experiences: int
    content_bytes: int


class ExperienceOut(Out):
    """What is kept of an experience, without its content."""

    index: str
    number: int
    tenant: str
    namespace: str
    kind: ExperienceKind
    lane: TrustLane
    standing: Standing
    summary: str
    actor: str
    tags: list[str]
    writer: str
    source: str
    upstream: str | None
    call_id: str | None
    session: str | None
    task_class: str | None
    derived_from: list[str]
    supersedes: str | None
    superseded_by: str | None
    address: str
    size_bytes: int
    tokens: int
    media_type: str
    learned_at_ms: int
    valid_from_ms: int
    valid_until_ms: int | None
    expires_at_ms: int | None
    cost_microusd: int | None
    outcome: float | None


class EntryOut(Out):
    """What was done to an experience, by whom and why; `hash` chains the log to this entry."""

    number: int
    hash: str
    at_ms: int
    event: str
    standing: Standing | None
    by: str
    why: str


class ExperienceShown(ExperienceOut):
    """An experience with its history, the latest first, and why it waits if it does."""

    waits_because: list[str]
    history: list[EntryOut]


class HitOut(Out):
    """An experience that was found; the score orders those of one search."""

    score: float
    experience: ExperienceOut


class FoundOut(Out):
    """What was found, and how many more there are."""

    items: list[HitOut]
    left_out: int


class PromotedOut(Out):
    """The experience that is found from now on; an adopted one is new, and the old stays."""

    experience: ExperienceOut
    is_adopted: bool


class ReceiptIn(Shape):
    """A receipt, as it came with what was read."""

    experience_id: Label
    tenant: Label
    address: Annotated[str, Field(max_length=128)]
    size_bytes: Annotated[int, Field(strict=True, ge=0)]
    entry_number: Annotated[int, Field(strict=True, ge=0, le=2**62)]
    entry_hash: Annotated[str, Field(max_length=128)]
    head_number: Annotated[int, Field(strict=True, ge=0, le=2**62)]
    head_hash: Annotated[str, Field(max_length=128)]
    signature: Annotated[str, Field(max_length=256)]

    @property
    def receipt(self) -> Receipt:
        """Return it as the memory knows it."""
        return Receipt(
            experience_id=ExperienceId(self.experience_id),
            tenant=TenantId(self.tenant),
            address=self.address,
            size_bytes=self.size_bytes,
            entry_number=self.entry_number,
            entry_hash=self.entry_hash,
            head_number=self.head_number,
            head_hash=self.head_hash,
            signature=self.signature,
        )


class ReceiptOut(Out):
    """What a receipt proves."""

    is_genuine: bool
    is_logged: bool
    is_erased: bool


def experience_out(one: Experience) -> ExperienceOut:
    """Return an experience as the interface writes it."""
    came = one.provenance
    return ExperienceOut(
        index=one.experience_id,
        number=one.number,
        tenant=one.tenant,
        namespace=one.namespace,
        kind=one.kind,
        lane=one.lane,
        standing=one.standing,
        summary=one.summary,
        actor=one.actor,
        tags=list(one.tags),
        writer=came.writer,
        source=came.source,
        upstream=came.upstream,
        call_id=came.call_id,
        session=one.session,
        task_class=one.task_class,
        derived_from=list(came.derived_from),
        supersedes=one.supersedes,
        superseded_by=one.superseded_by,
        address=one.address,
        size_bytes=one.size_bytes,
        tokens=one.tokens,
        media_type=one.media_type,
        learned_at_ms=one.learned_at_ms,
        valid_from_ms=one.valid_from_ms,
        valid_until_ms=one.valid_until_ms,
        expires_at_ms=one.expires_at_ms,
        cost_microusd=one.cost_microusd,
        outcome=one.outcome,
    )


def with_history(one: Experience, entries: tuple[LogEntry, ...]) -> ExperienceShown:
    """Return an experience with what was done to it."""
    waits_because: list[str] = []
    if one.standing is Standing.QUARANTINED:
        put = entries[0] if entries and entries[0].event is LogEvent.MARKED else None
        if put is None:
            doubts = doubts_of(one.lane, one.kind, corrects=one.supersedes is not None)
            waits_because = [DOUBTS_TOLD[doubt] for doubt in doubts]
        else:
            waits_because = [f"{put.by} put it there" + (f": {put.why}" if put.why else "")]
    return ExperienceShown(
        **experience_out(one).model_dump(),
        waits_because=waits_because,
        history=[
            EntryOut(
                number=entry.number,
                hash=entry.hash,
                at_ms=entry.at_ms,
                event=entry.event.value,
                standing=entry.standing,
                by=entry.by,
                why=entry.why,
            )
            for entry in entries
        ],
    )


def hit_out(hit: Hit) -> HitOut:
    """Return what was found as the interface writes it."""
    return HitOut(score=hit.score, experience=experience_out(hit.experience))


def promoted_out(promoted: Promoted) -> PromotedOut:
    """Return what a promotion made."""
    return PromotedOut(
        experience=experience_out(promoted.experience), is_adopted=promoted.is_adopted
    )


def namespace_out(one: Namespace, anyway: GivenAnyway) -> NamespaceOut:
    """Return a namespace as the interface writes it, with the rights that stand without a grant."""
    by_source: tuple[tuple[_Source, tuple[Grant, ...]], ...] = (
        ("granted", one.grants),
        ("file", anyway.of_file),
        ("always", anyway.of_house),
    )
    return NamespaceOut(
        id=one.namespace,
        tenant=one.tenant,
        name=name_of(one),
        owner=one.owner,
        bytes_max=one.bytes_max,
        grants=[
            GrantOut(principal=grant.principal, right=grant.right, source=source)
            for source, grants in by_source
            for grant in grants
        ],
    )


def usage_out(one: NamespaceUsage, name: str) -> LaneUsageOut:
    """Return how much the namespace of that name keeps."""
    return LaneUsageOut(
        namespace=one.namespace,
        name=name,
        lane=one.lane,
        experiences=one.items,
        content_bytes=one.content_bytes,
    )


def changed_out(changed: Changed, *, missing: tuple[ExperienceId, ...] = ()) -> ChangedOut:
    """Return how many experiences were changed, and which that were named are not there."""
    return ChangedOut(
        experiences=changed.experiences,
        derived=changed.derived,
        quarantined=changed.quarantined,
        missing=missing,
    )


def finding_out(found: ReceiptFinding) -> ReceiptOut:
    """Return what a receipt proves."""
    return ReceiptOut(
        is_genuine=found.is_genuine, is_logged=found.is_logged, is_erased=found.is_erased
    )
