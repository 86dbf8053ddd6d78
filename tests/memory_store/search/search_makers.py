"""Experiences to be searched, and searches for them."""

import itertools
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from contracts.builders import AGENT, TENANT

from governor.experience.experience import Draft, Provenance
from governor.experience.kinds import ExperienceKind, TrustLane
from governor.experience.search import Filters, Search
from governor.ids import ExperienceId, NamespaceId, PrincipalId, TenantId
from governor.retrieval.analysis import index_terms, traits_of
from memory_store.experiences.values import Indexed
from memory_store.store import Store
from runtime.word_vectors import word_vectors

NOW_MS = 1_000_000
_fresh = itertools.count(1)


def indexed(
    text: str,
    *,
    namespace: NamespaceId,
    tenant: TenantId = TENANT,
    writer: PrincipalId = AGENT,
    **fields: Any,
) -> Indexed:
    """Return a text as it is written; `fields` are the draft's."""
    number = next(_fresh)
    plain = Draft(
        experience_id=ExperienceId(f"exp_{number:08d}"),
        tenant=tenant,
        namespace=namespace,
        kind=ExperienceKind.OBSERVATION,
        lane=TrustLane.AGENT,
        content=text.encode(errors="replace"),
        media_type="text/plain",
        summary=text.encode(errors="replace").decode()[:200],
        provenance=Provenance(writer=writer),
        learned_at_ms=number,
        valid_from_ms=number,
    )
    return Indexed(
        draft=replace(plain, **fields),
        terms=index_terms(text),
        vector=word_vectors().embed(text).astype("<f2").tobytes(),
        traits=traits_of(text),
    )


def asked(text: str, *namespaces: NamespaceId, **fields: Any) -> Search:
    """Return a search; `fields` are the search's, or those of its filters."""
    named = {name: fields.pop(name) for name in list(fields) if hasattr(Search, name)}
    plain = Search(tenant=TENANT, namespaces=namespaces, text=text, now_ms=NOW_MS)
    return replace(plain, **named, filters=replace(Filters(), **fields))


async def space(store: Store, name: str = "one", *, tenant: TenantId = TENANT) -> NamespaceId:
    """Return a namespace of that name, made if it is not there."""
    return (await store.namespaces.make(name, tenant=tenant, now_ms=1)).namespace


async def keep(store: Store, drafts: Iterable[Indexed]) -> list[ExperienceId]:
    """Write the drafts, each by itself, and return their ids."""
    kept = []
    for draft in drafts:
        (written,) = await store.experiences.write((draft,))
        kept.append(written.experience_id)
    return kept


async def summaries(store: Store, search: Search) -> list[str]:
    """Return the summaries of what a search finds, the best first."""
    found = await store.experience_search.search(search)
    return [hit.experience.summary for hit in found.hits]
