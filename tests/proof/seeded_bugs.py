"""Bugs of the kind that ledgers have, as edits of the present code, and what must find each.

An edit whose old text is no longer there, or is there twice, is an error: a bug that was
not planted proves nothing.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Edit:
    """One replacement in one file."""

    file: str
    old: str
    new: str

    def plant(self, root: Path) -> None:
        path = root / self.file
        text = path.read_text(encoding="utf-8")
        found = text.count(self.old)
        assert found == 1, f"{self.file} has the old text {found} times: mend this bug's edit"
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


@dataclass(frozen=True, kw_only=True)
class SeededBug:
    """A bug, and the proof that has to fail on it.

    One that `is_rare` is met by some of hundreds of histories: looking for it takes the whole
    proof.
    """

    name: str
    edits: tuple[Edit, ...]
    found_by: str
    scale: float = 0.03
    is_rare: bool = False


_OVERSPEND = "tests/proof/test_overspend.py::test_not_one_unit_is_spent_above_any_budget[sqlite-64]"
_STAMPEDE = (
    "tests/contracts/test_ledger_contract.py"
    "::test_of_64_concurrent_calls_exactly_as_many_are_admitted_as_fit[sqlite]"
)
_BEYOND = (
    "tests/proof/test_overspend.py"
    "::test_what_is_spent_beyond_the_holds_is_recorded_to_the_unit[sqlite]"
)
_REPLICAS = "tests/proof/test_kills.py::test_replicas_that_are_killed_in_turn_lose_nothing"
_MODEL = "tests/proof/test_model.py::test_random_histories_agree_with_the_reference[sqlite]"
_FAILING = (
    "tests/proof/test_failing_operations.py"
    "::test_whatever_operation_fails_it_is_done_once_or_not_at_all[IOERR]"
)
_STORIES = "tests/proof/test_simulation.py::test_no_story_breaks_an_invariant"

BUGS = (
    SeededBug(
        name="ack_before_commit",
        edits=(
            Edit(
                file="memory_store/writer.py",
                old="        book.trim()\n",
                new=(
                    "        self._loop.call_soon_threadsafe(_acknowledge, batch)\n"
                    "        book.trim()\n"
                ),
            ),
        ),
        found_by=_FAILING,
    ),
    SeededBug(
        name="check_then_act",
        edits=(
            Edit(
                file="memory_store/live_accounts.py",
                old="        self._changed: list[LiveAccount] = []\n",
                new="        self._changed: list[LiveAccount] = []\n        self._later = []\n",
            ),
            Edit(
                file="memory_store/live_accounts.py",
                old="                account.reserved += amount\n",
                new="                self._later.append((account, amount))\n",
            ),
            Edit(
                file="memory_store/live_accounts.py",
                old='        """Store what changed."""\n',
                new=(
                    "        for account, amount in self._later:\n"
                    "            account.reserved += amount\n"
                    "        self._later.clear()\n"
                ),
            ),
        ),
        found_by=_STAMPEDE,
    ),
    SeededBug(
        name="double_settle",
        edits=(
            Edit(
                file="governor/reservation.py",
                old="TRANSITIONS: dict[tuple[ReservationState, ReservationEvent], "
                "ReservationState] = {\n",
                new="TRANSITIONS: dict[tuple[ReservationState, ReservationEvent], "
                "ReservationState] = {\n"
                "    (ReservationState.SETTLED, ReservationEvent.SETTLE): "
                "ReservationState.SETTLED,\n",
            ),
        ),
        found_by=_MODEL,
        scale=0.1,
    ),
    SeededBug(
        name="lost_expiry",
        edits=(
            Edit(
                file="memory_store/ledger.py",
                old="                table.ended_at_ms.is_(None),\n",
                new='                table.ended_at_ms.is_(None), table.state == "held",\n',
            ),
        ),
        found_by=_OVERSPEND,
        scale=0.12,
    ),
    SeededBug(
        name="float_money",
        edits=(
            Edit(
                file="governor/settlement.py",
                old="        spent = amount if unit is _TURNS else measured.get(unit, amount)\n",
                new=(
                    "        spent = amount if unit is _TURNS else measured.get(unit, amount)\n"
                    "        spent = int(spent * 0.000001 * 1_000_000)\n"
                ),
            ),
        ),
        found_by=_OVERSPEND,
        scale=0.12,
    ),
    SeededBug(
        name="no_idempotency",
        edits=(
            Edit(
                file="memory_store/bookkeeping.py",
                old="        if request.idempotency is not None:\n",
                new="        if request.idempotency is not None and self.breach:\n",
            ),
        ),
        found_by=_MODEL,
        scale=0.1,
    ),
    SeededBug(
        name="double_refund",
        edits=(
            Edit(
                file="governor/reservation.py",
                old="TRANSITIONS: dict[tuple[ReservationState, ReservationEvent], "
                "ReservationState] = {\n",
                new="TRANSITIONS: dict[tuple[ReservationState, ReservationEvent], "
                "ReservationState] = {\n"
                "    (ReservationState.RELEASED, ReservationEvent.RELEASE): "
                "ReservationState.RELEASED,\n",
            ),
        ),
        found_by=_MODEL,
        scale=0.1,
    ),
    SeededBug(
        name="wrong_order_of_locks",
        edits=(
            Edit(
                file="governor/budget.py",
                old="    return tuple(sorted(accounts, key=lambda account: account.key))\n",
                new="    return tuple(reversed(accounts))\n",
            ),
        ),
        found_by=_MODEL,
        scale=0.1,
    ),
    SeededBug(
        name="wrong_order_of_turns",
        edits=(
            Edit(
                file="memory_store/turns.py",
                old="    .order_by(turns_taken.c.tenant)\n",
                new=(
                    '    .order_by(literal_column("md5(turns_taken.tenant || pg_backend_pid())"))\n'
                ),
            ),
        ),
        found_by=_REPLICAS,
        # Two have to meet, each with what the other wants.
        scale=1.0,
        is_rare=True,
    ),
    SeededBug(
        name="deaf_to_other_replicas",
        edits=(
            Edit(
                file="memory_store/turns.py",
                old="            bookings=any(now[0] != seen[0] for now, seen in pairs),\n",
                new="            bookings=False,\n",
            ),
        ),
        found_by=_REPLICAS,
        scale=0.3,
    ),
    SeededBug(
        name="missed_ancestor",
        edits=(
            Edit(
                file="governor/scope.py",
                old="                return self.sessions[0]\n",
                new="                return self.session\n",
            ),
        ),
        found_by=_OVERSPEND,
        scale=0.12,
    ),
    SeededBug(
        name="unit_mixed_up",
        edits=(
            Edit(
                file="governor/settlement.py",
                old="measured.get(unit, amount)\n",
                new="measured.get(Unit.COST_MICROUSD, amount)\n",
            ),
        ),
        found_by=_OVERSPEND,
        scale=0.12,
    ),
    SeededBug(
        name="slot_kept",
        edits=(
            Edit(
                file="governor/budget.py",
                old="    BudgetKind.CONCURRENCY: Booking.SLOT,\n",
                new="    BudgetKind.CONCURRENCY: Booking.SPEND,\n",
            ),
        ),
        found_by=_MODEL,
        scale=1,
        is_rare=True,
    ),
    SeededBug(
        name="rate_not_corrected",
        edits=(
            Edit(
                file="governor/rate.py",
                old="arrival + max(moved, -left)",
                new="arrival + max(moved, 0)",
            ),
        ),
        found_by=_MODEL,
        scale=1,
        is_rare=True,
    ),
    SeededBug(
        name="rate_given_back_twice",
        edits=(
            Edit(
                file="governor/rate.py",
                old="arrival + max(moved, -left)",
                new="arrival + moved",
            ),
        ),
        found_by=_MODEL,
        scale=1,
        is_rare=True,
    ),
    SeededBug(
        name="oldest_part_dropped",
        edits=(
            Edit(
                file="governor/window.py",
                old="range(start_ms - self.length_ms, start_ms, part_ms)",
                new="range(start_ms - self.length_ms + part_ms, start_ms, part_ms)",
            ),
        ),
        found_by=_MODEL,
        scale=1,
        is_rare=True,
    ),
    SeededBug(
        name="overrun_forgotten",
        edits=(
            Edit(
                file="memory_store/live_accounts.py",
                old="                    account.overrun += charged - freed\n",
                new="                    account.overrun += 0\n",
            ),
        ),
        found_by=_BEYOND,
        scale=0.06,
    ),
    SeededBug(
        name="remembers_what_was_undone",
        edits=(
            Edit(
                file="memory_store/writer.py",
                old="            self._book.forget()\n            is_of_all",
                new="            is_of_all",
            ),
        ),
        found_by=_FAILING,
    ),
    SeededBug(
        name="refund_of_what_was_forwarded",
        edits=(
            Edit(
                file="governor/settlement.py",
                old="list(reservation.held) if was_forwarded else ",
                new="",
            ),
        ),
        found_by=_STORIES,
    ),
    SeededBug(
        name="leaves_before_the_mark",
        edits=(
            Edit(
                file="tool_gateway/admitted.py",
                old="        if reservation.state is ReservationState.FORWARDED:",
                new="        if reservation.state in ReservationState:",
            ),
            Edit(
                file="governor/admission.py",
                old="state=_FORWARDED if request.leaves_at_once else _HELD,",
                new="state=_HELD,",
            ),
        ),
        found_by=_STORIES,
    ),
    SeededBug(
        name="charge_of_what_was_stopped_before_it_leaves",
        edits=(
            Edit(
                file="tool_gateway/admitted.py",
                old="            await anyio.lowlevel.checkpoint_if_cancelled()\n",
                new="",
            ),
        ),
        found_by=_STORIES,
        scale=0.1,
    ),
)

# One for each proof shows with every run of the tests that it can fail; `make prove` plants all.
USUAL = tuple({bug.found_by: bug for bug in reversed(BUGS) if not bug.is_rare}.values())
