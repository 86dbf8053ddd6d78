"""A store with agents, their experiences and the bank of their team, for what learns from them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from governor.call import ToolCall
from governor.experience.experience import Draft, Experience, Provenance
from governor.experience.kinds import ExperienceKind, TrustLane
from governor.experience.namespace import Namespace
from governor.experience.search import Search
from governor.flow.labels import Label
from governor.ids import (
    CallId,
    ExperienceId,
    NamespaceId,
    PrincipalId,
    SessionId,
    TenantId,
    ToolName,
)
from governor.scope import ScopeChain
from memory_store.store import Store
from runtime.clock import SystemClock
from runtime.memory.indexing import indexed

ACME = TenantId("acme")
CLOCK = SystemClock()


def call_of(agent: str, number: int = 0, *, session: str = "s") -> ToolCall:
    """Return a call of an agent."""
    chain = ScopeChain(
        tenant=ACME, agent=PrincipalId(agent), session=SessionId(f"{session}-{agent}")
    )
    return ToolCall(
        call_id=CallId(f"call-{agent}-{session}-{number}"),
        tool=ToolName("memory_search"),
        arguments={},
        chain=chain,
        turn=None,
    )


@dataclass
class Marks:
    """What sessions have seen, as a test says."""

    misled: set[SessionId] = field(default_factory=set)

    async def seen_by(self, chain: ScopeChain) -> frozenset[Label]:
        return frozenset({Label.SEES_UNTRUSTED}) if chain.session in self.misled else frozenset()

    async def mark(self, chain: ScopeChain, taints: frozenset[Label], *, tool: ToolName) -> None:
        self.misled.add(chain.session)


async def namespace_of(store: Store, name: str, *, owner: str | None = None) -> Namespace:
    """Return a namespace, made where there is none yet."""
    who = None if owner is None else PrincipalId(owner)
    found = await store.namespaces.find(name, tenant=ACME, owner=who)
    if found is not None:
        return found
    return await store.namespaces.make(name, tenant=ACME, owner=who, now_ms=1)


async def kept(
    store: Store,
    namespace: NamespaceId,
    name: str,
    text: str,
    *,
    agent: str = "ada",
    lane: TrustLane = TrustLane.AGENT,
) -> Experience:
    """Return an experience that an agent wrote."""
    await kept_all(store, namespace, {name: text}, agent=agent, lane=lane)
    (one,) = await store.experiences.get((ExperienceId(f"exp_{name}"),), tenant=ACME)
    return one


async def kept_all(
    store: Store,
    namespace: NamespaceId,
    texts: Mapping[str, str],
    *,
    agent: str = "ada",
    lane: TrustLane = TrustLane.AGENT,
) -> None:
    """Keep what an agent wrote, each under its name."""
    drafts = [
        Draft(
            experience_id=ExperienceId(f"exp_{name}"),
            tenant=ACME,
            namespace=namespace,
            kind=ExperienceKind.FACT,
            lane=lane,
            content=text.encode(),
            media_type="text/plain",
            summary=text[:300],
            provenance=Provenance(writer=PrincipalId(agent), call_id=CallId(f"w-{name}")),
            learned_at_ms=CLOCK.now_ms(),
            valid_from_ms=1,
            session=SessionId("s"),
        )
        for name, text in texts.items()
    ]
    await store.experiences.write(tuple([await indexed(draft, None) for draft in drafts]))


def search_of(namespaces: Sequence[NamespaceId], text: str, *, most: int = 10) -> Search:
    """Return a search."""
    return Search(
        tenant=ACME,
        namespaces=tuple(namespaces),
        text=text,
        now_ms=CLOCK.now_ms(),
        most=most,
        use_vectors=False,
    )
