"""All upstreams together: started, merged into one catalogue, found by name, replaced."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count

import anyio
from anyio.abc import TaskGroup

from governor.ids import SessionId, ToolName, UpstreamName
from tool_gateway.catalog import ToolEntry
from tool_gateway.changes import Change, ChangeKind, Changes
from tool_gateway.exchange import NOBODY
from tool_gateway.guards.pins import Pins
from tool_gateway.ports import Backend
from tool_gateway.server_ports import ServerPlacement
from tool_gateway.stock import Stock
from tool_gateway.translate import entries_of
from tool_gateway.upstreams.attempts import Below, half_of
from tool_gateway.upstreams.connection import UpstreamConnection
from tool_gateway.upstreams.fetching import Fetcher
from tool_gateway.upstreams.oauth.credentials import Credentials, credentials_for
from tool_gateway.upstreams.relay import UpstreamRelay
from tool_gateway.upstreams.roster import Roster
from tool_gateway.upstreams.spec import HttpSpec, UpstreamSpec
from tool_gateway.upstreams.standing import UpstreamState

# What is not up by then is served without, and comes into the list when it is.
CONNECT_SECONDS_MAX = 5.0
# How long calls that run at an upstream that was replaced or removed may take to end.
DRAIN_SECONDS_MAX = 60.0


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One upstream of the fleet; cancelling `scope` closes its connections."""

    connection: UpstreamConnection
    relay: UpstreamRelay
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineup:
    """The upstreams that a configuration wants, each the one there is or a new one.

    What is `retuned` keeps its connection; `replaced` and `added` have new ones.
    """

    members: Mapping[UpstreamName, Member]
    retuned: Mapping[UpstreamName, UpstreamSpec]
    added: tuple[UpstreamName, ...]
    replaced: tuple[UpstreamName, ...]
    removed: tuple[UpstreamName, ...]


