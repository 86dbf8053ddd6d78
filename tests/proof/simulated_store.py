"""A ledger between the gateway and the real one that delays, loses, repeats nothing and lies.

It works off a queue as the writer does: what was accepted is done whether its caller still
waits or not, admissions excepted. Every fact that the ledger under it states is folded here
and held against the limits at once.
"""

import random
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
from proof.facts import Key, Standing
from proof.stores import Ledger

from governor.admission import AdmissionRequest
from governor.amounts import Unit
from governor.call import CallRecord, CallStatus
from governor.denial import Denied
from governor.errors import InvalidTransitionError
from governor.events import Ended, Expired, KeyReused, Released, Replayed, Reserved, Settled
from governor.ids import ArchiveId, CallId, ReservationId
from governor.scope import ScopeChain
from governor.usage import Usage
from memory_store.errors import UnknownReservationError
from tool_gateway.errors import HoldEndedError, LedgerOverloadedError, LedgerUnavailableError


@dataclass(kw_only=True)
class Faults:
    """How often, in thousandths, each thing goes wrong."""

    refused: int = 30
    overloaded: int = 15
    unsaid: int = 30
    slow: int = 40
    stalled: int = 5


@dataclass(eq=False)
class _Piece:
    act: Callable[[], Awaitable[Any]]
    may_be_dropped: bool
    done: anyio.Event = field(default_factory=anyio.Event)
    is_abandoned: bool = False
    result: Any = None
    error: Exception | None = None


