"""What a ledger must answer, said once more in the plainest way: sums over lists.

It shares no line with the governor: no balance is ever kept, every question adds up the
holds and charges of all calls again. It is slow and obvious on purpose.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

# How far a clock may step back before admissions are refused.
BACK_MS_MAX = 5_000

Account = tuple[str, str, str, int]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One budget: a level of the chain (0 tenant, 1 agent, 2 session) and its limits."""

    level: int
    limits: Mapping[str, int]
    window_ms: int | None


@dataclass(kw_only=True)
class Call:
    """One admitted call and everything that became of it."""

    reservation_id: str
    agent: str
    session: str
    holds: dict[Account, int]
    expires_at_ms: int
    turn: str | None
    opens_turn: bool
    key: tuple[str, str] | None
    state: str = "held"
    charges: dict[Account, int] = field(default_factory=dict)

    @property
    def is_live(self) -> bool:
        return self.state in ("held", "forwarded")


@dataclass
class Reference:
    """One tenant's ledger."""

    tenant: str
    rules: dict[str, Rule] = field(default_factory=dict)
    calls: dict[str, Call] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)

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
        holds = {}
        short = False
        for account, limit in self._accounts(agent, session, now_ms):
            unit = account[2]
            if unit == "turns" and turn is None:
                return ("denied", "turn_unknown")
            holds[account] = wanted.get(unit, 0)
            settled, reserved, _ = self.standing(account)
            short = short or (unit in wanted and settled + reserved + holds[account] > limit)
        if short:
            return ("denied", "budget_exhausted")
        self.calls[reservation_id] = Call(
            reservation_id=reservation_id,
            agent=agent,
            session=session,
            holds=holds,
            expires_at_ms=expires_at_ms,
            turn=turn,
            opens_turn=opens,
            key=key,
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
        call.state = "forwarded"
        return ("forwarded",)

    def settle(self, reservation_id: str, used: Mapping[str, int]) -> tuple[object, ...]:
        call = self.calls[reservation_id]
        charges = {
            account: held if account[2] == "turns" else used.get(account[2], held)
            for account, held in call.holds.items()
        }
        return self._end(call, "settled", charges)

    def release(self, reservation_id: str) -> tuple[object, ...]:
        call = self.calls[reservation_id]
        charges = {
            account: held if account[2] == "turns" else 0 for account, held in call.holds.items()
        }
        ended = self._end(call, "released", charges)
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
            self._end(call, "expired", {one: held * left for one, held in call.holds.items()})
            if not left:
                call.key = None
                call.opens_turn = False
        return {call.reservation_id for call in due}

    def _end(self, call: Call, state: str, charges: dict[Account, int]) -> tuple[object, ...]:
        if not call.is_live:
            return ("raised", "InvalidTransitionError")
        call.state, call.charges = state, charges
        return (state, charges)

    def _accounts(self, agent: str, session: str, now_ms: int) -> list[tuple[Account, int]]:
        subjects = (self.tenant, agent, session)
        return [
            ((name, subjects[rule.level], unit, _start(rule.window_ms, now_ms)), limit)
            for name, rule in self.rules.items()
            for unit, limit in rule.limits.items()
        ]


def _start(window_ms: int | None, now_ms: int) -> int:
    return 0 if window_ms is None else now_ms // window_ms * window_ms
