"""Clients who forget nothing, whatever becomes of the servers that they ask.

They outlast every server. What one acknowledged is noted; what it did not is asked again with
the same key, of whichever server there is, as a client of the sidecar would. The books are
held against the notes.
"""

import json
import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from proof.facts import Entry, Facts, Key, check
from proof.values import UNITS

from governor.amounts import Unit
from governor.scope import ScopeKind

TENANT, OTHER_TENANT = "acme", "bolt"
LEVELS = {"tenant": ScopeKind.TENANT, "agent": ScopeKind.AGENT, "session": ScopeKind.SESSION}
SHARE = {"tenant": 12, "agent": 4, "session": 1}
AGENTS, SESSIONS = 4, 24
TTL_MS = 3_000
# How long a client waits before it asks a server again that could not reach its database.
PAUSE_SECONDS = 0.02


def levels_of(tenant: str) -> tuple[str, ...]:
    """Return the budgets on the way from the tenant to a session."""
    return tuple(level if tenant == TENANT else f"{tenant}_{level}" for level in LEVELS)


def share_of(budget: str) -> int:
    return SHARE[budget.rpartition("_")[2]]


class ServerLostError(Exception):
    """The server was killed before it answered."""


@dataclass
class Link:
    """The connection to one server."""

    stream: SocketStream
    waiting: dict[int, tuple[anyio.Event, dict[str, Any]]] = field(default_factory=dict)
    acks: int = 0
    acks_wanted: int = 0
    enough: anyio.Event = field(default_factory=anyio.Event)
    lost: anyio.Event = field(default_factory=anyio.Event)

    def expect(self, acks: int) -> anyio.Event:
        """Return what is set once so many more answers came, or the server is gone."""
        self.acks_wanted = self.acks + acks
        if not self.lost.is_set():
            self.enough = anyio.Event()
        return self.enough

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.lost.is_set():
            raise ServerLostError
        number = request["id"] = len(self.waiting) + self.acks + 1
        while number in self.waiting:
            number = request["id"] = number + 1
        answered, answer = self.waiting[number] = (anyio.Event(), {})
        try:
            await self.stream.send(json.dumps(request).encode() + b"\n")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            raise ServerLostError from None
        await answered.wait()
        if not answer:
            raise ServerLostError
        return answer

    async def listen(self) -> None:
        """Hand out answers until the server is gone; then wake everybody."""
        lines = BufferedByteReceiveStream(self.stream)
        try:
            async with self.stream:
                while True:
                    said = json.loads(await lines.receive_until(b"\n", 1 << 20))
                    answered, answer = self.waiting.pop(said["id"])
                    answer.update(said)
                    answered.set()
                    self.acks += 1
                    if self.acks >= self.acks_wanted:
                        self.enough.set()
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.IncompleteRead, OSError):
            for answered, _ in self.waiting.values():
                answered.set()
            self.enough.set()
            self.lost.set()


@dataclass(kw_only=True)
class Known:
    """What a client was told of one reservation, and what the provider gave for it."""

    key: str
    held: dict[str, int]
    state: str
    asked_to_end: bool = False
    used: dict[str, int] | None = None


