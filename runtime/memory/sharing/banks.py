"""Decides what enters the bank of a team, and keeps what became of that."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256

from governor.call import ToolCall
from governor.experience.experience import Draft, Experience, Provenance
from governor.experience.kinds import LANES_BY_TRUST, Standing
from governor.experience.namespace import Namespace
from governor.experience.passages import overlap
from governor.experience.quota import Exceeded
from governor.experience.search import Filters, MemoryTier, Search
from governor.experience.sharing import (
    Admission,
    Entry,
    EntryCredit,
    EntryOutcome,
    Offer,
    Sharing,
    SharingTerms,
    decided,
    is_withdrawn,
    taught,
)
from governor.experience.trust import Attempt, Way, decide, lanes_as_trusted_as
from governor.flow.labels import Label
from governor.ids import ExperienceId, NamespaceId, TenantId
from governor.retrieval.analysis import index_terms
from governor.retrieval.vectors import StaticVectors
from memory_store.errors import ExperienceNotFoundError, StoreError, VersionConflictError
from memory_store.experiences.book import ExperienceBook
from memory_store.experiences.values import SLICE_BYTES_MAX, WriteLimits
from memory_store.lessons.links import LinkBook
from memory_store.memory_choices import ChoiceLog, ChoiceMade, MemoryChoice, What
from runtime.memory.indexing import indexed
from runtime.memory.noting.choices import numbers_bytes, numbers_of, options_text
from runtime.memory.ports import Offered, Searching, SeenMarks
from runtime.memory.sharing import bank_file
from tool_gateway.errors import LedgerOverloadedError, LedgerUnavailableError
from tool_gateway.ports import Clock
from tool_gateway.telemetry import count_failure

_LIKE_IT = 10
_HELPED_FROM = 0.5
# One reader can speak against something by not reading it so often, and no oftener.
_UNREAD_OF_ONE = 3
_USES_MAX = 1_000
# What nobody had use of for so long is learned to be worth nothing.
SETTLED_MS = 7 * 24 * 60 * 60 * 1000
_FOLLOWED_MS = 2_000
_BANKS_MAX = 1_000
_HOUSE = "flyball"


class SharedBanks:
    """The banks of teams: what enters them, and what the readers made of it."""

    def __init__(
        self,
        book: ExperienceBook,
        searching: Searching,
        log: ChoiceLog,
        links: LinkBook,
        *,
        marks: SeenMarks,
        clock: Clock,
        terms: Callable[[], SharingTerms] = SharingTerms,
        vectors: Callable[[], StaticVectors | None] = lambda: None,
        limits: Callable[[], WriteLimits] = WriteLimits,
    ) -> None:
        """Take where experiences, choices and ties are kept, and what sessions have seen.

        `limits` are those of a write now: a copy takes as much room as any other.
        """
        self._limits = limits
        self._links = links
        self._book, self._searching, self._log = book, searching, log
        self._marks, self._clock = marks, clock
        self._terms, self._vectors = terms, vectors
        self._followed: dict[tuple[TenantId, NamespaceId], tuple[int, Sharing]] = {}

    async def offered(
        self, call: ToolCall, one: Experience, bank: Namespace, *, asked: bool = False
    ) -> Offered:
        """Return whether an experience of the caller enters a bank; it stays where it is, too.

        Raises:
            StoreError: the store does not answer; the experience itself is kept.
        """
        tenant = one.tenant
        alike = await self._alike(one, bank)
        same = min(
            (other for other in alike if other.address == one.address),
            key=lambda other: LANES_BY_TRUST.index(other.lane),
            default=None,
        )
        offer = Offer(
            experience=one.experience_id,
            writer=one.provenance.writer,
            kind=one.kind,
            lane=one.lane,
            novelty=1.0 - max((_likeness(one, other) for other in alike), default=0.0),
            tokens=one.tokens,
            # What its writer says of it is no evidence; what it cost and what came of it are
            # known by its session and its readers later.
            bank_items=len(alike),
            asked=asked,
            same_as=None if same is None else same.experience_id,
        )
        state = await self._state(tenant, bank.namespace)
        admission = decided(offer, state, self._terms())
        found_as = offer.same_as
        if found_as is not None:
            await self._links.tie(((found_as, one.experience_id),), tenant=tenant)
        if admission.entry is Entry.ENTERS:
            found_as = await self._copied(one, bank)
            if found_as is None:
                return Offered(entry=Entry.STAYS)
        await self._log.record((self._choice(call, one, bank, admission, found_as),))
        await self._redone(call, one, bank)
        return Offered(entry=admission.entry, found_as=found_as)

    async def credited(
        self,
        call: ToolCall,
        indices: tuple[ExperienceId, ...],
        *,
        used: float,
        helpful: float | None,
    ) -> None:
        """Keep what a reader made of what another one shared; it never raises.

        The words of a session that has seen what anybody may have written do not count: whoever
        misled it would vote by it.
        """
        chain = call.chain
        try:
            if Label.SEES_UNTRUSTED in await self._marks.seen_by(chain):
                return
            for made in await self._log.about(chain.tenant, indices):
                if made.choice.agent != chain.agent:
                    helped = used if helpful is None else min(used, helpful)
                    part = f"read {chain.agent} {chain.session}"
                    key = made.choice.key
                    await self._log.add(chain.tenant, What.SHARING, key, part, helped)
        except (StoreError, LedgerUnavailableError, LedgerOverloadedError):
            count_failure("memory credit")

    async def learn(self) -> int:
        """Learn what became of what was offered, up to a bound; return of how many offers.

        Raises:
            StoreError: the store does not answer.
        """
        now_ms = self._clock.now_ms()
        for made in await self._log.silent(What.SHARING, before_ms=now_ms - SETTLED_MS):
            await self._log.say(made.choice.tenant, What.SHARING, made.choice.key, "{}")
        pending = await self._log.pending(What.SHARING)
        banks = dict.fromkeys((one.choice.tenant, one.choice.bank) for one in pending)
        for tenant, bank in banks:
            its = [one for one in pending if (one.choice.tenant, one.choice.bank) == (tenant, bank)]
            await self._learn(tenant, bank, its)
        return len(pending)

    async def _learn(self, tenant: TenantId, bank: NamespaceId, made: list[ChoiceMade]) -> None:
        known = await self._log.learned(tenant, What.SHARING, bank)
        before = bank_file.unpacked(known.state, salt=bank)
        known_by_now = [await self._credit(one) for one in made]
        usages = tuple(_usage(one, credit) for one, credit in zip(made, known_by_now, strict=True))
        state = taught(before, tuple(usage for usage in usages if usage is not None))
        marks = tuple(
            replace(one, learned=_credit_text(credit))
            for one, credit in zip(made, known_by_now, strict=True)
        )
        try:
            await self._log.learn(
                bank_file.packed(state),
                marks,
                tenant=tenant,
                what=What.SHARING,
                bank=bank,
                over=known,
                now_ms=self._clock.now_ms(),
            )
        except VersionConflictError:
            return  # another sidecar was faster: the next pass knows what it learned
        self._followed.pop((tenant, bank), None)
        for one, credit in zip(made, known_by_now, strict=True):
            await self._withdraw(one, credit, before)

    async def _withdraw(self, made: ChoiceMade, credit: EntryCredit, known: Sharing) -> None:
        """Let what did more harm than good be found no longer; its writer's own stays."""
        choice = made.choice
        if choice.arm != Entry.ENTERS.value or choice.subject is None:
            return
        arms = known.bandit.expected(numbers_of(choice.context), ["enter"])
        if not is_withdrawn(float(arms.mean[0]), credit, self._terms()):
            return
        try:
            await self._book.mark(
                (choice.subject,),
                Standing.QUARANTINED,
                tenant=choice.tenant,
                by=_HOUSE,
                why="its readers had no use of it",
                now_ms=self._clock.now_ms(),
            )
        except ExperienceNotFoundError:
            return  # erased meanwhile

    async def _state(self, tenant: TenantId, bank: NamespaceId) -> Sharing:
        now_ms = self._clock.now_ms()
        known = self._followed.get((tenant, bank))
        if known is not None and now_ms - known[0] < _FOLLOWED_MS:
            return known[1]
        found = await self._log.learned(tenant, What.SHARING, bank)
        state = bank_file.unpacked(found.state, salt=bank)
        if len(self._followed) >= _BANKS_MAX:
            self._followed.clear()
        self._followed[tenant, bank] = now_ms, state
        return state

    async def _alike(self, one: Experience, bank: Namespace) -> list[Experience]:
        """Return what says nearly the same in a bank, to all who find this one there.

        What is trusted less does not count: whoever wrote it first from a session that was
        misled would keep the others from the same in better hands.
        """
        now_ms = self._clock.now_ms()
        found = await self._searching.search(
            Search(
                tenant=one.tenant,
                namespaces=(bank.namespace,),
                text=one.summary,
                now_ms=now_ms,
                most=_LIKE_IT,
                filters=Filters(lanes=lanes_as_trusted_as(one.lane), at_ms=now_ms),
                tier=MemoryTier.LOW,
                use_vectors=False,
            )
        )
        return [hit.experience for hit in found.hits]

    async def _copied(self, one: Experience, bank: Namespace) -> ExperienceId | None:
        """Return the copy of an experience in a bank, None where it may not or cannot be there."""
        if one.size_bytes > SLICE_BYTES_MAX or one.standing is not Standing.ACTIVE:
            return None
        content = (await self._book.content(one.experience_id, tenant=one.tenant)).content
        placed = decide(
            Attempt(
                way=Way.HOUSE,
                writer=one.provenance.writer,
                kind=one.kind,
                saw_untrusted=False,
                sources=(one.lane,),
            )
        )
        draft = Draft(
            experience_id=_copy_of(one.experience_id, bank.namespace),
            tenant=one.tenant,
            namespace=bank.namespace,
            kind=one.kind,
            lane=placed.lane,
            standing=placed.standing,
            content=content,
            media_type=one.media_type,
            summary=one.summary,
            # The writer stays who wrote it, so that revoking that one's words revokes this.
            provenance=Provenance(
                writer=one.provenance.writer,
                call_id=one.provenance.call_id,
                upstream=one.provenance.upstream,
                source=one.provenance.source,
                derived_from=(one.experience_id,),
            ),
            learned_at_ms=self._clock.now_ms(),
            valid_from_ms=one.valid_from_ms,
            valid_until_ms=one.valid_until_ms,
            actor=one.actor,
            session=one.session,
            task_class=one.task_class,
            tags=one.tags,
            expires_at_ms=one.expires_at_ms,
        )
        ready = await indexed(draft, self._vectors())
        (written,) = await self._book.write((ready,), limits=self._limits())
        return None if isinstance(written, Exceeded) else written.experience_id

    async def _redone(self, call: ToolCall, one: Experience, bank: Namespace) -> None:
        """Note of what stayed with its writer that another one has found out the same."""
        mark = _content_mark(one, bank.namespace)
        for made in await self._log.about(one.tenant, (mark,)):
            if made.choice.agent != call.chain.agent:
                part = f"redone {call.chain.agent} {call.chain.session}"
                await self._log.add(one.tenant, What.SHARING, made.choice.key, part, 1.0)

    async def _credit(self, made: ChoiceMade) -> EntryCredit:
        """Return what became of an offer by what readers said, and by what they did not."""
        choice = made.choice
        parts: Mapping[str, float] = {} if made.outcome is None else json.loads(made.outcome)
        read = {name: said for name, said in parts.items() if name.startswith("read ")}
        helped = sum(said >= _HELPED_FROM for said in read.values())
        unread = 0
        if choice.subject is not None and choice.arm == Entry.ENTERS.value:
            uses = await self._book.uses_of((choice.subject,), tenant=choice.tenant, most=_USES_MAX)
            given: dict[str, int] = {}
            for use in uses:
                spoke = f"read {use.reader} {use.session}" in read
                if use.reader != choice.agent and use.used is None and not spoke:
                    given[use.reader] = given.get(use.reader, 0) + 1
            unread = sum(min(count, _UNREAD_OF_ONE) for count in given.values())
        return EntryCredit(
            helped=helped,
            failed=len(read) - helped,
            unread=unread,
            redone=sum(name.startswith("redone ") for name in parts),
        )

    def _choice(
        self,
        call: ToolCall,
        one: Experience,
        bank: Namespace,
        admission: Admission,
        found_as: ExperienceId | None,
    ) -> MemoryChoice:
        stays = admission.entry is Entry.STAYS
        chances = {admission.entry.value: admission.propensity}
        return MemoryChoice(
            tenant=one.tenant,
            what=What.SHARING,
            key=f"{bank.namespace}/{one.experience_id}",
            bank=bank.namespace,
            agent=call.chain.agent,
            session=call.chain.session,
            decided_at_ms=self._clock.now_ms(),
            arm=admission.entry.value,
            propensity=admission.propensity,
            explored=admission.explored,
            options=options_text(chances, {admission.entry.value: admission.expected}),
            context=numbers_bytes(admission.context),
            subject=_content_mark(one, bank.namespace) if stays else found_as,
            tokens=one.tokens,
        )


