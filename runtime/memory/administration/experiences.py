"""What administrators do with the memory: they look, teach, promote, withdraw, erase."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from governor.experience.experience import Draft, Experience, Provenance
from governor.experience.kinds import LANES_BY_TRUST, ExperienceKind, Standing, TrustLane
from governor.experience.namespace import SHARED
from governor.experience.promotion import Adopted, Asker, Stands, Stays, Whereto, promote, withdraw
from governor.experience.search import Filters, Found, Search
from governor.experience.summary import cleaned, summary_of
from governor.experience.trust import Attempt, Placed, Way, decide
from governor.ids import ExperienceId, NamespaceId, PrincipalId, TenantId
from governor.retrieval.vectors import StaticVectors
from memory_store.audit import Actor
from memory_store.errors import ExperienceNotFoundError, ExperienceTooLargeError
from memory_store.experiences.book import ExperienceBook
from memory_store.experiences.namespaces import NamespaceBook
from memory_store.experiences.values import SLICE_BYTES_MAX, Changed, WriteLimits, Written
from runtime.configuration.memory import MemoryTerms
from runtime.errors import MemoryStaysError
from runtime.memory.indexing import indexed, text_of
from runtime.memory.namespaces.places import Places
from runtime.memory.ports import Searching

SEARCHED_MAX = 50


class Clock(Protocol):
    """The only source of time and of fresh names."""

    def now_ms(self) -> int:
        """Return the epoch time in milliseconds."""
        ...

    def fresh(self, prefix: str) -> str:
        """Return a new unique id that begins with `prefix` and an underscore."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Taught:
    """What an administrator wants remembered; without a namespace it is for the whole tenant."""

    content: bytes
    media_type: str = "text/plain"
    kind: ExperienceKind = ExperienceKind.LESSON
    summary: str = ""
    namespace: str | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Promoted:
    """The experience that is found from now on; an adopted one is new, and the old stays."""

    experience: Experience
    is_adopted: bool


