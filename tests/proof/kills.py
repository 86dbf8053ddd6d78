"""Clients of a ledger that is killed under them, again and again, and who forget nothing.

The clients live here and outlast every server. What a server acknowledged is noted; what
it did not is asked again with the same key, as a client of the sidecar would. After each
kill the books are opened and held against the notes.
"""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import SocketListener, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from proof.facts import Entry, Facts, Key, check
from proof.stores import SqliteFactory, Stage
from proof.values import UNITS, budget_of

from governor.amounts import Unit
from governor.scope import ScopeKind
from memory_store.engine import Durability

ROOT = Path(__file__).parents[2]
TENANT = "acme"
LEVELS = {"tenant": ScopeKind.TENANT, "agent": ScopeKind.AGENT, "session": ScopeKind.SESSION}
CLIENTS = 32
AGENTS, SESSIONS = 4, 24
TTL_MS = 3_000
ANSWER_SECONDS_MAX = 30.0
# What a server acknowledges before it may be killed, and how long after that at the most.
ACKS_MAX, DELAY_SECONDS_MAX = 300, 0.004


class ServerLostError(Exception):
    """The server was killed before it answered."""


@dataclass
class Servers:
    """The process that forks the servers; blocking, and each answer comes at once."""

    process: subprocess.Popen[str]

    def order(self, order: dict[str, Any]) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


