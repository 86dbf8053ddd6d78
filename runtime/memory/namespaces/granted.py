"""Which namespaces a caller means by a name, and what it may do there."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace

from governor.experience.namespace import EVERYBODY, OWN, SHARED, Namespace, Right
from governor.ids import NamespaceId, PrincipalId, TenantId
from governor.scope import ScopeChain
from memory_store.experiences.namespaces import NamespaceBook
from runtime.configuration.memory import MemoryTerms
from runtime.memory.namespaces.places import given_anyway
from runtime.memory.namespaces.rooms import Room, rooms_of
from runtime.memory.words import memory_words
from tool_gateway.errors import ExperienceMissError, MemoryRefusedError
from tool_gateway.ports import Clock

# What a search goes through that names none.
SEARCHED = (OWN, SHARED)
_OWNERS_MAX = 10_000
_TENANTS_MAX = 10_000


class Namespaces:
    """Finds namespaces by the names that callers have for them."""

    def __init__(
        self, book: NamespaceBook, *, clock: Clock, terms: Callable[[], MemoryTerms]
    ) -> None:
        """Take where they are kept, and what the file says of teams."""
        self._book = book
        self._clock = clock
        self._terms = terms
        # Whose own a namespace is never changes, so it need not be asked again.
        self._own: OrderedDict[tuple[TenantId, PrincipalId], Namespace] = OrderedDict()
        # Nor does who may read what is meant for everybody; who may write is asked each time.
        self._shared: OrderedDict[TenantId, Namespace] = OrderedDict()

    async def own(self, chain: ScopeChain) -> Namespace:
        """Return the caller's own namespace, made when it is first needed."""
        key = (chain.tenant, chain.agent)
        known = self._own.get(key)
        if known is None or self._is_otherwise(known):
            known = await self._made(chain.tenant, OWN, owner=chain.agent)
            self._own[key] = known
            if len(self._own) > _OWNERS_MAX:
                self._own.popitem(last=False)
        self._own.move_to_end(key)
        return known

    async def to_read(self, chain: ScopeChain, names: tuple[str, ...]) -> tuple[Namespace, ...]:
        """Return the namespaces that are searched.

        Raises:
            MemoryRefusedError: the caller may not read one, or there is no such one.
        """
        found = []
        for name in names or SEARCHED:
            is_shared = name == SHARED
            one = await (self._everybodys(chain) if is_shared else self._named(chain, name))
            if one is None or not one.permits(chain.agent, Right.READ, tenant=chain.tenant):
                message = f"namespace {name!r:.120}: there is none that you may read"
                raise MemoryRefusedError(message)
            found.append(one)
        return tuple(found)

    async def to_write(self, chain: ScopeChain, name: str) -> Namespace:
        """Return the namespace that a write lands in.

        What is meant for everybody lands in the caller's own where it has no grant to write for
        everybody.

        Raises:
            MemoryRefusedError: the caller may not write there, or there is no such one.
        """
        one = await self._named(chain, name)
        if one is not None and one.permits(chain.agent, Right.WRITE, tenant=chain.tenant):
            return one
        if name == SHARED:
            return await self.own(chain)
        message = f"namespace {name!r:.120}: there is none that you may write to; use {OWN!r}"
        raise MemoryRefusedError(message)

    async def rooms(self, chain: ScopeChain, *, after: str) -> tuple[tuple[Room, ...], str | None]:
        """Return a page of the namespaces that the caller may use, and where to go on."""
        whos = {chain.agent, EVERYBODY}
        teams = sorted(self._terms().teams.items())
        named = [name for name, team in teams if whos & (team.readers | team.writers)]
        made = [await self._made(chain.tenant, name) for name in (SHARED, *named)]
        known = [await self.own(chain), *map(self._granted, made)]
        return await rooms_of(self._book, self._terms(), chain, known=known, after=after)

    def chooses(self, name: str) -> bool:
        """Tell whether what enters the namespace of that name is chosen by what is of use."""
        return self._terms().chooses(name)

    async def permits(self, chain: ScopeChain, namespace: NamespaceId, asked: Right) -> bool:
        """Tell whether the caller may do that in the namespace of that id."""
        own = await self.own(chain)
        if namespace == own.namespace:
            return own.permits(chain.agent, asked, tenant=chain.tenant)
        try:
            with memory_words():
                one = await self._book.get(namespace, tenant=chain.tenant)
        except ExperienceMissError:
            return False
        return self._granted(one).permits(chain.agent, asked, tenant=chain.tenant)

    async def _everybodys(self, chain: ScopeChain) -> Namespace:
        """Return the tenant's own namespace, with no more than what everybody may do there."""
        known = self._shared.get(chain.tenant)
        if known is None or self._is_otherwise(known):
            known = replace(await self._made(chain.tenant, SHARED), grants=())
            self._shared[chain.tenant] = known
            if len(self._shared) > _TENANTS_MAX:
                self._shared.popitem(last=False)
        return self._granted(known)

    async def _named(self, chain: ScopeChain, name: str) -> Namespace | None:
        if name == OWN:
            return await self.own(chain)
        if name == SHARED:
            return self._granted(await self._made(chain.tenant, SHARED))
        if name in self._terms().teams:
            return self._granted(await self._made(chain.tenant, name))
        with memory_words():
            one = await self._book.find(name, tenant=chain.tenant)
        return None if one is None else self._granted(one)

    async def _made(
        self, tenant: TenantId, name: str, *, owner: PrincipalId | None = None
    ) -> Namespace:
        """Return a namespace of the house's own making, with the bound that the file says now."""
        bytes_max = self._bytes_max_of(name)
        with memory_words():
            found = await self._book.find(name, tenant=tenant, owner=owner)
            if found is None:
                now_ms = self._clock.now_ms()
                return await self._book.make(
                    name, tenant=tenant, owner=owner, bytes_max=bytes_max, now_ms=now_ms
                )
            if self._is_otherwise(found):
                return await self._book.limit(found.namespace, bytes_max, tenant=tenant)
            return found

    def _bytes_max_of(self, name: str) -> int | None:
        """Return the bound that the file says; None leaves the one that an administrator set."""
        terms = self._terms()
        team = terms.teams.get(name)
        return terms.namespace_bytes_max if team is None else team.bytes_max

    def _is_otherwise(self, one: Namespace) -> bool:
        said = self._bytes_max_of(one.name)
        return said is not None and said != one.bytes_max

    def _granted(self, one: Namespace) -> Namespace:
        """Return a namespace with the grants that nobody has to give it."""
        anyway = given_anyway(one, self._terms().teams)
        return replace(one, grants=(*one.grants, *anyway.of_house, *anyway.of_file))
