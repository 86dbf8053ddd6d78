"""The compaction of long conversations, put together out of the memory and the configuration."""

from collections.abc import Callable

from governor.experience.experience import Draft
from governor.flow.labels import Label, Traits
from governor.ids import NamespaceId
from governor.retrieval.vectors import StaticVectors
from governor.scope import ScopeChain
from memory_store.experiences.values import Indexed, WriteLimits
from runtime.configuration.memory import terms_in_force
from runtime.ground import Ground
from runtime.memory.indexing import indexed
from runtime.memory.limits import limits_of
from runtime.memory.namespaces.granted import Namespaces
from runtime.memory.seen import has_seen_untrusted
from runtime.memory.working.keeper import StoreKeeper
from runtime.model_gateway.compaction.compacting import Compactor
from runtime.model_gateway.compaction.terms import CompactionTerms
from runtime.word_vectors import vectors_if_any

TraitsOf = Callable[[str], Traits | None]


def compactor_of(
    ground: Ground,
    *,
    traits_of: TraitsOf,
    vectors: Callable[[], StaticVectors | None] = vectors_if_any,
) -> Compactor | None:
    """Return who makes conversations shorter; None where nothing is kept.

    `traits_of` tells what a tool shows that the house knows by its name; any other is the
    client's own, and may show what strangers wrote.
    """
    if not ground.config.memory.enabled:
        return None

    terms = terms_in_force(lambda: ground.config.memory)

    def limits() -> WriteLimits:
        return limits_of(terms(), now_ms=ground.clock.now_ms())

    namespaces = Namespaces(ground.store.namespaces, clock=ground.clock, terms=terms)

    async def own(chain: ScopeChain) -> NamespaceId:
        return (await namespaces.own(chain)).namespace

    async def found_by(draft: Draft) -> Indexed:
        return await indexed(draft, vectors())

    async def saw_untrusted(chain: ScopeChain, tool: str) -> bool:
        traits = traits_of(tool) if tool else None
        if tool and (traits is None or Label.SEES_UNTRUSTED in traits.labels):
            return True
        return await has_seen_untrusted(ground.flow, chain, where_unknown=True)

    keeper = StoreKeeper(
        ground.store.experiences,
        own=own,
        indexed=found_by,
        saw_untrusted=saw_untrusted,
        limits=limits,
        clock=ground.clock,
    )
    return Compactor(keeper, policy=_policy(ground))


def _policy(ground: Ground) -> Callable[[], tuple[CompactionTerms, ...]]:
    """Return what says the terms in force; they are made anew only when the tables are others."""
    tables = ground.config.memory.compaction
    known = (tables, tuple(table.terms() for table in tables))

    def policy() -> tuple[CompactionTerms, ...]:
        nonlocal known
        tables = ground.config.memory.compaction
        if tables is not known[0]:
            known = (tables, tuple(table.terms() for table in tables))
        return known[1]

    return policy
