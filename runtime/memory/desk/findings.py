"""What was found, with as much of the contents as a reader can be shown."""

from collections.abc import Collection, Iterable, Mapping, Sequence

import anyio

from governor.call import ToolCall
from governor.experience.answer import Finding
from governor.experience.experience import Experience
from governor.experience.kinds import TrustLane
from governor.experience.rendering import shown
from governor.flow.labels import Label
from governor.ids import ExperienceId, NamespaceId
from governor.scope import ScopeChain
from memory_store.experiences.book import ExperienceBook
from memory_store.experiences.drafts import address_of
from memory_store.experiences.values import SLICE_BYTES_MAX
from runtime.memory.indexing import text_of
from runtime.memory.namespaces.granted import Namespaces
from runtime.memory.ports import SeenMarks
from runtime.memory.seen import has_seen_untrusted
from runtime.memory.words import memory_words
from tool_gateway.errors import (
    ExperienceDamagedError,
    ExperienceMissError,
    LedgerOverloadedError,
    LedgerUnavailableError,
    MemoryUnavailableError,
)

# No text has so many bytes to a token that more of it could fit.
_BYTES_PER_TOKEN_MAX = 16
_UNTRUSTED = frozenset({Label.SEES_UNTRUSTED})


class Showing:
    """Makes findings of experiences, and keeps what their reader has seen by them."""

    def __init__(self, book: ExperienceBook, namespaces: Namespaces, *, marks: SeenMarks) -> None:
        """Take where contents are, whose namespaces are whose, and who keeps what was seen."""
        self._book = book
        self._namespaces = namespaces
        self._marks = marks

    async def findings(
        self,
        call: ToolCall,
        found: Sequence[Experience],
        *,
        tokens_max: int,
        scores: Mapping[ExperienceId, float],
        relations: Mapping[ExperienceId, str],
        told: Mapping[ExperienceId, str],
    ) -> list[Finding]:
        """Return what was found, in its order, with the texts that may fit.

        Of some `told` stands for the whole: sentences of it, gaps marked, its index beside them.
        """
        own = {(await self._namespaces.own(call.chain)).namespace}
        rest = [one for one in found if one.experience_id not in told]
        texts = {**await self._texts(call, rest, tokens_max=tokens_max), **told}
        return [
            _finding(
                one,
                texts.get(one.experience_id),
                own=own,
                score=scores.get(one.experience_id),
                relation=relations.get(one.experience_id, ""),
            )
            for one in found
        ]

    async def has_seen_untrusted(self, chain: ScopeChain) -> bool:
        """Tell whether a session has seen what others wrote; False where nobody can say.

        It then gets less, and nothing that it should not see.
        """
        return await has_seen_untrusted(self._marks, chain, where_unknown=False)

    async def mark(self, call: ToolCall, given: Iterable[Experience]) -> None:
        """Keep that the session sees what anybody may have written, before it does.

        Raises:
            MemoryUnavailableError: that cannot be kept, so nothing is shown.
        """
        if all(one.lane is not TrustLane.WEB for one in given):
            return
        try:
            await self._marks.mark(call.chain, _UNTRUSTED, tool=call.tool)
        except (LedgerUnavailableError, LedgerOverloadedError) as error:
            raise MemoryUnavailableError from error

    async def _texts(
        self, call: ToolCall, found: Sequence[Experience], *, tokens_max: int
    ) -> dict[ExperienceId, str]:
        """Return the contents that are text and may fit, each whole."""
        bytes_max = tokens_max * _BYTES_PER_TOKEN_MAX
        fitting = [
            one.experience_id
            for one in found
            if one.tokens <= tokens_max and one.size_bytes <= min(bytes_max, SLICE_BYTES_MAX)
        ]
        texts = {one.experience_id: one.summary for one in found if _is_its_summary(one)}
        fitting = [index for index in fitting if index not in texts]
        texts.update(await self._small(call, fitting))
        fitting = [index for index in fitting if index not in texts]

        async def take(index: ExperienceId) -> None:
            try:
                with memory_words():
                    found = await self._book.content(index, tenant=call.chain.tenant)
            except (ExperienceMissError, ExperienceDamagedError):
                return  # erased meanwhile, or no longer what was written: its summary stands
            text = text_of(found.content)
            if text is not None:
                texts[index] = text

        async with anyio.create_task_group() as tasks:
            for index in fitting:
                tasks.start_soon(take, index)
        return texts

    async def _small(
        self, call: ToolCall, fitting: Sequence[ExperienceId]
    ) -> dict[ExperienceId, str]:
        """Return the small contents of some experiences, which are read together.

        Where one of them is gone or damaged none is returned: each is then read by itself.
        """
        if not fitting:
            return {}
        try:
            with memory_words():
                contents = await self._book.contents(
                    tuple(fitting), tenant=call.chain.tenant, bytes_max=SLICE_BYTES_MAX
                )
        except (ExperienceMissError, ExperienceDamagedError):
            return {}
        texts = (
            (index, None if content is None else text_of(content))
            for index, content in zip(fitting, contents, strict=True)
        )
        return {index: text for index, text in texts if text is not None}


def _is_its_summary(one: Experience) -> bool:
    """Tell whether a content proves to be its own summary, which was read with what is known of it.

    Nothing more is to be read then: what has the address of a content is that content.
    """
    said = one.summary.encode("utf-8", "surrogatepass")
    return len(said) == one.size_bytes and address_of(said) == one.address


def _finding(
    one: Experience,
    text: str | None,
    *,
    own: Collection[NamespaceId],
    score: float | None,
    relation: str,
) -> Finding:
    return Finding(
        experience=one,
        brief=shown(one, one.summary, own=own),
        whole=None if text is None else shown(one, text, own=own),
        score=score,
        relation=relation,
    )