class UpstreamFleet:
    """Every configured upstream, each kept connected by a task of its own."""

    def __init__(
        self,
        specs: Iterable[UpstreamSpec],
        *,
        placement: ServerPlacement,
        stock: Stock,
        pins: Pins | None = None,
        changes: Changes | None = None,
        below: Below = half_of,
        is_frozen: Callable[[SessionId], bool] = lambda _: False,
    ) -> None:
        """Take what to connect to; nothing is started. With `pins` they say what is exposed.

        `below` draws a number from 0 up to its argument, for pauses between attempts.
        `is_frozen` tells whether a session with calls under way stands still.
        """
        self._is_frozen = is_frozen
        self._placement = placement
        self._below = below
        self._stock = stock
        self._pins = pins
        if pins is not None:
            pins.on_change = self._restock
        self._publish = (changes or Changes()).publish
        self._generations = count(1)
        self._tasks: TaskGroup | None = None
        self._entries: tuple[ToolEntry, ...] = ()
        self._parts: frozenset[tuple[UpstreamName, str]] = frozenset()
        self._members: Mapping[UpstreamName, Member] = {
            spec.name: self._made(spec, placed_as=spec.name) for spec in specs
        }
        self.relays = Roster(self._relays_of(self._members))

    @property
    def connections(self) -> tuple[UpstreamConnection, ...]:
        """Return the connection to each upstream, in the order of the configuration."""
        return tuple(member.connection for member in self._members.values())

    @property
    def backends(self) -> Mapping[UpstreamName, Backend]:
        """Return what runs the calls of nobody in particular."""
        return {name: relay.backend_for(NOBODY) for name, relay in self.relays.items()}

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Keep every upstream connected while the block runs.

        One that does not come up in time is left to its own retries: a dead upstream never
        takes the others with it.
        """
        self._restock()
        async with anyio.create_task_group() as self._tasks:
            await self._begun(self._members.values())
            try:
                yield
            finally:
                self._tasks.cancel_scope.cancel()

    async def lined_up(self, specs: Iterable[UpstreamSpec]) -> Lineup:
        """Return the upstreams that are wanted, the new ones connected as far as they are up.

        Nobody uses the new ones before `take`. A change that concerns no connection makes no
        new one.
        """
        wanted = {spec.name: spec for spec in specs}
        members: dict[UpstreamName, Member] = {}
        retuned: dict[UpstreamName, UpstreamSpec] = {}
        for name, spec in wanted.items():
            old = self._members.get(name)
            if old is None or not _is_same_server(old.relay.spec, spec):
                members[name] = self._succeeding(old, spec)
                continue
            members[name] = old
            if old.relay.spec != spec:
                retuned[name] = spec
        new = [name for name, member in members.items() if self._members.get(name) is not member]
        await self._begun(members[name] for name in new)
        return Lineup(
            members=members,
            retuned=retuned,
            added=tuple(name for name in new if name not in self._members),
            replaced=tuple(name for name in new if name in self._members),
            removed=tuple(name for name in self._members if name not in wanted),
        )

    def take(self, lineup: Lineup) -> None:
        """Have these upstreams from now on.

        Calls that run at others are let end for a while; then those are closed. Calls that are
        admitted and have not left go to whatever has taken the place of their upstream.
        """
        assert self._tasks is not None, "the fleet is connected"
        for name, spec in lineup.retuned.items():
            lineup.members[name].relay.retune(spec)
        before, self._members = self._members, lineup.members
        self.relays.swap(self._relays_of(lineup.members))
        for name in (*lineup.replaced, *lineup.removed):
            successor = lineup.members.get(name)
            before[name].relay.retire(None if successor is None else successor.relay)
            self._tasks.start_soon(_drained, before[name], name=f"upstream {name}, old")
        self._restock()

    def _made(self, spec: UpstreamSpec, *, placed_as: str, watching: Iterable[str] = ()) -> Member:
        connection = UpstreamConnection(
            spec,
            placement=self._placement,
            on_tools=self._restock,
            publish=self._publish,
            placed_as=placed_as,
            watching=watching,
            credentials=_credentials_of(spec),
        )
        relay = UpstreamRelay(
            connection,
            placement=self._placement,
            publish=self._publish,
            below=self._below,
            is_repeatable=self._is_repeatable,
            is_frozen=self._is_frozen,
        )
        return Member(connection, relay)

    def _succeeding(self, old: Member | None, spec: UpstreamSpec) -> Member:
        """Return a member for a new word of the operator's, beside the `old` one.

        Both may run at once, so each has domains of its own.
        """
        watching = () if old is None else old.connection.listener.watched
        placed_as = f"{spec.name}.r{next(self._generations)}"
        return self._made(spec, placed_as=placed_as, watching=watching)

    async def _begun(self, members: Iterable[Member]) -> None:
        """Begin to connect, and wait a moment for those that are up at once."""
        assert self._tasks is not None, "the fleet is connected"
        begun = tuple(members)
        for member in begun:
            self._tasks.start_soon(_kept, member, name=f"upstream {member.connection.name}")
        with anyio.move_on_after(CONNECT_SECONDS_MAX):
            for member in begun:
                await member.connection.settled()

    @staticmethod
    def _relays_of(members: Mapping[UpstreamName, Member]) -> dict[UpstreamName, UpstreamRelay]:
        return {name: member.relay for name, member in members.items()}

    def _restock(self) -> None:
        """Expose what is offered now, and say so if that is something else than before."""
        entries = tuple(
            entry for connection in self.connections for entry in self._exposed(connection)
        )
        if entries != self._entries:
            self._entries = entries
            self._stock.replace(entries)
            self._publish(Change(kind=ChangeKind.TOOLS))
        parts = self._exposed_parts()
        if parts != self._parts:
            self._parts = parts
            self._publish(Change(kind=ChangeKind.PROMPTS))

    def _exposed_parts(self) -> frozenset[tuple[UpstreamName, str]]:
        """Return which prompts, and whose words about themselves, clients may see."""
        pins = self._pins
        return frozenset(
            (connection.name, part)
            for connection in self.connections
            for part in connection.parts
            if pins is None or pins.exposes(connection.name, part)
        )

    def _exposed(self, connection: UpstreamConnection) -> Sequence[ToolEntry]:
        """Return the tools of an upstream that clients may see.

        One that is down is shown as it was when it was last seen, in an earlier life of this
        process too if that was approved: a call then says that it is down.
        """
        spec = connection.spec
        if spec.care.hidden_when_down and connection.state is UpstreamState.DOWN:
            return ()
        if self._pins is None:
            return connection.entries
        if connection.face is None:
            approved = self._pins.approved_of(spec.name)
            known = entries_of(spec.name, approved.values(), prefixed=spec.prefixed)
            return [replace(entry, is_approved=True) for entry in known]
        return self._pins.sift(spec.name, connection.entries, connection.parts)

    def _is_repeatable(self, tool: ToolName) -> bool:
        """Tell whether an exposed tool says, and was approved to say, that twice is once."""
        catalog = self._stock.catalog
        return tool in catalog and catalog.find(tool).is_repeatable


async def _kept(member: Member) -> None:
    """Keep one upstream connected until its scope is cancelled."""
    with member.scope:
        async with anyio.create_task_group() as tasks:
            member.relay.start_in(tasks)
            await member.connection.run()


async def _drained(member: Member) -> None:
    """Close an upstream when nobody uses it any more, or when that takes too long."""
    with anyio.move_on_after(DRAIN_SECONDS_MAX):
        await member.relay.unused()
    member.scope.cancel()


def _is_same_server(one: UpstreamSpec, other: UpstreamSpec) -> bool:
    """Tell whether a connection to the one serves for the other as well."""
    return type(one) is type(other) and other == replace(
        one, care=other.care, trust_reported_cost=other.trust_reported_cost
    )


def _credentials_of(spec: UpstreamSpec) -> Credentials | None:
    """Return the upstream's own credentials, which no other connection is given."""
    if not isinstance(spec, HttpSpec):
        return None
    return credentials_for(spec.auth, url=spec.url, reach=spec.reach, fetcher=Fetcher())