def _usage(made: ChoiceMade, credit: EntryCredit) -> EntryOutcome | None:
    """Return what an offer teaches; nothing where it was only linked to what was there."""
    choice = made.choice
    if choice.arm == Entry.LINKED.value:
        return None
    return EntryOutcome(
        context=numbers_of(choice.context),
        writer=choice.agent,
        entered=choice.arm == Entry.ENTERS.value,
        credit=credit,
        before=None if made.learned is None else EntryCredit(**json.loads(made.learned)),
    )


def _credit_text(credit: EntryCredit) -> str:
    return json.dumps(
        {
            "helped": credit.helped,
            "failed": credit.failed,
            "unread": credit.unread,
            "redone": credit.redone,
        }
    )


def _likeness(one: Experience, other: Experience) -> float:
    if one.address == other.address:
        return 1.0
    words, others = (frozenset(index_terms(each.summary).split()) for each in (one, other))
    return overlap(words, others)


def _copy_of(index: ExperienceId, bank: NamespaceId) -> ExperienceId:
    """Return the index of a copy: offered twice at once, it is still one copy."""
    return ExperienceId(f"exp_{sha256(f'{bank}/{index}'.encode()).hexdigest()[:24]}")


def _content_mark(one: Experience, bank: NamespaceId) -> ExperienceId:
    """Return what names a content that is not in a bank, to be known when it is made again."""
    return ExperienceId(f"not_{sha256(f'{bank}/{one.address}'.encode()).hexdigest()[:24]}")
