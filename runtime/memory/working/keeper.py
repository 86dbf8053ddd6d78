"""Keeps what gives way in long conversations, as experiences of the agent whose they are."""

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence

import anyio

from governor.experience.experience import Draft, Experience, Provenance
from governor.experience.keepsake import Keepsake
from governor.experience.kinds import ExperienceKind, Standing
from governor.experience.tokens import tokens_of
from governor.experience.trust import Attempt, decide
from governor.ids import ExperienceId, NamespaceId, TenantId
from governor.scope import ScopeChain
from memory_store.errors import StoreError, StoreOverloadedError, StoreUnavailableError
from memory_store.experiences.book import ExperienceBook
from memory_store.experiences.values import Indexed, WriteLimits, Written
from tool_gateway.errors import GatewayError
from tool_gateway.ports import Clock
from tool_gateway.telemetry import count_failure

logger = logging.getLogger(__name__)

# A model call waits for no longer: then its conversation is left as it is.
KEEP_SECONDS_MAX = 10.0
# What was found kept is taken to be so for this long; an erasure counts from then on at last.
SURE_MS = 60_000
_KNOWN_MAX = 100_000
_AT_ONCE_MAX = 200
_RECALLING = ("memory_read", "memory_search", "memory_expand", "memory_context")
_UNREADABLE = frozenset({Standing.REVOKED})

Known = tuple[TenantId, ExperienceId]


class StoreKeeper:
    """Writes each content once, however often the conversation comes that it gave way in."""

    def __init__(
        self,
        book: ExperienceBook,
        *,
        own: Callable[[ScopeChain], Awaitable[NamespaceId]],
        indexed: Callable[[Draft], Awaitable[Indexed]],
        saw_untrusted: Callable[[ScopeChain, str], Awaitable[bool]],
        limits: Callable[[], WriteLimits],
        clock: Clock,
    ) -> None:
        """Take the book and what is known of agents.

        `own` is an agent's own namespace, `indexed` says what a draft is found by,
        `saw_untrusted` whether a session, or the tool of that name, shows what strangers wrote.
        """
        self._book = book
        self._own = own
        self._indexed = indexed
        self._saw_untrusted = saw_untrusted
        self._limits = limits
        self._clock = clock
        # When each was last found kept.
        self._known: OrderedDict[Known, int] = OrderedDict()

    async def keep(
        self, keepsakes: Sequence[Keepsake], *, chain: ScopeChain
    ) -> frozenset[ExperienceId]:
        """Return the indices under which the agent of `chain` can read what it was given.

        Never raises: what cannot be kept is not among them, and counted.
        """
        with anyio.move_on_after(KEEP_SECONDS_MAX) as waiting:
            try:
                await self._keep(keepsakes, chain)
            except (StoreError, GatewayError) as error:
                count_failure("compaction")
                logger.warning("a conversation is left as it is: %s", error)
        if waiting.cancelled_caught:
            count_failure("compaction")
            logger.warning("a conversation is left as it is: the store took too long")
        sure = self._clock.elapsed_ms() - SURE_MS
        return frozenset(
            one.index
            for one in keepsakes
            if self._known.get((chain.tenant, one.index), sure) > sure
        )

    async def _keep(self, keepsakes: Sequence[Keepsake], chain: ScopeChain) -> None:
        now = self._clock.elapsed_ms()
        missing, old = [], []
        for one in keepsakes:
            found = self._known.get((chain.tenant, one.index))
            if found is None:
                missing.append(one)
            elif found <= now - SURE_MS:
                old.append(one)
        missing += await self._gone(old, chain)
        for at in range(0, len(missing), _AT_ONCE_MAX):
            await self._write(missing[at : at + _AT_ONCE_MAX], chain)

    async def _gone(self, old: Sequence[Keepsake], chain: ScopeChain) -> list[Keepsake]:
        """Return those that were kept and are no longer; the others are known for some time."""
        if not old:
            return []
        try:
            found = await self._book.get(
                tuple(one.index for one in old), tenant=chain.tenant, now_ms=self._clock.now_ms()
            )
        except (StoreOverloadedError, StoreUnavailableError):
            raise
        except StoreError:
            for one in old:
                self._known.pop((chain.tenant, one.index), None)
            return list(old)
        self._note([one for one in found if one.standing not in _UNREADABLE], chain)
        return []

    async def _write(self, keepsakes: Sequence[Keepsake], chain: ScopeChain) -> None:
        """Write what is not there yet, and note what is there then.

        Where one cannot be kept, all the others still are: that is found by halves.
        """
        namespace = await self._own(chain)
        drafts = tuple([await self._ready(one, chain, namespace) for one in keepsakes])
        try:
            results = await self._book.write(drafts, limits=self._limits())
        except (StoreOverloadedError, StoreUnavailableError):
            raise
        except StoreError as error:
            if len(keepsakes) == 1:
                count_failure("compaction")
                logger.warning("%s is left where it is: %s", keepsakes[0].index, error)
                return
            half = len(keepsakes) // 2
            await self._write(keepsakes[:half], chain)
            await self._write(keepsakes[half:], chain)
            return
        # What is there already may have been withdrawn since.
        there = [one.experience_id for one in results if isinstance(one, Written)]
        if len(there) < len(results):
            count_failure("compaction")
            logger.warning("what gives way is left where it is: its writer's lane is full")
        found = await self._book.get(tuple(there), tenant=chain.tenant) if there else ()
        self._note([one for one in found if one.standing not in _UNREADABLE], chain)

    async def _ready(self, one: Keepsake, chain: ScopeChain, namespace: NamespaceId) -> Indexed:
        """Return a content with what it is found by.

        What memory itself answered is found where it was read from, and not a second time.
        """
        draft = await self._draft(one, chain, namespace)
        if one.name.endswith(_RECALLING):
            return Indexed(draft=draft, tokens=tokens_of(one.text))
        return await self._indexed(draft)

    async def _draft(self, one: Keepsake, chain: ScopeChain, namespace: NamespaceId) -> Draft:
        now_ms = self._clock.now_ms()
        tool = one.name if one.kind is ExperienceKind.TOOL_RESULT else ""
        placed = decide(
            Attempt(
                way=one.way,
                writer=chain.agent,
                kind=one.kind,
                saw_untrusted=await self._saw_untrusted(chain, tool),
            )
        )
        return Draft(
            experience_id=one.index,
            tenant=chain.tenant,
            namespace=namespace,
            kind=one.kind,
            lane=placed.lane,
            standing=placed.standing,
            content=one.content,
            media_type=one.media_type,
            summary=one.summary,
            provenance=Provenance(
                writer=chain.agent,
                source=f"tool {tool} in a conversation" if tool else "a conversation",
            ),
            learned_at_ms=now_ms,
            valid_from_ms=now_ms,
            actor=one.name,
            session=chain.session,
        )

    def _note(self, found: Sequence[Experience], chain: ScopeChain) -> None:
        now = self._clock.elapsed_ms()
        for one in found:
            self._known[chain.tenant, one.experience_id] = now
            self._known.move_to_end((chain.tenant, one.experience_id))
        while len(self._known) > _KNOWN_MAX:
            self._known.popitem(last=False)