@dataclass(kw_only=True)
class Survivors:
    """The clients, their provider and everything that was ever acknowledged to them."""

    limits: dict[Unit, int]
    rng: random.Random
    tenants: tuple[str, ...] = (TENANT,)
    links: list[Link] = field(default_factory=list)
    asked: int = 0
    linked: anyio.Event = field(default_factory=anyio.Event)
    known: dict[str, Known] = field(default_factory=dict)
    spent: Counter[Key] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    now_ms: int = 10_000
    is_over: bool = False
    faults: list[str] = field(default_factory=list)

    def reach(self, link: Link) -> None:
        """Have one more server to ask."""
        self.links.append(link)
        self.linked.set()

    def _next_link(self) -> Link:
        """Return the servers in turn, so that whoever asks again asks another if there is one."""
        self.asked += 1
        return self.links[self.asked % len(self.links)]

    async def _ask(self, request: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """Return the answer, and whether it had to be asked again."""
        tries = 0
        while True:
            # Whoever waits is woken a little later, and the server may be gone again by then.
            while not self.links:
                await self.linked.wait()
            link = self._next_link()
            try:
                asked = {**request, "now_ms": self.now_ms, "attempt": tries}
                answer = await link.ask(asked)
            except ServerLostError:
                self._lose(link)
            else:
                if "unavailable" not in answer:
                    return answer, tries > 0
                self.counts["unavailable"] += 1
                await anyio.sleep(PAUSE_SECONDS)
            tries += 1
            self.counts["asked again"] += 1

    def _lose(self, link: Link) -> None:
        if link not in self.links:
            return  # whoever noticed first did this, and may wait for the next already
        self.links.remove(link)
        if not self.links:
            self.linked = anyio.Event()

    async def client(self, number: int) -> None:
        rng = random.Random(f"{self.rng.random()}/{number}")
        turn = 0
        while not self.is_over:
            turn += 1
            session = rng.randrange(SESSIONS)
            await self._call(rng, f"{number}_{turn}", session)

    async def _call(self, rng: random.Random, name: str, session: int) -> None:
        agent = session % AGENTS
        tenant = self.tenants[agent % len(self.tenants)]
        chain = [tenant, f"agent_{agent}", f"session_{session}"]
        held = {unit.value: rng.randint(1, 40) for unit in UNITS}
        self.now_ms += 1
        said, again = await self._admitted(name, chain, held)
        if "denied" in said:
            self.counts["denied"] += 1
            return
        reservation = said["reservation"]
        known = self.known.setdefault(reservation, Known(key=name, held=held, state=said["state"]))
        self.counts["granted"] += 1
        # What the first attempt stored is found again by its key.
        self.counts["replayed"] += again and said["is_replay"]
        if said["state"] not in ("held", "forwarded") or (fate := rng.random()) < 0.05:
            return
        place = {"reservation": reservation, "call": said["call"], "chain": chain}
        if fate < 0.12:
            known.asked_to_end = True
            answer, again = await self._ask({"op": "release", **place})
            self._ended(known, "released", answer)
            return
        answer, again = await self._ask({"op": "forward", **place})
        if "ended_before" in answer and not again:
            return  # the reaper was first: nothing may leave
        if "ended_before" not in answer:
            known.state = "forwarded"
        if fate < 0.17 or "ended_before" in answer:
            return
        known.used = {unit: rng.randint(0, amount) for unit, amount in held.items()}
        self._spend(chain, known.used)
        known.asked_to_end = True
        answer, again = await self._ask({"op": "settle", "used": known.used, **place})
        self._ended(known, "settled", answer)

    async def _admitted(
        self, name: str, chain: list[str], held: dict[str, int]
    ) -> tuple[dict[str, Any], bool]:
        request = {
            "op": "admit",
            "name": name,
            "chain": chain,
            "held": held,
            "ttl_ms": TTL_MS,
            "key": name,
        }
        return await self._ask(request)

    def _ended(self, known: Known, state: str, answer: dict[str, Any]) -> None:
        """Note an acknowledged end; one that was lost and asked again was done before."""
        if "ended_before" not in answer:
            known.state = state
            self.counts[state] += 1

    def _spend(self, chain: list[str], used: dict[str, int]) -> None:
        for budget, subject in zip(levels_of(chain[0]), chain, strict=True):
            for unit, amount in used.items():
                key = Key(budget, subject, unit, 0)
                self.spent[key] += amount
                if self.spent[key] > self.limits[Unit(unit)] * share_of(budget):
                    self.faults.append(f"{key}: the provider gave {self.spent[key]}")

    async def reap_once(
        self,
        link: Link,
        all_live: bool,  # noqa: FBT001 - started as a task
    ) -> None:
        """Expire what is overdue, or everything, as a sidecar does that starts anew."""
        try:
            said = await link.ask({"op": "expire", "all_live": all_live, "now_ms": self.now_ms})
        except ServerLostError:
            return
        expired = said.get("expired", [])
        self.counts["expired"] += len(expired)
        for name in expired:
            if name in self.known:
                self.known[name].state = "expired"

    def told(self) -> dict[str, str]:
        """Return what was acknowledged until now, by reservation."""
        return {name: known.state for name, known in self.known.items()}

    def check(self, facts: Facts, *, now_ms: int | None = None) -> None:
        """Assert what must hold of all books, at every level of every tenant."""
        for tenant in self.tenants:
            check(facts, levels=levels_of(tenant), now_ms=now_ms)

    def judge(self, facts: Facts, told: dict[str, str]) -> None:
        """Hold the books against what had been acknowledged when they were read."""
        self.check(facts)
        assert self.faults == []
        states = {hold.reservation_id: hold.state for hold in facts.holds}
        lost = [
            f"{name}: told {state}, stored {states.get(name)}"
            for name, state in told.items()
            if not _may_follow(self.known[name], state, states.get(name))
        ]
        assert not lost, "\n".join(lost[:10])
        self._judge_charges(facts, states, told)

    def _judge_charges(self, facts: Facts, states: dict[str, str], told: dict[str, str]) -> None:
        entries: dict[str, list[Entry]] = defaultdict(list)
        for entry in facts.entries or ():
            if entry.kind != "held":
                entries[entry.reservation_id].append(entry)
        by_key = Counter(self.known[name].key for name in told if states[name] == "settled")
        assert all(times == 1 for times in by_key.values()), "one key was charged twice"
        for name in told:
            known = self.known[name]
            for entry in entries[name]:
                wanted = _charge(known, entry.kind, was_forwarded=True)
                charged = {move.key.unit: move.charged for move in entry.moves}
                refunded = entry.kind == "expired" and not any(charged.values())
                assert charged == wanted or refunded, f"{name} was charged {charged}, not {wanted}"


def _may_follow(known: Known, told: str, stored: str | None) -> bool:
    """Tell whether what is stored can have come of what was acknowledged."""
    later = {
        "held": {"held", "forwarded", "expired", "settled", "released"},
        "forwarded": {"forwarded", "expired", "settled"},
    }
    if stored in ("settled", "released") and not known.asked_to_end:
        return False
    return stored in later.get(told, {told})


def _charge(known: Known, kind: str, *, was_forwarded: bool) -> dict[str, int]:
    if kind == "settled":
        assert known.used is not None
        return known.used
    if kind == "expired" and was_forwarded:
        return known.held
    return dict.fromkeys(known.held, 0)


def judge_the_end(survivors: Survivors, facts: Facts) -> None:
    """Assert that nothing is held any more, and that no more was charged than may be."""
    survivors.check(facts, now_ms=survivors.now_ms)
    assert not any(hold.is_live for hold in facts.holds)
    assert not any(standing.reserved for standing in facts.accounts.values())
    for key, spent in survivors.spent.items():
        limit = survivors.limits[Unit(key.unit)] * share_of(key.budget_id)
        assert spent <= facts.standing(key).settled <= limit
