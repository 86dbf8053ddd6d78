"""Drafts for the tests of the book of experiences, and what most of them do with it."""

from collections.abc import AsyncIterator, Iterable

import anyio

from governor.experience.experience import Draft, Experience, Provenance
from governor.experience.kinds import ExperienceKind, Standing, TrustLane
from governor.experience.quota import Exceeded
from governor.ids import (
    CallId,
    ExperienceId,
    NamespaceId,
    PrincipalId,
    SessionId,
    TenantId,
)
from memory_store.experiences.lines import Carried
from memory_store.experiences.transfer import Put
from memory_store.experiences.values import Indexed, Written
from memory_store.store import Store

ACME, GLOBEX = TenantId("acme"), TenantId("globex")
ADA, BOB = PrincipalId("ada"), PrincipalId("bob")
NOW = 1_000_000
BY = {"by": "root", "why": "asked for", "now_ms": NOW + 5}


async def space_of(store: Store, *, tenant: TenantId = ACME, name: str = "agent") -> NamespaceId:
    made = await store.namespaces.make(name, tenant=tenant, owner=ADA, now_ms=1)
    return made.namespace


def draft(
    name: str,
    namespace: NamespaceId,
    *,
    content: bytes | None = None,
    tenant: TenantId = ACME,
    writer: PrincipalId = ADA,
    call: str | None = None,
    lane: TrustLane = TrustLane.AGENT,
    kind: ExperienceKind = ExperienceKind.FACT,
    standing: Standing = Standing.ACTIVE,
    session: str | None = "ses_a",
    made_of: tuple[str, ...] = (),
    supersedes: str | None = None,
    valid_from_ms: int = NOW,
    valid_until_ms: int | None = None,
    learned_at_ms: int = NOW,
    expires_at_ms: int | None = None,
    summary: str | None = None,
    terms: str | None = None,
    takes_effect: bool = True,
) -> Indexed:
    """Return a draft that is told from others by its name."""
    return Indexed(
        draft=Draft(
            experience_id=ExperienceId(f"exp_{name}"),
            tenant=tenant,
            namespace=namespace,
            kind=kind,
            lane=lane,
            content=f"what {name} is about".encode() if content is None else content,
            media_type="text/plain",
            summary=f"about {name}" if summary is None else summary,
            provenance=Provenance(
                writer=writer,
                call_id=None if call is None else CallId(call),
                upstream="files",
                source="a test",
                derived_from=tuple(ExperienceId(f"exp_{one}") for one in made_of),
            ),
            learned_at_ms=learned_at_ms,
            valid_from_ms=valid_from_ms,
            valid_until_ms=valid_until_ms,
            standing=standing,
            actor="Ada",
            session=None if session is None else SessionId(session),
            tags=("blue", "größer"),
            cost_microusd=12,
            outcome=0.5,
            supersedes=None if supersedes is None else ExperienceId(f"exp_{supersedes}"),
            expires_at_ms=expires_at_ms,
        ),
        terms=f"about {name}" if terms is None else terms,
        vector=b"\x00\x3c" * 8,
        traits=3,
        tokens=7,
        takes_effect=takes_effect,
    )


async def wrote(store: Store, *drafts: Indexed) -> list[Written]:
    """Write drafts, none of which is above a quota."""
    results = await store.experiences.write(drafts)
    assert not [one for one in results if isinstance(one, Exceeded)]
    return [one for one in results if isinstance(one, Written)]


async def one(store: Store, name: str, *, tenant: TenantId = ACME) -> Experience:
    (found,) = await store.experiences.get((ExperienceId(f"exp_{name}"),), tenant=tenant)
    return found


async def standings(store: Store, *names: str) -> list[Standing]:
    """Return where experiences stand, in the order of their names."""
    return [(await one(store, name)).standing for name in names]


def ids(*names: str) -> tuple[ExperienceId, ...]:
    return tuple(ExperienceId(f"exp_{name}") for name in names)


async def problems(store: Store) -> list[tuple[str, str | None]]:
    """Return what does not add up in a store, and with which experience."""
    with anyio.fail_after(60):
        looked = await store.upkeep.check.look(ACME)
    return [(problem.what, problem.experience_id) for problem in looked.problems]


async def each(lines: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Yield lines as a transfer reads them."""
    for line in lines:
        yield line


def as_it_was(carried: Carried, is_signed: bool) -> Put:  # noqa: FBT001 - as it is called
    """Put what is carried where it was; what this house did not sign is a stranger's."""
    return Put(
        lane=carried.indexed.draft.lane if is_signed else TrustLane.WEB,
        standing=carried.indexed.draft.standing,
        takes_effect=carried.indexed.takes_effect,
    )
