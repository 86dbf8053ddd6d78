"""The one path by which experiences are written and read: gather, decide, apply."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from governor.call import ToolCall
from governor.experience.answer import Answer, answered
from governor.experience.experience import Experience
from governor.experience.kinds import LANES_BY_TRUST, ExperienceKind, Standing, TrustLane
from governor.experience.namespace import OWN, Right
from governor.experience.promotion import Asker, Stays, withdraw
from governor.experience.rendering import framed, shown
from governor.experience.search import MemoryTier, Search
from governor.experience.sharing import Entry
from governor.experience.trust import lanes_for
from governor.ids import ExperienceId
from governor.retrieval.vectors import StaticVectors
from governor.scope import ScopeChain
from memory_store.errors import StoreError
from memory_store.experiences.book import ExperienceBook
from memory_store.experiences.values import UseNote
from memory_store.paging import Page
from runtime.configuration.memory import MemoryTerms
from runtime.memory.desk.findings import Showing
from runtime.memory.desk.writes import Writes
from runtime.memory.namespaces.granted import Namespaces
from runtime.memory.namespaces.rooms import Room
from runtime.memory.noting.uses import UseNotes
from runtime.memory.ports import (
    CaseChoice,
    Credited,
    Recalled,
    Searching,
    SeenMarks,
    TeamBanks,
    TierChoice,
    TieredSearching,
    WorkingContext,
)
from runtime.memory.words import memory_words
from tool_gateway.errors import ExperienceMissError, MemoryRefusedError
from tool_gateway.memory.ports import AroundAsked, Kept, Portion, SearchAsked, WriteAsked
from tool_gateway.ports import Clock
from tool_gateway.telemetry import count_failure

_NOTHING_FOUND = (
    'Nothing in memory fits this. Say it in other words, or ask for other lanes ("web" is searched '
    "only where it is asked for)."
)
_NOTHING_YET = "This session has kept nothing yet."
_LISTED_MAX = 50
# Halves and more count as used.
_USED_FROM = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelves:
    """Where experiences are kept, found and named, and what else the desk asks."""

    book: ExperienceBook
    searching: Searching
    namespaces: Namespaces
    marks: SeenMarks
    vectors: Callable[[], StaticVectors | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Advisers:
    """Who is asked where there is one: about tiers, cases, contexts, and who hears of credit."""

    tier_of: TierChoice = lambda _call, _asked: MemoryTier.MID
    tiers: TieredSearching | None = None
    banks: TeamBanks | None = None
    cases: CaseChoice | None = None
    working: WorkingContext | None = None
    credited: Sequence[Credited] = ()


class ExperienceDesk:
    """Answers the memory's tools for whoever calls them."""

    def __init__(
        self,
        shelves: Shelves,
        *,
        clock: Clock,
        terms: Callable[[], MemoryTerms],
        key: bytes,
        advisers: Advisers | None = None,
    ) -> None:
        """Take where experiences are; `key` is the secret that texts are framed with."""
        self._book, self._namespaces = shelves.book, shelves.namespaces
        self._searching, self._clock, self._key = shelves.searching, clock, key
        self._advisers = Advisers() if advisers is None else advisers
        self._showing = Showing(shelves.book, shelves.namespaces, marks=shelves.marks)
        self.writes = Writes(
            shelves.book,
            shelves.namespaces,
            marks=shelves.marks,
            clock=clock,
            terms=terms,
            vectors=shelves.vectors,
        )
        self.uses = UseNotes(shelves.book)

    async def write(self, call: ToolCall, asked: WriteAsked) -> Kept:
        """Keep an experience of the caller's own words.

        What is meant for a team that shares what is of use is kept as the caller's own, and
        offered to the team.
        """
        banks = self._advisers.banks
        if banks is None or not self._namespaces.chooses(asked.namespace):
            return await self.writes.write(call, asked)
        bank = await self._namespaces.to_write(call.chain, asked.namespace)
        kept = await self.writes.write(call, replace(asked, namespace=OWN))
        try:
            offered = await banks.offered(call, kept.experience, bank, asked=True)
        except StoreError:
            count_failure("memory sharing")
            return replace(kept, shared="not_now")
        is_copied = offered.entry is Entry.ENTERS and offered.found_as is not None
        return replace(
            kept, shared=offered.entry.value, shared_as=offered.found_as, is_copied=is_copied
        )

    async def portion(
        self,
        call: ToolCall,
        index: ExperienceId,
        *,
        offset: int,
        length: int,
        is_more: bool = False,
    ) -> Portion:
        """Return a range of bytes of what was kept; one reading of several is one use."""
        await self._readable(call.chain, index)
        with memory_words():
            found = await self._book.content(
                index,
                tenant=call.chain.tenant,
                offset=offset,
                length=length,
                now_ms=self._clock.now_ms(),
            )
        if not is_more:
            await self._showing.mark(call, (found.experience,))
            self._note_given(call, (found.experience,))
        own = await self._namespaces.own(call.chain)
        # Marked by the bytes too, so that nobody who wrote them could foresee the mark.
        text = found.content.decode(errors="replace")
        piece = shown(found.experience, text, own={own.namespace})
        frame = framed(piece, key=self._key)
        return Portion(
            experience=found.experience,
            content=found.content,
            offset=found.offset,
            role=piece.role.value,
            receipt=asdict(found.receipt),
            before=frame.before,
            after=frame.after,
        )

    async def search(self, call: ToolCall, asked: SearchAsked) -> Answer:
        """Return what is found, as much as there is room for."""
        namespaces = await self._namespaces.to_read(call.chain, asked.namespaces)
        # What its own session kept is nothing that it has not seen.
        saw = asked.is_of_this_session or await self._showing.has_seen_untrusted(call.chain)
        lanes = lanes_for(asked.filters.lanes, saw_untrusted=saw)
        filters = replace(asked.filters, lanes=lanes)
        if asked.is_of_this_session:
            filters = replace(filters, session=call.chain.session)
        search = Search(
            tenant=call.chain.tenant,
            namespaces=tuple(one.namespace for one in namespaces),
            text=asked.text,
            now_ms=self._clock.now_ms(),
            most=asked.most,
            filters=filters,
            tier=self._advisers.tier_of(call, asked) if asked.tier is None else asked.tier,
        )
        recalled = await self._recalled(call, search, asked)
        found = recalled.found
        scores = {hit.experience.experience_id: hit.score for hit in found.hits}
        answer = await self._answer(
            call,
            [hit.experience for hit in found.hits],
            tokens_max=asked.tokens_max,
            unseen=found.left_out,
            scores=scores,
            told=recalled.texts,
        )
        unsearched = [lane.value for lane in LANES_BY_TRUST if lane not in lanes]
        if unsearched:
            # For programs: to a model the schema says which lanes are searched unasked.
            answer = replace(
                answer, structured={**answer.structured, "lanes_not_searched": unsearched}
            )
        if self._advisers.tiers is not None:
            self._advisers.tiers.given(call, sorted(answer.indices), tokens=answer.tokens)
        return answer

    async def _recalled(self, call: ToolCall, search: Search, asked: SearchAsked) -> Recalled:
        """Return what is found: cases by what they are worth, the rest by a plan if one chooses."""
        cases, tiers = self._advisers.cases, self._advisers.tiers
        with memory_words():
            if cases is not None and _is_for_cases(asked):
                found = await cases.choose(call, search)
            elif tiers is not None:
                return await tiers.recalled(
                    call, search, asked=asked.tier, tokens_max=asked.tokens_max
                )
            else:
                found = await self._searching.search(search)
        return Recalled(found=found, plan=search.tier.value, why="")

    async def around(self, call: ToolCall, asked: AroundAsked) -> Answer:
        """Return an experience, what its session kept before and after, and its sources."""
        tenant = call.chain.tenant
        one = await self._readable(call.chain, asked.index)
        with memory_words():
            near = await self._book.neighbours(
                asked.index, tenant=tenant, before=asked.before, after=asked.after
            )
        sources = await self._there(call, one.provenance.derived_from) if asked.sources else []
        relations = {
            **{source.experience_id: "source" for source in sources},
            **{
                other.experience_id: "before" if other.number < one.number else "after"
                for other in near
            },
            one.experience_id: "itself",
        }
        # The nearest first: where there is no room for all, those far away are left out.
        nearest = sorted(near, key=lambda other: abs(other.number - one.number))
        near_it = [each for each in (*nearest, *sources) if _may_stand_by(each, one)]
        unique = list({each.experience_id: each for each in (one, *near_it)}.values())
        hidden = len(nearest) + len(sources) - len(near_it)
        return await self._answer(
            call, unique, tokens_max=asked.tokens_max, unseen=hidden, relations=relations
        )

    async def context(self, call: ToolCall, *, focus: str, tokens_max: int) -> Answer:
        """Return where the session stands: what it kept last, where nobody knows more."""
        working = self._advisers.working
        if working is not None:
            return await working.context_of(call, focus=focus, tokens_max=tokens_max)
        own = await self._namespaces.own(call.chain)
        with memory_words():
            kept = await self._book.of_session(
                call.chain.session,
                tenant=call.chain.tenant,
                namespaces=(own.namespace,),
                most=_LISTED_MAX,
            )
        latest = [one for one in kept[::-1] if one.standing is Standing.ACTIVE]
        return await self._answer(call, latest, tokens_max=tokens_max, none_found=_NOTHING_YET)

    async def credit(
        self,
        call: ToolCall,
        indices: tuple[ExperienceId, ...],
        *,
        used: float,
        helpful: float | None,
    ) -> None:
        """Keep whether experiences that the caller may read were used, and how that went."""
        for index in indices:
            await self._readable(call.chain, index)
        chain, now_ms = call.chain, self._clock.now_ms()
        notes = tuple(
            UseNote(
                experience_id=index,
                reader=chain.agent,
                at_ms=now_ms,
                session=chain.session,
                call_id=call.call_id,
                used=used >= _USED_FROM,
                score=helpful,
            )
            for index in indices
        )
        with memory_words():
            await self._book.note_use(notes, tenant=chain.tenant)
        for credited in self._advisers.credited:
            await credited(call, indices, used=used, helpful=helpful)

    async def forget(self, call: ToolCall, indices: tuple[ExperienceId, ...]) -> int:
        """Erase what the caller wrote itself; return how much else went with it."""
        saw = await self.writes.has_seen_untrusted(call.chain)
        asker = Asker(principal=call.chain.agent, saw_untrusted=saw)
        for index in indices:
            one = await self._readable(call.chain, index)
            if isinstance(withdraw(one, Standing.REVOKED, asker=asker), Stays):
                message = (
                    f"{index}: you did not write it, or not in a session that had seen what "
                    "others wrote; an administrator can erase it"
                )
                raise MemoryRefusedError(message)
        with memory_words():
            changed = await self._book.erase(
                tenant=call.chain.tenant,
                by=call.chain.agent,
                why="its writer asked for it",
                now_ms=self._clock.now_ms(),
                ids=indices,
                only_of=call.chain.agent,
            )
        return changed.derived

    async def about(self, chain: ScopeChain, index: ExperienceId) -> Experience:
        """Return what is known of an experience that the caller may read."""
        return await self._readable(chain, index)

    async def latest(self, chain: ScopeChain, *, most: int) -> tuple[Experience, ...]:
        """Return the latest of the caller's own experiences, without their contents."""
        return tuple((await self.listed(chain, limit=most)).items)

    async def listed(
        self, chain: ScopeChain, *, limit: int, cursor: str | None = None
    ) -> Page[Experience]:
        """Return a page of the caller's own experiences, the latest first.

        Raises:
            MemoryRefusedError: the cursor is not one of this listing.
        """
        own = await self._namespaces.own(chain)
        with memory_words():
            return await self._book.page(
                tenant=chain.tenant,
                namespace=own.namespace,
                standing=Standing.ACTIVE,
                limit=limit,
                cursor=cursor,
            )

    async def namespaces(
        self, chain: ScopeChain, *, after: str = ""
    ) -> tuple[tuple[Room, ...], str | None]:
        """Return a page of the namespaces that the caller may use, and where to go on."""
        return await self._namespaces.rooms(chain, after=after)

    async def _answer(
        self,
        call: ToolCall,
        found: Sequence[Experience],
        *,
        tokens_max: int,
        unseen: int = 0,
        scores: dict[ExperienceId, float] | None = None,
        relations: dict[ExperienceId, str] | None = None,
        told: Mapping[ExperienceId, str] | None = None,
        none_found: str = _NOTHING_FOUND,
    ) -> Answer:
        findings = await self._showing.findings(
            call,
            found,
            tokens_max=tokens_max,
            scores=scores or {},
            relations=relations or {},
            told=told or {},
        )
        answer = answered(
            findings, tokens_max=tokens_max, key=self._key, unseen=unseen, none_found=none_found
        )
        given = [one for one in found if one.experience_id in answer.indices]
        await self._showing.mark(call, given)
        self._note_given(call, given)
        return answer

    async def _readable(self, chain: ScopeChain, index: ExperienceId) -> Experience:
        """Return an experience that the caller may read.

        Raises:
            ExperienceMissError: it may not, or there is none, in the same words.
        """
        with memory_words():
            (one,) = await self._book.get(
                (index,), tenant=chain.tenant, now_ms=self._clock.now_ms()
            )
        if one.standing is Standing.REVOKED or not await self._namespaces.permits(
            chain, one.namespace, Right.READ
        ):
            raise ExperienceMissError
        return one

    async def _there(self, call: ToolCall, indices: Sequence[ExperienceId]) -> list[Experience]:
        """Return those of some experiences that the caller may read."""
        found = []
        for index in indices[:_LISTED_MAX]:
            try:
                found.append(await self._readable(call.chain, index))
            except ExperienceMissError:
                continue
        return found

    def _note_given(self, call: ToolCall, given: Sequence[Experience]) -> None:
        chain, now_ms = call.chain, self._clock.now_ms()
        self.uses.note(
            chain.tenant,
            [
                UseNote(
                    experience_id=one.experience_id,
                    reader=chain.agent,
                    at_ms=now_ms,
                    session=chain.session,
                    call_id=call.call_id,
                )
                for one in given
            ],
        )


def _is_for_cases(asked: SearchAsked) -> bool:
    return asked.filters.kinds == (ExperienceKind.CASE,)


def _may_stand_by(other: Experience, one: Experience) -> bool:
    """Tell whether an experience is shown with another that was asked for.

    What anybody may have written is shown only to who asks for such.
    """
    if other.standing is not Standing.ACTIVE:
        return False
    return other.lane is not TrustLane.WEB or one.lane is TrustLane.WEB
