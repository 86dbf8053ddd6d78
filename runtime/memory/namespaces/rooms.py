"""The namespaces that are open to a caller: what it may do there, and how much room is left."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from governor.experience.namespace import Namespace, Right
from governor.ids import NamespaceId
from governor.scope import ScopeChain
from memory_store.experiences.namespaces import LISTED_MAX, NamespaceBook
from runtime.configuration.memory import MemoryTerms
from runtime.memory.words import memory_words


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """A namespace that somebody may use; no `bytes_left` where nothing bounds it.

    What the tenant has left counts where that is less.
    """

    name: str
    rights: tuple[Right, ...]
    items: int
    bytes_used: int
    bytes_max: int | None
    bytes_left: int | None


def rights_in(one: Namespace, chain: ScopeChain) -> tuple[Right, ...]:
    """Return what a caller may do in a namespace: nothing, or read it, or write there, or both."""
    return tuple(
        right
        for right in (Right.READ, Right.WRITE)
        if one.permits(chain.agent, right, tenant=chain.tenant)
    )


async def rooms_of(
    book: NamespaceBook,
    terms: MemoryTerms,
    chain: ScopeChain,
    *,
    known: Sequence[Namespace],
    after: str,
) -> tuple[tuple[Room, ...], str | None]:
    """Return the namespaces that are open to a caller, and where to go on if there may be more.

    `known` are those that the house or its file opens, with what they give; they come first. Of
    those that were granted there is a page.
    """
    tenant = chain.tenant
    with memory_words():
        granted = await book.granted_to(chain.agent, tenant=tenant, after=after)
        usage = await book.usage(tenant=tenant)
    first = known if not after else ()
    found = [*first, *_others(granted, {one.namespace for one in known})]
    used = sum(one.content_bytes for one in usage)
    # Gone through once: a tenant has a namespace for each of its agents, and this is for nothing.
    wanted = {one.namespace for one in found}
    items, sizes = Counter[NamespaceId](), Counter[NamespaceId]()
    for held in usage:
        if held.namespace in wanted:
            items[held.namespace] += held.items
            sizes[held.namespace] += held.content_bytes
    rooms = []
    for one in found:
        rights = rights_in(one, chain)
        bytes_used = sizes[one.namespace]
        bounds = [max(0, terms.tenant_bytes_max - used)]
        if one.bytes_max is not None:
            bounds.append(max(0, one.bytes_max - bytes_used))
        room = Room(
            name=one.name,
            rights=rights,
            items=items[one.namespace],
            bytes_used=bytes_used,
            bytes_max=one.bytes_max,
            bytes_left=min(bounds) if Right.WRITE in rights else None,
        )
        if rights:
            rooms.append(room)
    following = granted[-1].namespace if len(granted) == LISTED_MAX else None
    return tuple(rooms), following


def room_json(room: Room) -> dict[str, object]:
    """Return a room in its public JSON."""
    return {
        "name": room.name,
        "rights": [right.value for right in room.rights],
        "items": room.items,
        "bytes": room.bytes_used,
        "bytes_max": room.bytes_max,
        "bytes_left": room.bytes_left,
    }


def _others(granted: Sequence[Namespace], known: Collection[str]) -> list[Namespace]:
    """Return those that are not known yet; another agent's own has no name to be asked for by."""
    return [one for one in granted if one.namespace not in known and one.owner is None]