@dataclass
class Witness:
    """Everything that the real ledger ever stated, over all lives of the process."""

    limits: Mapping[tuple[str, str], int]
    spans_ms: Mapping[str, int]
    fold: dict[Key, Standing] = field(default_factory=dict)
    live: dict[str, str] = field(default_factory=dict)
    ended: Counter[str] = field(default_factory=Counter)
    forwarded: set[str] = field(default_factory=set)
    settled: set[str] = field(default_factory=set)
    released: set[str] = field(default_factory=set)
    records: dict[CallId, CallRecord] = field(default_factory=dict)
    held_at_ms: dict[tuple[str, str], dict[str, tuple[int, int]]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    def reserved(self, reserved: Reserved, now_ms: int) -> None:
        reservation = reserved.reservation
        self.live[reservation.reservation_id] = reservation.call_id
        for line in reservation.lines:
            key = Key(*line.key)
            now = self.fold[key] = self.fold.get(key, Standing()).plus(0, line.amount)
            limit = self.limits[key.budget_id, key.unit]
            assert now.settled + now.reserved <= limit or not line.amount, (
                f"{key}: {now} of {limit}"
            )
            if key.budget_id in self.spans_ms:
                self._slide(key, reservation.reservation_id, now_ms, line.amount)

    def _slide(self, key: Key, name: str, now_ms: int, amount: int) -> None:
        """Hold what stands within one length of now against the limit, wherever it is booked."""
        uses = self.held_at_ms[key.budget_id, key.unit]
        uses[name] = (now_ms, amount)
        for ends_ms, _ in uses.values():
            length_ms = self.spans_ms[key.budget_id]
            within = sum(used for at, used in uses.values() if 0 <= ends_ms - at < length_ms)
            limit = self.limits[key.budget_id, key.unit]
            assert within <= limit or not amount, f"{key}: {within} of {limit} up to {ends_ms}"

    def end(self, ended: Ended, status: CallStatus = CallStatus.EXPIRED) -> None:
        reservation = ended.reservation
        name = reservation.reservation_id
        self.ended[name] += 1
        assert self.ended[name] == 1, f"{name} ended twice"
        call = self.live.pop(name)
        if isinstance(ended, Released):
            self.released.add(call)
        elif isinstance(ended, Settled):
            self.settled.add(call)
        # A client that leaves while its hold is being marked is charged the estimate, whether
        # the mark was stored or not; nobody else is charged for what never left.
        is_free = name not in self.forwarded and status is not CallStatus.CANCELLED
        for charge in ended.charges:
            key = Key(*charge.key)
            self.fold[key] = self.fold[key].plus(charge.charged, -charge.held, charge.overrun)
            if key.budget_id in self.spans_ms:
                uses = self.held_at_ms[key.budget_id, key.unit]
                # What goes above its hold is an overrun, here as anywhere.
                uses[name] = (uses[name][0], min(charge.charged, charge.held))
            is_due = key.unit == Unit.TURNS or not is_free
            assert is_due or not charge.charged, f"{name} never left and was charged {key}"
            limit = self.limits[key.budget_id, key.unit]
            assert self.fold[key].settled <= limit + self.fold[key].overrun, f"{key}: over"


class SimulatedLedger:
    """The gateway's ledger in one life of the process."""

    def __init__(self, inner: Ledger, witness: Witness, rng: random.Random, faults: Faults) -> None:
        self._inner = inner
        self._witness = witness
        self._rng = rng
        self._faults = faults
        self._queue: deque[_Piece] = deque()
        self._wake = anyio.Event()
        self._is_dead = False

    def die(self) -> None:
        """Lose what waits: the process is gone, and nobody of it can reach the store again."""
        self._is_dead = True
        self._queue.clear()

    async def serve(self) -> None:
        """Do what waits, one piece after the other, until cancelled."""
        while True:
            while not self._queue:
                self._wake = anyio.Event()
                await self._wake.wait()
            await anyio.sleep(self._latency())
            # A crash may have come meanwhile.
            if self._queue:
                await self._do(self._queue.popleft())

    def _latency(self) -> float:
        chance = self._rng.randrange(1000)
        if chance < self._faults.stalled:
            return self._rng.uniform(5, 30)
        if chance < self._faults.stalled + self._faults.slow:
            return self._rng.uniform(0.1, 3)
        return self._rng.uniform(0, 0.002)

    async def _do(self, piece: _Piece) -> None:
        chance = self._rng.randrange(1000)
        if piece.may_be_dropped and piece.is_abandoned:
            return
        if chance < self._faults.refused:
            piece.error = LedgerUnavailableError()
        else:
            try:
                piece.result = await piece.act()
            except (InvalidTransitionError, UnknownReservationError) as error:
                piece.error = HoldEndedError(str(error))
            if chance < self._faults.refused + self._faults.unsaid:
                # It was stored, and the word of it was lost.
                piece.error = LedgerUnavailableError()
        piece.done.set()

    async def _run(self, act: Callable[[], Awaitable[Any]], *, may_be_dropped: bool = False) -> Any:
        if self._is_dead:
            raise LedgerUnavailableError
        if self._rng.randrange(1000) < self._faults.overloaded:
            raise LedgerOverloadedError
        piece = _Piece(act, may_be_dropped)
        self._queue.append(piece)
        self._wake.set()
        try:
            await piece.done.wait()
        finally:
            piece.is_abandoned = True
        if piece.error is not None:
            raise piece.error
        return piece.result

    async def admit(self, request: AdmissionRequest) -> Reserved | Denied | Replayed | KeyReused:
        async def act() -> Reserved | Denied | Replayed | KeyReused:
            decision = await self._inner.admit(request)
            if isinstance(decision, Reserved):
                self._witness.reserved(decision, request.now_ms)
                if request.leaves_at_once:
                    self._witness.forwarded.add(request.reservation_id)
            return decision

        decision: Reserved | Denied | Replayed | KeyReused
        decision = await self._run(act, may_be_dropped=True)
        return decision

    async def forward(self, reservation_id: ReservationId) -> Denied | None:
        async def act() -> Denied | None:
            denied = await self._inner.forward(reservation_id)
            if denied is None:
                self._witness.forwarded.add(reservation_id)
            return denied

        denied: Denied | None = await self._run(act)
        return denied

    async def settle(
        self, reservation_id: ReservationId, usage: Usage, record: CallRecord
    ) -> Settled:
        async def act() -> Settled:
            settled = await self._inner.settle(reservation_id, usage, record)
            self._witness.end(settled, record.status)
            self._witness.records[record.call_id] = record
            return settled

        settled: Settled = await self._run(act)
        return settled

    async def release(self, reservation_id: ReservationId, record: CallRecord) -> Released:
        async def act() -> Released:
            released = await self._inner.release(reservation_id, record)
            self._witness.end(released)
            return released

        released: Released = await self._run(act)
        return released

    async def expire_due(self, *, now_ms: int, all_live: bool = False) -> None:
        async def act() -> tuple[Expired, ...]:
            expired = await self._inner.expire_due(now_ms=now_ms, all_live=all_live)
            for one in expired:
                self._witness.end(one)
            return expired

        await self._run(act)

    async def record(self, record: CallRecord) -> None:
        async def act() -> None:
            self._witness.records[record.call_id] = record

        await self._run(act)

    async def replay_of(self, call_id: CallId) -> ArchiveId | None:
        record = self._witness.records.get(call_id)
        return None if record is None else record.archive_id

    async def standing(self, chain: ScopeChain, *, now_ms: int) -> tuple[Mapping[str, object], ...]:
        return ()
