"""Finding tools for a caller: among those that the policy allows, by words and past use."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import anyio
import anyio.to_thread

from governor.ids import PrincipalId, SessionId, TenantId
from governor.policy import Policy
from governor.retrieval.vectors import StaticVectors
from governor.scope import ScopeChain
from tool_gateway import telemetry
from tool_gateway.access import is_open, open_rule
from tool_gateway.catalog import Catalog, ToolEntry
from tool_gateway.discovery import definitions
from tool_gateway.discovery.index import ToolIndex
from tool_gateway.discovery.listing import (
    WHOLE_LIST,
    ListTerms,
    chosen,
    definition_of,
    tokens_of,
)
from tool_gateway.discovery.texts import text_of
from tool_gateway.discovery.trails import Trails, step_of
from tool_gateway.discovery.uses import PastUses
from tool_gateway.errors import LedgerOverloadedError, LedgerUnavailableError, UnknownToolError
from tool_gateway.ports import Clock, PastCall, PolicySource, UseHistory
from tool_gateway.redaction import redact_text
from tool_gateway.stock import Stock

# Asked in a worker thread; None where there are no vectors, and words alone decide.
VectorSource = Callable[[], StaticVectors | None]

PAST_CALLS_MAX = 5_000
# What led to a tool before can lift it by a third of the best match; how often it is used
# decides only between tools that fit about equally well.
FITTING_WEIGHT = 0.35
USUAL_WEIGHT = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shelf:
    """A catalogue and its index; the numbers of the index are places in `entries`."""

    catalog: Catalog
    entries: tuple[ToolEntry, ...]
    index: ToolIndex
    numbers: Mapping[str, int]


class Finder:
    """Searches the catalogue in force and learns from what is called."""

    def __init__(
        self,
        *,
        stock: Stock,
        policy: PolicySource,
        clock: Clock,
        vectors: VectorSource,
        terms: ListTerms = WHOLE_LIST,
    ) -> None:
        """Take the parts; the index is made when it is first needed, and vectors are read then."""
        self._stock = stock
        self._policy = policy
        self._clock = clock
        self._vectors = vectors
        self._terms = terms
        self._uses = PastUses()
        self._trails = Trails()
        self._shelf: _Shelf | None = None
        self._making = anyio.Lock()
        self._sized = stock.catalog
        self._sizes: dict[tuple[str, bool], int] = {}

    async def learn(self, history: UseHistory) -> None:
        """Feed what is remembered from the latest call records.

        It is a help and no duty: without them the memory begins at nothing.
        """
        try:
            past = await history.latest(calls_max=PAST_CALLS_MAX, with_words_of=definitions.SEARCH)
        except (LedgerUnavailableError, LedgerOverloadedError):
            telemetry.count_failure("past_uses")
            return
        for call in past:
            self._relive(call)

    def _relive(self, call: PastCall) -> None:
        if call.tool == definitions.SEARCH:
            if call.words:
                self._uses.note_search(call.session, request=call.words, found=call.found)
        elif call.tool not in definitions.NAMES:
            self._uses.note_success(
                call.tenant, call.session, tool=call.tool, now_ms=call.ended_at_ms
            )

    def note_call(
        self, chain: ScopeChain, *, tool: str, arguments: Mapping[str, object], is_ok: bool
    ) -> None:
        """Remember a call that ended; only one that went well says that the tool was right."""
        if tool in definitions.NAMES:
            return
        self._note_step(chain.session, step_of(tool, arguments))
        if is_ok:
            self._uses.note_success(
                chain.tenant, chain.session, tool=tool, now_ms=self._clock.now_ms()
            )

    def _note_step(self, session: SessionId, step: str) -> None:
        """Remember a step where lists are cut; nobody else asks what a session is about."""
        if self._terms.cuts_any:
            self._trails.note(session, redact_text(step))

    async def search(
        self, chain: ScopeChain, request: str, *, limit: int, is_read_only: bool = False
    ) -> list[ToolEntry]:
        """Return the tools that fit the request best, of those that the caller may use."""
        shelf = await self._current()
        policy = self._policy()
        hits = shelf.index.search(
            request,
            limit=limit,
            lifts=self._fitting(shelf, chain.tenant, request),
            nudges=self._usual(shelf, chain.tenant),
            is_open=lambda number: _is_findable(
                shelf.entries[number], chain, policy, is_read_only=is_read_only
            ),
        )
        found = [shelf.entries[hit.number] for hit in hits]
        self._note_step(chain.session, request)
        self._uses.note_search(
            chain.session, request=request, found=[entry.exposed for entry in found]
        )
        return found

    def described(
        self, chain: ScopeChain, name: str, *, is_read_only: bool = False
    ) -> dict[str, object] | None:
        """Return a tool's definition; None of what does not exist or is not the caller's."""
        try:
            entry = self._stock.catalog.find(name)
        except UnknownToolError:
            return None
        rule = open_rule(
            entry,
            policy=self._policy(),
            tenant=chain.tenant,
            agent=chain.agent,
            is_read_only=is_read_only,
        )
        if rule is None:
            return None
        return definition_of(entry, with_output_schema=not rule.drop_output_schema)

    def cuts(self, tenant: TenantId, agent: PrincipalId) -> bool:
        """Tell whether an agent's list may have no room for all of its tools."""
        return self._terms.tokens_for(tenant, agent) is not None

    async def listed(
        self, chain: ScopeChain, allowed: Sequence[tuple[ToolEntry, bool]]
    ) -> frozenset[str] | None:
        """Return the names that the caller's list has room for, None where it has for all.

        `allowed` are the tools that the caller may use, each with whether its output schema is
        shown.
        """
        tokens_max = self._terms.tokens_for(chain.tenant, chain.agent)
        if tokens_max is None:
            return None
        sizes: dict[str, int] = {
            entry.exposed: self._size_of(entry, with_output_schema=is_shown)
            for entry, is_shown in allowed
        }
        if sum(sizes.values()) <= tokens_max:
            return None
        return chosen(
            sizes,
            tokens_max=tokens_max,
            is_kept=lambda name: name in definitions.NAMES or self._terms.keeps(name),
            ranked=await self._ranked(chain.tenant, chain.session),
        )

    def _size_of(self, entry: ToolEntry, *, with_output_schema: bool) -> int:
        """Return the tokens of a definition, counted once for each catalogue."""
        if self._sized is not self._stock.catalog:
            self._sized, self._sizes = self._stock.catalog, {}
        key = (entry.exposed, with_output_schema)
        if key not in self._sizes:
            self._sizes[key] = tokens_of(
                definition_of(entry, with_output_schema=with_output_schema)
            )
        return self._sizes[key]

    async def _ranked(self, tenant: TenantId, session: SessionId) -> list[str]:
        """Return tools by what the session is about, else by what the tenant uses."""
        trail = self._trails.of(session)
        if trail:
            shelf = await self._current()
            hits = shelf.index.search(
                trail,
                limit=len(shelf.entries),
                lifts=self._fitting(shelf, tenant, trail),
                nudges=self._usual(shelf, tenant),
            )
            return [shelf.entries[hit.number].exposed for hit in hits]
        usual = self._uses.usual(tenant, now_ms=self._clock.now_ms())
        return sorted(usual, key=lambda name: (-usual[name], name))

    def _fitting(self, shelf: _Shelf, tenant: TenantId, request: str) -> dict[int, float]:
        known = self._uses.fitting(tenant, request, now_ms=self._clock.now_ms())
        return _weighed(shelf, known, FITTING_WEIGHT)

    def _usual(self, shelf: _Shelf, tenant: TenantId) -> dict[int, float]:
        known = self._uses.usual(tenant, now_ms=self._clock.now_ms())
        return _weighed(shelf, known, USUAL_WEIGHT)

    async def _current(self) -> _Shelf:
        """Return the index of the catalogue in force, made anew after that was swapped.

        A thousand tools take about a second, which other calls should not wait for.
        """
        async with self._making:
            catalog = self._stock.catalog
            if self._shelf is None or self._shelf.catalog is not catalog:
                self._shelf = await anyio.to_thread.run_sync(_shelved, catalog, self._vectors)
            return self._shelf


def _is_findable(
    entry: ToolEntry, chain: ScopeChain, policy: Policy, *, is_read_only: bool
) -> bool:
    if entry.exposed in definitions.NAMES:
        return False
    return is_open(
        entry,
        policy=policy,
        tenant=chain.tenant,
        agent=chain.agent,
        is_read_only=is_read_only,
    )


def _shelved(catalog: Catalog, vectors: VectorSource) -> _Shelf:
    entries = tuple(catalog)
    return _Shelf(
        catalog=catalog,
        entries=entries,
        index=ToolIndex([text_of(entry) for entry in entries], vectors=vectors()),
        numbers={entry.exposed: number for number, entry in enumerate(entries)},
    )


def _weighed(shelf: _Shelf, known: Mapping[str, float], weight: float) -> dict[int, float]:
    """Return the weights by number, of those tools that the catalogue still has."""
    return {
        shelf.numbers[tool]: weight * share
        for tool, share in known.items()
        if tool in shelf.numbers
    }