@contextmanager
def servers() -> Iterator[Servers]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    with subprocess.Popen(
        [sys.executable, "-m", "proof.kill_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=ROOT,
    ) as process:
        try:
            yield Servers(process)
        finally:
            process.kill()


@dataclass
class Link:
    """The connection to the server of the moment."""

    stream: SocketStream
    waiting: dict[int, tuple[anyio.Event, dict[str, Any]]] = field(default_factory=dict)
    acks: int = 0
    acks_wanted: int = 0
    enough: anyio.Event = field(default_factory=anyio.Event)
    lost: anyio.Event = field(default_factory=anyio.Event)

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
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

    state_dir: Path
    limits: dict[Unit, int]
    rng: random.Random
    link: Link | None = None
    linked: anyio.Event = field(default_factory=anyio.Event)
    known: dict[str, Known] = field(default_factory=dict)
    spent: Counter[Key] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    now_ms: int = 10_000
    is_over: bool = False
    faults: list[str] = field(default_factory=list)

    async def _ask(self, request: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """Return the answer, and whether it had to be asked again."""
        tries = 0
        while True:
            await self.linked.wait()
            link = self.link
            assert link is not None
            try:
                asked = {**request, "now_ms": self.now_ms, "attempt": tries}
                return await link.ask(asked), tries > 0
            except ServerLostError:
                tries += 1
                self.counts["asked again"] += 1
                if self.link is link:
                    self.linked = anyio.Event()
                    self.link = None

    async def client(self, number: int) -> None:
        rng = random.Random(f"{self.rng.random()}/{number}")
        turn = 0
        while not self.is_over:
            turn += 1
            session = rng.randrange(SESSIONS)
            await self._call(rng, f"{number}_{turn}", session)

    async def _call(self, rng: random.Random, name: str, session: int) -> None:
        chain = [TENANT, f"agent_{session % AGENTS}", f"session_{session}"]
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
        for budget, subject in zip(LEVELS, chain, strict=True):
            for unit, amount in used.items():
                key = Key(budget, subject, unit, 0)
                self.spent[key] += amount
                if self.spent[key] > self.limits[Unit(unit)] * _SHARE[budget]:
                    self.faults.append(f"{key}: the provider gave {self.spent[key]}")

    async def reap_once(self, all_live: bool) -> None:  # noqa: FBT001 - started as a task
        """Expire what is overdue, or everything, as a sidecar does that starts anew."""
        link = self.link
        assert link is not None
        try:
            said = await link.ask({"op": "expire", "all_live": all_live, "now_ms": self.now_ms})
        except ServerLostError:
            return
        self.counts["expired"] += len(said["expired"])
        for name in said["expired"]:
            if name in self.known:
                self.known[name].state = "expired"

    def judge(self, facts: Facts) -> None:
        """Hold the books against what was acknowledged."""
        check(facts, levels=tuple(LEVELS))
        assert self.faults == []
        states = {hold.reservation_id: hold.state for hold in facts.holds}
        lost = [
            f"{name}: told {known.state}, stored {states.get(name)}"
            for name, known in self.known.items()
            if not _may_follow(known, states.get(name))
        ]
        assert not lost, "\n".join(lost[:10])
        self._judge_charges(facts, states)

    def _judge_charges(self, facts: Facts, states: dict[str, str]) -> None:
        entries: dict[str, list[Entry]] = defaultdict(list)
        for entry in facts.entries or ():
            if entry.kind != "held":
                entries[entry.reservation_id].append(entry)
        by_key = Counter(
            known.key for name, known in self.known.items() if states[name] == "settled"
        )
        assert all(times == 1 for times in by_key.values()), "one key was charged twice"
        for name, known in self.known.items():
            for entry in entries[name]:
                wanted = _charge(known, entry.kind, was_forwarded=True)
                charged = {move.key.unit: move.charged for move in entry.moves}
                refunded = entry.kind == "expired" and not any(charged.values())
                assert charged == wanted or refunded, f"{name} was charged {charged}, not {wanted}"


_SHARE = {"tenant": 12, "agent": 4, "session": 1}


def _may_follow(known: Known, stored: str | None) -> bool:
    """Tell whether what is stored can have come of what was acknowledged."""
    later = {
        "held": {"held", "forwarded", "expired", "settled", "released"},
        "forwarded": {"forwarded", "expired", "settled"},
    }
    if stored in ("settled", "released") and not known.asked_to_end:
        return False
    return stored in later.get(known.state, {known.state})


def _charge(known: Known, kind: str, *, was_forwarded: bool) -> dict[str, int]:
    if kind == "settled":
        assert known.used is not None
        return known.used
    if kind == "expired" and was_forwarded:
        return known.held
    return dict.fromkeys(known.held, 0)


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """How often to kill, at which named points, and how long one state directory lasts."""

    kills: int
    seed: int
    points: tuple[str, ...] = ()
    durability: Durability = Durability.POWER
    kills_per_directory: int = 25


async def kill_again_and_again(campaign: Campaign, folder: Path) -> Counter[str]:
    """Return what happened, once every kill was survived."""
    totals: Counter[str] = Counter()
    rng = random.Random(campaign.seed)
    with servers() as forks:
        done = 0
        while done < campaign.kills:
            part = min(campaign.kills_per_directory, campaign.kills - done)
            where = folder / f"after_{done}"
            where.mkdir()
            totals += await _one_directory(forks, campaign, where, rng, range(done, done + part))
            done += part
    return totals


async def _one_directory(
    forks: Servers, campaign: Campaign, folder: Path, rng: random.Random, kills: Iterable[int]
) -> Counter[str]:
    factory = SqliteFactory(durability=campaign.durability)
    survivors = Survivors(
        state_dir=folder / "state",
        limits=dict.fromkeys(UNITS, rng.choice([600, 3_000, 60_000])),
        rng=rng,
    )
    async with factory.open(folder) as stage:
        await _set_up(stage, survivors.limits)
    with anyio.fail_after(600):
        async with (
            await anyio.create_unix_listener(folder / "socket") as listener,
            anyio.create_task_group() as group,
        ):
            for number in range(CLIENTS):
                group.start_soon(survivors.client, number)
            for kill in kills:
                await _one_life(
                    forks, campaign, survivors, listener=listener, folder=folder, kill=kill
                )
                async with factory.open(folder) as stage:
                    survivors.judge(await stage.facts())
            group.cancel_scope.cancel()
    await _last_rites(factory, survivors, folder)
    return survivors.counts


async def _one_life(
    forks: Servers,
    campaign: Campaign,
    survivors: Survivors,
    *,
    listener: SocketListener,
    folder: Path,
    kill: int,
) -> None:
    """Start a server, let the clients at it, and see it killed."""
    rng = survivors.rng
    # Every second server dies at a named point, the others wherever they happen to be.
    point = (
        campaign.points[kill // 2 % len(campaign.points)] if kill % 2 and campaign.points else ""
    )
    pid = forks.order(
        {
            "start": {
                "state": str(folder / "state"),
                "socket": str(folder / "socket"),
                "durability": campaign.durability.value,
                "point": point,
                "nth": rng.randint(1, 20),
            }
        }
    )
    with anyio.fail_after(ANSWER_SECONDS_MAX):
        link = Link(await listener.accept(), acks_wanted=rng.randint(1, ACKS_MAX))
    async with link.stream, anyio.create_task_group() as group:
        group.start_soon(link.listen)
        survivors.link = link
        survivors.linked.set()
        if rng.random() < 0.7:
            group.start_soon(survivors.reap_once, rng.random() < 0.5)
        with anyio.fail_after(ANSWER_SECONDS_MAX):
            if point:
                await link.lost.wait()
                survivors.counts[f"killed at {point}"] += 1
            else:
                await link.enough.wait()
                await anyio.sleep(rng.uniform(0, DELAY_SECONDS_MAX))
                os.kill(pid, signal.SIGKILL)
                await link.lost.wait()
                survivors.counts["killed anywhere"] += 1
    assert forks.order({"wait": pid}) == -signal.SIGKILL


async def _set_up(stage: Stage, limits: dict[Unit, int]) -> None:
    for name, scope in LEVELS.items():
        share = {unit: limit * _SHARE[name] for unit, limit in limits.items()}
        await stage.put_budget(budget_of(name, TENANT, scope, share))


async def _last_rites(factory: SqliteFactory, survivors: Survivors, folder: Path) -> None:
    """Expire what is left, as the next start would; nothing may stay held."""
    async with factory.open(folder) as stage:
        await stage.ledger.expire_due(now_ms=survivors.now_ms, all_live=True)
        facts = await stage.facts()
        check(facts, levels=tuple(LEVELS), now_ms=survivors.now_ms)
        assert not any(hold.is_live for hold in facts.holds)
        assert not any(standing.reserved for standing in facts.accounts.values())
        for key, spent in survivors.spent.items():
            assert (
                spent
                <= facts.standing(key).settled
                <= survivors.limits[Unit(key.unit)] * (_SHARE[key.budget_id])
            )
