"""`memory_context`: what a session has kept, gathered for the workspace that it is given."""

from collections import deque
from collections.abc import Sequence

from governor.call import ToolCall
from governor.experience.answer import Answer
from governor.experience.experience import Experience
from governor.experience.kinds import ExperienceKind, Standing
from governor.experience.search import Search
from governor.experience.standpoint import Remembered, standpoint
from governor.ids import ExperienceId
from governor.scope import ScopeChain
from memory_store.experiences.book import ExperienceBook
from memory_store.experiences.browsing import LISTED_MAX
from runtime.memory.desk.findings import Showing
from runtime.memory.indexing import text_of
from runtime.memory.namespaces.granted import SEARCHED, Namespaces
from runtime.memory.ports import Searching
from runtime.memory.words import memory_words
from tool_gateway.ports import Clock

# What a session kept before these counts no more: the list of all has it still.
_PIECES_MAX = 500
_PAGES_MAX = 40
# Of so many results of so many bytes the values are read, too.
_READ_MAX = 64
_READ_BYTES_MAX = 16_384
_FOUND_MAX = 5


class SessionContext:
    """Puts together where sessions stand."""

    def __init__(
        self,
        book: ExperienceBook,
        namespaces: Namespaces,
        searching: Searching,
        showing: Showing,
        *,
        clock: Clock,
        key: bytes,
    ) -> None:
        """Take where experiences are; `key` is the secret that texts are framed with."""
        self._book = book
        self._namespaces = namespaces
        self._searching = searching
        self._showing = showing
        self._clock = clock
        self._key = key

    async def context_of(self, call: ToolCall, *, focus: str, tokens_max: int) -> Answer:
        """Return the workspace of the call's session; `focus` is what it is to go on with."""
        chain = call.chain
        kept = await self._kept(chain)
        found = await self._found(chain, focus) if focus else ()
        texts = await self._texts(kept, found, chain)
        own = await self._namespaces.own(chain)
        remembered, known = (
            [Remembered(experience=one, text=texts.get(one.experience_id)) for one in some]
            for some in (kept, found)
        )
        answer = standpoint(
            remembered,
            known,
            own={own.namespace},
            tokens_max=tokens_max,
            key=self._key,
        )
        given = [one for one in (*kept, *found) if one.experience_id in answer.indices]
        await self._showing.mark(call, given)
        return answer

    async def _kept(self, chain: ScopeChain) -> list[Experience]:
        """Return the latest that the session kept and its agent may read, in their order."""
        namespaces = await self._namespaces.to_read(chain, SEARCHED)
        latest: deque[Experience] = deque(maxlen=_PIECES_MAX)
        since = 0
        for _ in range(_PAGES_MAX):
            with memory_words():
                page = await self._book.of_session(
                    chain.session,
                    tenant=chain.tenant,
                    namespaces=tuple(one.namespace for one in namespaces),
                    since=since,
                    most=LISTED_MAX,
                )
            latest.extend(page)
            if len(page) < LISTED_MAX:
                break
            since = page[-1].number
        now_ms = self._clock.now_ms()
        return [
            one
            for one in latest
            if one.standing is Standing.ACTIVE
            and (one.expires_at_ms is None or one.expires_at_ms > now_ms)
        ]

    async def _texts(
        self, kept: Sequence[Experience], found: Sequence[Experience], chain: ScopeChain
    ) -> dict[ExperienceId, str]:
        """Return the contents of the latest results, and of what may instruct, if small enough."""
        results = [
            one.experience_id
            for one in kept
            if one.kind is ExperienceKind.TOOL_RESULT and one.size_bytes <= _READ_BYTES_MAX
        ][-_READ_MAX:]
        results += [
            one.experience_id
            for one in (*kept, *found)
            if one.lane.instructs and one.size_bytes <= _READ_BYTES_MAX
        ][-_READ_MAX:]
        with memory_words():
            contents = await self._book.contents(
                tuple(results), tenant=chain.tenant, bytes_max=_READ_BYTES_MAX
            )
        read = zip(results, contents, strict=True)
        texts = {index: text_of(content) for index, content in read if content is not None}
        return {index: text for index, text in texts.items() if text is not None}

    async def _found(self, chain: ScopeChain, focus: str) -> tuple[Experience, ...]:
        """Return what is known of what the session is to go on with, by other sessions."""
        namespaces = await self._namespaces.to_read(chain, SEARCHED)
        search = Search(
            tenant=chain.tenant,
            namespaces=tuple(one.namespace for one in namespaces),
            text=focus,
            now_ms=self._clock.now_ms(),
            most=_FOUND_MAX,
        )
        with memory_words():
            found = await self._searching.search(search)
        return tuple(
            hit.experience for hit in found.hits if hit.experience.session != chain.session
        )
