"""`flyball eval context`: what a bounded workspace saves of recorded runs, and what it loses."""

import argparse
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import anyio

from governor.experience.experience import Draft
from governor.experience.keepsake import Keepsake
from governor.experience.kinds import LANES_BY_TRUST
from governor.experience.search import Filters, Search
from governor.ids import ExperienceId, NamespaceId, PrincipalId, SessionId
from governor.scope import ScopeChain
from memory_store.experiences.values import Indexed, WriteLimits
from memory_store.search.search import FoundBy
from memory_store.store import Store, open_store
from runtime.clock import SystemClock
from runtime.errors import RuntimeFaultError
from runtime.evaluate.context import (
    TENANT,
    ContextEvaluation,
    ContextTerms,
    RunFigures,
    lived_again,
)
from runtime.evaluate.conversations import Messages, read_conversations
from runtime.memory.indexing import indexed
from runtime.memory.working.keeper import StoreKeeper
from runtime.memory_ranker.loading import memory_ranker
from runtime.word_vectors import vectors_if_any

NAME = "context"
HELP = (
    "Live recorded runs again with a bounded workspace in place of their history: how much smaller "
    "it is, whether all of it comes back byte for byte, and whether what later calls need is in "
    "reach."
)
_AGENT = PrincipalId("agent")
_UNBOUNDED = WriteLimits()
Show = Callable[[str], None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what is lived again, and how much room there is."""
    usual = ContextTerms()
    parser.add_argument(
        "--runs",
        type=Path,
        metavar="FILE",
        required=True,
        help='runs with their messages under "traj" or "messages": a JSON list, or one on a line',
    )
    parser.add_argument("--max-tokens", type=int, default=usual.max_tokens, metavar="N")
    parser.add_argument(
        "--parts",
        type=int,
        default=usual.parts,
        metavar="N",
        help="a workspace is never more than one of so many parts of what it stands for",
    )
    parser.add_argument("--last-turns", type=int, default=usual.last_turns, metavar="N")
    parser.add_argument("--search-tokens", type=int, default=usual.search_tokens_max, metavar="N")


def run(arguments: argparse.Namespace, show: Show) -> int:
    """Print the evaluation; return 0.

    Raises:
        RuntimeFaultError: the runs cannot be read, or a bound cannot be used.
    """
    bounds = (arguments.max_tokens, arguments.parts, arguments.search_tokens)
    if min(bounds) < 1 or arguments.last_turns < 0:
        raise RuntimeFaultError("eval context: the bounds are whole numbers from 1")
    terms = ContextTerms(
        max_tokens=arguments.max_tokens,
        parts=arguments.parts,
        last_turns=arguments.last_turns,
        search_tokens_max=arguments.search_tokens,
    )
    runs = read_conversations(arguments.runs)
    figures = anyio.run(partial(_lived, runs, terms, show))
    evaluation = ContextEvaluation(runs=tuple(figures), terms=terms)
    shape = evaluation.shape()
    sys.stdout.write(json.dumps(shape) + "\n" if arguments.json else _text(shape))
    return 0


@dataclass(frozen=True, slots=True)
class _StoreBank:
    """One agent's own namespace of a store."""

    store: Store
    keeper: StoreKeeper
    namespace: NamespaceId
    clock: SystemClock

    async def keep(self, keepsakes: Sequence[Keepsake], session: SessionId) -> int:
        """Return how many of some contents are kept after this."""
        chain = ScopeChain(tenant=TENANT, agent=_AGENT, session=session)
        return len(await self.keeper.keep(keepsakes, chain=chain))

    async def content(self, index: ExperienceId) -> bytes:
        """Return a content, whole."""
        parts: list[bytes] = []
        size = 1
        while sum(map(len, parts)) < size:
            at = sum(map(len, parts))
            part = await self.store.experiences.content(index, tenant=TENANT, offset=at)
            size = part.experience.size_bytes
            parts.append(part.content)
        return b"".join(parts)

    async def search(self, text: str, session: SessionId, *, most: int) -> Sequence[bytes]:
        """Return the contents that are found for a text among those of the session."""
        search = Search(
            tenant=TENANT,
            namespaces=(self.namespace,),
            text=text,
            now_ms=self.clock.now_ms(),
            most=most,
            # It is what the session has had before it already.
            filters=Filters(lanes=LANES_BY_TRUST, session=session),
        )
        found = await self.store.experience_search.search(search)
        return [await self.content(hit.experience.experience_id) for hit in found.hits]


@asynccontextmanager
async def _bank() -> AsyncIterator[_StoreBank]:
    """Yield a bank on a store of its own, which is gone afterwards."""
    clock, vectors = SystemClock(), vectors_if_any()
    finding = FoundBy(vectors=vectors, ranker=memory_ranker())

    async def seen(_chain: ScopeChain, _tool: str) -> bool:
        return True

    async def found_by(draft: Draft) -> Indexed:
        return await indexed(draft, vectors)

    with tempfile.TemporaryDirectory(prefix="flyball-eval-") as directory:
        async with open_store(Path(directory), finding=finding) as store:
            now_ms = clock.now_ms()
            own = await store.namespaces.make("agent", tenant=TENANT, now_ms=now_ms, owner=_AGENT)

            async def own_of(_chain: ScopeChain) -> NamespaceId:
                return own.namespace

            keeper = StoreKeeper(
                store.experiences,
                own=own_of,
                indexed=found_by,
                saw_untrusted=seen,
                limits=lambda: _UNBOUNDED,
                clock=clock,
            )
            yield _StoreBank(store, keeper, own.namespace, clock)


async def _lived(runs: Sequence[Messages], terms: ContextTerms, show: Show) -> list[RunFigures]:
    async with _bank() as bank:
        figures = []
        for number, messages in enumerate(runs, 1):
            show(f"run {number} of {len(runs)}")
            session = SessionId(f"run_{number}")
            figures.append(await lived_again(messages, session, bank, replace(terms)))
        return figures


def _text(shape: dict[str, object]) -> str:
    return json.dumps(shape, indent=2) + "\n"
