"""What a ledger must answer, said once more in the plainest way: sums over lists.

It shares no line with the governor: no balance is ever kept, every question adds up the
holds and charges of all calls again; only of a rate it is kept when its bucket is full. It is
slow and obvious on purpose.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from proof.reference_rules import Bucket, Kind, Rule, Taken

# How far a clock may step back before admissions are refused.
BACK_MS_MAX = 5_000

Account = tuple[str, str, str, int]

_REASONS = {
    Kind.ALLOWANCE: "budget_exhausted",
    Kind.RATE: "rate_exhausted",
    Kind.SLOTS: "concurrency_exhausted",
}


@dataclass(kw_only=True)
class Call:
    """One admitted call and everything that became of it."""

    reservation_id: str
    agent: str
    session: str
    holds: dict[Account, int]
    slots: set[Account]
    taken: dict[Account, Taken]
    created_at_ms: int
    expires_at_ms: int
    turn: str | None
    opens_turn: bool
    key: tuple[str, str] | None
    state: str = "held"
    charges: dict[Account, int] = field(default_factory=dict)

    @property
    def is_live(self) -> bool:
        return self.state in ("held", "forwarded")

    def charge(self, account: Account, used: int) -> int:
        """Return what is charged where `used` was used: a slot is only ever given back."""
        return 0 if account in self.slots else used


@dataclass
class Reference:
    """One tenant's ledger."""

    tenant: str
    rules: dict[str, Rule] = field(default_factory=dict)
    calls: dict[str, Call] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    buckets: dict[Account, Bucket] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)

    def put(self, name: str, rule: Rule) -> None:
        if name in self.rules:
            self.changed.add(name)
        self.rules[name] = rule

    def passed_too_fast(self) -> list[str]:
        """Return where more passed in some time than a budget that never changed lets pass."""
        uses: dict[tuple[str, str, str], list[tuple[int, int]]] = defaultdict(list)
        for call in self.calls.values():
            for account, held in call.holds.items():
                used = held if call.is_live else min(held, call.charges[account])
                uses[account[:3]].append((call.created_at_ms, used))
        return [
            f"{name} of {subject}: {unit} {most}"
            for (name, subject, unit), amounts in uses.items()
            if name not in self.changed
            and (rule := self.rules[name]).has_pace
            and (most := rule.most_in_a_span(unit, amounts)) > rule.most_at_once(unit)
        ]

    def shown(self, name: str, subject: str, unit: str, now_ms: int) -> tuple[int, int, int]:
        """Return how one budget stands for one subject."""
        rule = self.rules[name]
        if rule.kind is Kind.RATE:
            bucket = self.buckets.get((name, subject, unit, rule.start_ms(unit, now_ms)), Bucket())
            return bucket.used(rule.ms_per_unit(unit), now_ms), 0, 0
        return self._counted(rule, (name, subject, unit, rule.start_ms(unit, now_ms)), now_ms)

    def standing(self, account: Account) -> tuple[int, int, int]:
        """Return what is charged, held and overrun on an account."""
        settled = reserved = overrun = 0
        for call in self.calls.values():
            if account in call.holds:
                if call.is_live:
                    reserved += call.holds[account]
                else:
                    settled += call.charges[account]
                    overrun += max(0, call.charges[account] - call.holds[account])
        return settled, reserved, overrun

    def _counted(self, rule: Rule, account: Account, now_ms: int) -> tuple[int, int, int]:
        """Return the standing of every part of the window that still counts."""
        if rule.parts is None:
            return self.standing(account)
        booked = {one for call in self.calls.values() for one in call.holds}
        parts = [
            self.standing(one)
            for one in booked
            if one[:3] == account[:3] and rule.counts(one[3], now_ms)
        ]
        settled, reserved, overrun = (sum(part[of] for part in parts) for of in range(3))
        return settled, reserved, overrun

    def admit(
        self,
        reservation_id: str,
        *,
        agent: str,
        session: str,
        wanted: Mapping[str, int],
        turn: str | None,
        key: tuple[str, str] | None,
        now_ms: int,
        latest_ms: int,
        expires_at_ms: int,
        leaves_at_once: bool,
    ) -> tuple[object, ...]:
        """Return ("reserved", holds), ("denied", reason), ("replayed" | "reused", id)."""
        if latest_ms - now_ms > BACK_MS_MAX:
            return ("denied", "clock_stepped_back")
        answer = self._known(agent, session, key)
        if answer is not None:
            return answer
        opens = turn is not None and not any(
            (call.session, call.turn) == (session, turn) and call.opens_turn
            for call in self.calls.values()
        )
        wanted = {**wanted, **({"turns": 1} if opens else {})}
        holds, short, slots, taken = {}, [], set(), {}
        for account, rule in self._accounts(agent, session, now_ms):
            name, _, unit, _ = account
            if unit == "turns" and turn is None:
                return ("denied", "turn_unknown")
            is_slot = rule.kind is Kind.SLOTS
            holds[account] = 1 if is_slot else wanted.get(unit, 0)
            if is_slot:
                slots.add(account)
            if rule.kind is Kind.RATE:
                taken[account] = Taken(holds[account], rule.ms_per_unit(unit), now_ms)
            if (is_slot or unit in wanted) and not self._affords(account, holds[account], now_ms):
                short.append((-rule.level, name, account, rule.kind))
        if short:
            # Who is denied by several is told of the narrowest.
            return ("denied", _REASONS[min(short)[3]])
        for account, amount in taken.items():
            self.buckets.setdefault(account, Bucket()).take(amount)
        self.calls[reservation_id] = Call(
            reservation_id=reservation_id,
            agent=agent,
            session=session,
            holds=holds,
            slots=slots,
            taken=taken,
            created_at_ms=now_ms,
            expires_at_ms=expires_at_ms,
            turn=turn,
            opens_turn=opens,
            key=key,
            state="forwarded" if leaves_at_once else "held",
        )
        return ("reserved", holds)

    def _known(
        self, agent: str, session: str, key: tuple[str, str] | None
    ) -> tuple[object, ...] | None:
        if self.owners.setdefault(session, agent) != agent:
            return ("raised", "SessionOwnerError")
        for call in self.calls.values() if key is not None else ():
            if call.agent == agent and call.key is not None and call.key[0] == key[0]:
                return ("replayed" if call.key == key else "reused", call.reservation_id)
        return ("denied", "session_closed") if session in self.closed else None

    def forward(self, reservation_id: str) -> tuple[object, ...]:
        call = self.calls[reservation_id]
        if call.state != "held":
            return ("raised", "InvalidTransitionError")
        if call.session in self.closed:
            return ("denied", "session_closed")
        call.state = "forwarded"
        return ("forwarded",)

    def settle(
        self, reservation_id: str, used: Mapping[str, int], *, now_ms: int
    ) -> tuple[object, ...]:
        call = self.calls[reservation_id]
        charges = {
            account: held if account[2] == "turns" else used.get(account[2], held)
            for account, held in call.holds.items()
        }
        return self._end(call, "settled", charges, now_ms)

    def release(self, reservation_id: str, *, now_ms: int) -> tuple[object, ...]:
        call = self.calls[reservation_id]
        charges = {
            account: held if account[2] == "turns" else 0 for account, held in call.holds.items()
        }
        ended = self._end(call, "released", charges, now_ms)
        if ended[0] == "released":
            call.key = None
        return ended

    def expire(self, now_ms: int, *, all_live: bool) -> set[str]:
        """Return which reservations ended."""
        due = [
            call
            for call in self.calls.values()
            if call.is_live and (all_live or call.expires_at_ms <= now_ms)
        ]
        for call in due:
            left = call.state == "forwarded"
            charges = {
                one: held if left or one[2] == "turns" else 0 for one, held in call.holds.items()
            }
            self._end(call, "expired", charges, now_ms)
            if not left:
                call.key = None
        return {call.reservation_id for call in due}

    def _end(
        self, call: Call, state: str, used: dict[Account, int], now_ms: int
    ) -> tuple[object, ...]:
        if not call.is_live:
            return ("raised", "InvalidTransitionError")
        call.state = state
        call.charges = {account: call.charge(account, amount) for account, amount in used.items()}
        for account, taken in call.taken.items():
            self.buckets[account].correct(taken, call.charges[account], now_ms)
        return (state, call.charges)

    def _affords(self, account: Account, amount: int, now_ms: int) -> bool:
        name, _, unit, _ = account
        rule = self.rules[name]
        if rule.kind is Kind.RATE:
            bucket = self.buckets.get(account, Bucket())
            return bucket.has(amount, rule.ms_per_unit(unit), rule.most_at_once(unit), now_ms)
        settled, reserved, _ = self._counted(rule, account, now_ms)
        return settled + reserved + amount <= rule.limits[unit]

    def _accounts(self, agent: str, session: str, now_ms: int) -> Iterator[tuple[Account, Rule]]:
        subjects = (self.tenant, agent, session)
        for name, rule in self.rules.items():
            for unit in rule.limits:
                yield (name, subjects[rule.level], unit, rule.start_ms(unit, now_ms)), rule