class MemoryAdministration:
    """The memory of every tenant, for those who administer it.

    Every change of an experience is kept with who made it and why, in the tenant's log.
    """

    def __init__(
        self,
        book: ExperienceBook,
        namespaces: NamespaceBook,
        *,
        searching: Searching,
        clock: Clock,
        vectors: Callable[[], StaticVectors | None],
        terms: Callable[[], MemoryTerms],
    ) -> None:
        """Take where experiences are kept and found, and what the file says."""
        self.book = book
        self.namespaces = namespaces
        self.places = Places(namespaces, clock=clock, terms=terms)
        self._terms = terms
        self._searching = searching
        self._clock = clock
        self._vectors = vectors

    async def teach(self, taught: Taught, *, tenant: TenantId, by: Actor) -> Experience:
        """Return what an administrator has written, which stands in the operators' lane.

        Raises:
            ExperienceTooLargeError: it is above what one experience may hold.
            NamespaceNotFoundError: the tenant has no such namespace.
            StoreError: it cannot be kept.
        """
        most = self._terms().item_bytes_max
        if len(taught.content) > most:
            message = f"{len(taught.content)} bytes are above the {most} of [memory] item_bytes_max"
            raise ExperienceTooLargeError(message)
        placed = decide(_attempt(Way.OPERATOR, by, taught.kind, sources=()))
        return await self._kept(taught, placed, tenant=tenant, by=by, derived_from=())

    async def show(self, index: ExperienceId, *, tenant: TenantId) -> Experience:
        """Return what is kept of one experience.

        Raises:
            ExperienceNotFoundError: the tenant has no such one.
        """
        (found,) = await self.book.get((index,), tenant=tenant)
        return found

    async def missing(
        self, ids: tuple[ExperienceId, ...], *, tenant: TenantId
    ) -> tuple[ExperienceId, ...]:
        """Return those that the tenant has not."""
        gone = []
        for index in dict.fromkeys(ids):
            try:
                await self.show(index, tenant=tenant)
            except ExperienceNotFoundError:
                gone.append(index)
        return tuple(gone)

    async def search(
        self,
        text: str,
        *,
        tenant: TenantId,
        namespaces: tuple[str, ...],
        most: int,
        kind: ExperienceKind | None = None,
        lane: TrustLane | None = None,
    ) -> Found:
        """Return what is found in the tenant's namespaces, in all of them without a word.

        An administrator sees what anybody may have written, too, unless one lane is asked for.

        Raises:
            NamespaceNotFoundError: the tenant has no such one.
        """
        if namespaces:
            among = await self.places.ids_of(namespaces, tenant=tenant)
        else:
            among = tuple(one.namespace for one in await self.namespaces.list(tenant=tenant))
        search = Search(
            tenant=tenant,
            namespaces=among,
            text=text,
            now_ms=self._clock.now_ms(),
            most=min(most, SEARCHED_MAX),
            filters=Filters(
                lanes=LANES_BY_TRUST if lane is None else (lane,),
                kinds=() if kind is None else (kind,),
            ),
        )
        return await self._searching.search(search)

    async def promote(
        self, index: ExperienceId, whereto: Whereto, *, tenant: TenantId, by: Actor, why: str
    ) -> Promoted:
        """Return what is found from now on, as evidence or as an instruction.

        Raises:
            ExperienceNotFoundError: the tenant has no such one.
            MemoryStaysError: it stays where it is.
        """
        old = await self.show(index, tenant=tenant)
        match promote(old, whereto, asker=_asker(by)):
            case Stays(refusal=refusal):
                raise MemoryStaysError(index, refusal.value)
            case Stands(standing=standing, supersedes=supersedes):
                await self.book.mark(
                    (index,),
                    standing,
                    tenant=tenant,
                    by=by.name,
                    why=why,
                    now_ms=self._clock.now_ms(),
                    takes_effect=supersedes,
                )
                return Promoted(experience=await self.show(index, tenant=tenant), is_adopted=False)
            case Adopted():
                return Promoted(experience=await self._adopted(old, by=by), is_adopted=True)

    async def withdraw(
        self, index: ExperienceId, standing: Standing, *, tenant: TenantId, by: Actor, why: str
    ) -> Changed:
        """Return how many are withdrawn: this one, and what was made of it where it is revoked.

        Raises:
            ExperienceNotFoundError: the tenant has no such one.
            MemoryStaysError: it stays where it is.
        """
        old = await self.show(index, tenant=tenant)
        decided = withdraw(old, standing, asker=_asker(by))
        if isinstance(decided, Stays):
            raise MemoryStaysError(index, decided.refusal.value)
        return await self.book.mark(
            (index,),
            decided.standing,
            tenant=tenant,
            by=by.name,
            why=why,
            now_ms=self._clock.now_ms(),
        )

    async def _adopted(self, old: Experience, *, by: Actor) -> Experience:
        """Write an experience again, as the administrator's own word, made of the old one.

        It is the content that was read and is adopted: what its writer said of it beside that
        would instruct as well.
        """
        content = b""
        while len(content) < old.size_bytes:
            part = await self.book.content(
                old.experience_id, tenant=old.tenant, offset=len(content), length=SLICE_BYTES_MAX
            )
            content += part.content
        if text_of(content) is None:
            raise MemoryStaysError(old.experience_id, "no_text")
        taught = Taught(
            content=content,
            media_type=old.media_type,
            kind=old.kind,
            namespace=old.namespace,
        )
        placed = decide(_attempt(Way.ADOPTED, by, old.kind, sources=(old,)))
        return await self._kept(
            taught, placed, tenant=old.tenant, by=by, derived_from=(old.experience_id,)
        )

    async def _kept(
        self,
        taught: Taught,
        placed: Placed,
        *,
        tenant: TenantId,
        by: Actor,
        derived_from: tuple[ExperienceId, ...],
    ) -> Experience:
        now_ms = self._clock.now_ms()
        draft = Draft(
            experience_id=ExperienceId(self._clock.fresh("exp")),
            tenant=tenant,
            namespace=await self._namespace(taught, tenant),
            kind=taught.kind,
            lane=placed.lane,
            standing=placed.standing,
            content=taught.content,
            media_type=taught.media_type,
            summary=cleaned(taught.summary) or summary_of(taught.content, taught.media_type),
            provenance=Provenance(
                writer=PrincipalId(by.name),
                source=f"administrator {by.name}",
                derived_from=derived_from,
            ),
            learned_at_ms=now_ms,
            valid_from_ms=now_ms,
            tags=taught.tags,
        )
        ready = await indexed(draft, self._vectors(), said=cleaned(taught.summary))
        (written,) = await self.book.write((ready,), limits=WriteLimits())
        assert isinstance(written, Written), "no quota is asked without a time"
        return await self.show(written.experience_id, tenant=tenant)

    async def _namespace(self, taught: Taught, tenant: TenantId) -> NamespaceId:
        if taught.namespace is not None:
            return (await self.places.of(taught.namespace, tenant=tenant)).namespace
        return (await self.places.of(SHARED, tenant=tenant)).namespace


def _asker(by: Actor) -> Asker:
    return Asker(principal=PrincipalId(by.name), is_operator=True)


def _attempt(
    way: Way, by: Actor, kind: ExperienceKind, *, sources: tuple[Experience, ...]
) -> Attempt:
    return Attempt(
        way=way,
        writer=PrincipalId(by.name),
        kind=kind,
        saw_untrusted=False,
        sources=tuple(source.lane for source in sources),
        corrects=None,
    )
