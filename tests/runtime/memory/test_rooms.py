"""The namespaces that are open to a caller, however many a tenant has."""

from collections.abc import Iterator
from typing import ClassVar, cast

import pytest

from governor.experience.kinds import TrustLane
from governor.experience.namespace import EVERYBODY, Grant, Namespace, Right
from governor.ids import NamespaceId, PrincipalId, SessionId, TenantId
from governor.scope import ScopeChain
from memory_store.experiences.namespaces import NamespaceBook
from memory_store.experiences.values import NamespaceUsage
from runtime.configuration.memory import MemoryTable, memory_terms_of
from runtime.memory.namespaces.rooms import rooms_of

pytestmark = pytest.mark.anyio
ACME = TenantId("acme")
ADA = ScopeChain(tenant=ACME, agent=PrincipalId("ada"), session=SessionId("s"))
READ = (Grant(principal=EVERYBODY, right=Right.READ),)


class Usages(tuple[NamespaceUsage, ...]):
    """What is kept where, and how often it was gone through."""

    __slots__ = ()
    passes: ClassVar[int] = 0

    def __iter__(self) -> Iterator[NamespaceUsage]:
        Usages.passes += 1
        return super().__iter__()


class Book:
    """A tenant with many namespaces."""

    def __init__(self, count: int) -> None:
        ids = [NamespaceId(f"ns_{number}") for number in range(count)]
        self.spaces = tuple(
            Namespace(namespace=one, tenant=ACME, name=f"team/{one}", grants=READ) for one in ids
        )
        self.kept = Usages(
            NamespaceUsage(namespace=one, lane=lane, items=1, content_bytes=10)
            for one in ids
            for lane in (TrustLane.AGENT, TrustLane.TOOL)
        )

    async def granted_to(
        self, principal: PrincipalId, *, tenant: TenantId, after: str = ""
    ) -> tuple[Namespace, ...]:
        return self.spaces

    async def usage(self, *, tenant: TenantId) -> Usages:
        return self.kept


@pytest.mark.requirement("memory.namespaces-listed")
@pytest.mark.parametrize("count", [1, 300])
async def test_what_is_kept_is_gone_through_as_often_for_many_namespaces_as_for_one(
    count: int,
) -> None:
    Usages.passes = 0
    book = cast("NamespaceBook", Book(count))

    rooms, _ = await rooms_of(book, memory_terms_of(MemoryTable()), ADA, known=(), after="")

    assert [(room.items, room.bytes_used) for room in rooms] == [(2, 20)] * count
    assert Usages.passes == 2
