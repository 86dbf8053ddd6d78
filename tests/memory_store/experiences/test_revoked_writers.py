"""What goes with a writer that is revoked, over any web of derivations; and a writer's quotas."""

from dataclasses import dataclass
from itertools import count

import anyio
import pytest
from anyio.from_thread import BlockingPortal
from hypothesis import given, settings
from hypothesis import strategies as st

from governor.experience.experience import Draft, Provenance
from governor.experience.kinds import ExperienceKind, Standing, TrustLane
from governor.experience.quota import Exceeded, LaneLimit, LaneQuotas
from governor.experience.search import Filters, Search
from governor.ids import ExperienceId, NamespaceId, PrincipalId, TenantId
from governor.retrieval.analysis import index_terms
from memory_store.experiences.values import Indexed, WriteLimits, Written
from memory_store.store import Store

WRITERS = ("ada", "bob", "eve")
EVE = PrincipalId("eve")
_NUMBERS = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """An experience to be written: by whom, and made of which of those before it."""

    writer: str
    sources: tuple[int, ...]


@st.composite
def webs(draw: st.DrawFn) -> list[Node]:
    size = draw(st.integers(1, 12))
    return [
        Node(
            writer=draw(st.sampled_from(WRITERS)),
            sources=tuple(draw(st.sets(st.integers(0, at - 1), max_size=3))) if at else (),
        )
        for at in range(size)
    ]


def draft_of(tenant: TenantId, namespace: NamespaceId, index: str, node: Node) -> Draft:
    return Draft(
        experience_id=ExperienceId(index),
        tenant=tenant,
        namespace=namespace,
        kind=ExperienceKind.FACT,
        lane=TrustLane.WEB,
        content=f"invoice of {index}".encode(),
        media_type="text/plain",
        summary="",
        provenance=Provenance(
            writer=PrincipalId(node.writer),
            derived_from=tuple(ExperienceId(f"exp_node{at:04d}") for at in node.sources),
        ),
        learned_at_ms=4_000,
        valid_from_ms=4_000,
    )


def tainted_by(web: list[Node], writer: str) -> set[int]:
    """Return what a writer wrote, and what was made of it by whatever steps."""
    found: set[int] = set()
    for at, node in enumerate(web):
        if node.writer == writer or found & set(node.sources):
            found.add(at)
    return found


@pytest.mark.requirement("memory.revoke-by-writer")
@settings(max_examples=40)
@given(web=webs())
def test_with_a_writer_goes_all_that_was_made_of_what_it_wrote_and_nothing_else(
    web: list[Node], portal: BlockingPortal, store: Store
) -> None:
    portal.call(_revoke, store, web)


async def _revoke(store: Store, web: list[Node]) -> None:
    with anyio.fail_after(60):
        tenant = TenantId(f"acme{next(_NUMBERS)}")
        space = await store.namespaces.make("team/one", tenant=tenant, now_ms=1)
        drafts = [
            draft_of(tenant, space.namespace, f"exp_node{at:04d}", node)
            for at, node in enumerate(web)
        ]
        for draft in drafts:
            terms = index_terms(draft.content.decode())
            await store.experiences.write((Indexed(draft=draft, terms=terms),))

        await store.experiences.revoke_writer(EVE, tenant=tenant, by="root", why="x", now_ms=5_000)

        gone = tainted_by(web, EVE)
        kept = await store.experiences.get(
            tuple(draft.experience_id for draft in drafts), tenant=tenant
        )
        standing = {at for at, one in enumerate(kept) if one.standing is Standing.REVOKED}
        assert standing == gone
        search = Search(
            tenant=tenant,
            namespaces=(space.namespace,),
            text="invoice",
            now_ms=6_000,
            most=50,
            filters=Filters(lanes=tuple(TrustLane)),
        )
        found = await store.experience_search.search(search)
        indices = {hit.experience.experience_id for hit in found.hits}
        assert indices == {kept[at].experience_id for at in range(len(web)) if at not in gone}


@pytest.mark.requirement("memory.lane-quotas")
def test_a_writer_that_has_filled_a_lane_is_refused_there_and_nobody_else(
    portal: BlockingPortal, store: Store
) -> None:
    portal.call(_fill, store)


async def _fill(store: Store) -> None:
    with anyio.fail_after(60):
        tenant = TenantId(f"acme{next(_NUMBERS)}")
        space = await store.namespaces.make("team/one", tenant=tenant, now_ms=1)
        lanes = LaneQuotas(limits={TrustLane.WEB: LaneLimit(writes_max=3)}, window_ms=1_000)

        async def written(index: str, writer: str, now_ms: int) -> Written | Exceeded:
            draft = draft_of(tenant, space.namespace, index, Node(writer=writer, sources=()))
            (got,) = await store.experiences.write(
                (Indexed(draft=draft),), limits=WriteLimits(lanes=lanes, now_ms=now_ms)
            )
            return got

        first = [await written(f"exp_full{at:04d}", "eve", 5_100) for at in range(5)]
        other = await written("exp_other000", "ada", 5_200)
        later = await written("exp_later000", "eve", 6_000)

    refused = Exceeded(
        lane=TrustLane.WEB, unit="writes", limit=3, used=3, requested=1, resets_at_ms=6_000
    )
    assert [isinstance(one, Written) for one in first] == [True] * 3 + [False] * 2
    assert first[3:] == [refused, refused]
    assert isinstance(other, Written)
    assert isinstance(later, Written)
