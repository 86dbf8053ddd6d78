"""Namespaces as administrators name them, and the rights that nobody granted one by one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from governor.experience.namespace import EVERYBODY, OWN, SHARED, Grant, Namespace, Right
from governor.ids import NamespaceId, PrincipalId, TenantId
from memory_store.errors import NamespaceNotFoundError
from memory_store.experiences.namespaces import NamespaceBook
from runtime.configuration.memory import MemoryTerms, TeamTerms

_OF_AN_AGENT = f"{OWN}/"


class Clock(Protocol):
    """The only source of time."""

    def now_ms(self) -> int:
        """Return the epoch time in milliseconds."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenAnyway:
    """The rights in a namespace that no grant gives: those of the file, and everybody's."""

    of_file: tuple[Grant, ...] = ()
    of_house: tuple[Grant, ...] = ()


def given_anyway(one: Namespace, teams: Mapping[str, TeamTerms]) -> GivenAnyway:
    """Return the rights in a namespace that stand without a grant."""
    if one.owner is not None:
        return GivenAnyway()
    if one.name == SHARED:
        return GivenAnyway(of_house=(Grant(principal=EVERYBODY, right=Right.READ),))
    team = teams.get(one.name)
    if team is None:
        return GivenAnyway()
    members = ((Right.READ, team.readers), (Right.WRITE, team.writers))
    return GivenAnyway(
        of_file=tuple(
            Grant(principal=who, right=right) for right, whos in members for who in sorted(whos)
        )
    )


class Places:
    """Finds the namespaces that administrators mean."""

    def __init__(
        self, book: NamespaceBook, *, clock: Clock, terms: Callable[[], MemoryTerms]
    ) -> None:
        """Take where they are kept, and what the file says of teams."""
        self._book = book
        self._clock = clock
        self._terms = terms

    async def of(self, said: str, *, tenant: TenantId) -> Namespace:
        """Return the namespace of an id or of a name: "tenant", "team/NAME", "agent/PRINCIPAL".

        Raises:
            NamespaceNotFoundError: the tenant has no such one.
        """
        if said == SHARED or said in self._terms().teams:
            bytes_max = self._bytes_max(said)
            return await self._book.make(
                said, tenant=tenant, bytes_max=bytes_max, now_ms=self._clock.now_ms()
            )
        if said.startswith(_OF_AN_AGENT):
            owner = PrincipalId(said.removeprefix(_OF_AN_AGENT))
            found = await self._book.find(OWN, tenant=tenant, owner=owner)
        else:
            found = await self._book.find(said, tenant=tenant)
        try:
            return found or await self._book.get(NamespaceId(said), tenant=tenant)
        except NamespaceNotFoundError as error:
            message = (
                f"there is no namespace {said!r:.120}: say its id, or {SHARED!r}, 'team/NAME' or "
                "'agent/PRINCIPAL'"
            )
            raise NamespaceNotFoundError(message) from error

    async def ids_of(self, said: tuple[str, ...], *, tenant: TenantId) -> tuple[NamespaceId, ...]:
        """Return the ids of namespaces; errors are those of `of`."""
        return tuple([(await self.of(one, tenant=tenant)).namespace for one in said])

    def given_anyway(self, one: Namespace) -> GivenAnyway:
        """Return the rights in a namespace that stand without a grant, by the file of now."""
        return given_anyway(one, self._terms().teams)

    def _bytes_max(self, name: str) -> int | None:
        terms = self._terms()
        team = terms.teams.get(name)
        return terms.namespace_bytes_max if team is None else team.bytes_max


def name_of(one: Namespace) -> str:
    """Return the name by which administrators say a namespace."""
    return one.name if one.owner is None else f"{_OF_AN_AGENT}{one.owner}"
