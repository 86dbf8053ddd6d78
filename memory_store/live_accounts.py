"""The accounts that a transaction touches, as numbers in memory until they are stored.

They belong to the writer's thread and are kept from one transaction to the next. Where others
had a turn in between, the amounts are read again, into the same accounts, because holds
stand on them; whatever undoes a transaction makes them be forgotten.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

import psycopg
from sqlalchemy import bindparam, func, literal_column, select
from sqlalchemy.dialects.postgresql import insert

from governor.account import Account, Balance, BalanceKey, Booking
from governor.amounts import Unit
from governor.events import Ended
from governor.ids import BudgetId
from governor.reservation import ReservationLine
from memory_store.statement import Answers, Driver, Statement, Value
from memory_store.tables import balances

# About 500 bytes each: what many short sessions leave behind stays within some megabytes.
_KEPT_MAX = 32_768
# Read once: looking a member up in its enumeration costs more than comparing with it.
_SPEND, _SLOT, _RATE = Booking.SPEND, Booking.SLOT, Booking.RATE

_KEY = ("budget_id", "subject", "unit", "window_start_ms")
_AMOUNTS = (balances.c.settled, balances.c.reserved, balances.c.overrun)
_BY_KEY = Statement(
    select(balances.c.account_id, *(balances.c[name] for name in _KEY), *_AMOUNTS).where(
        *(balances.c[name] == bindparam(name) for name in _KEY)
    )
)
_BY_ID = Statement(
    select(balances.c.account_id, *(balances.c[name] for name in _KEY), *_AMOUNTS).where(
        balances.c.account_id == bindparam("account_id")
    )
)
_LAST_ID = Statement(select(func.max(balances.c.account_id)))
# PostgreSQL's own count of the accounts.
_NEXT_ID = Statement(select(func.nextval(literal_column("'balances_account_id_seq'"))))
_new = insert(balances)
_PUT = Statement(
    _new.on_conflict_do_update(
        index_elements=["account_id"],
        set_={name: _new.excluded[name] for name in ("settled", "reserved", "overrun")},
    )
)


class LiveAccount:
    """One row of the balances, as it will stand when the transaction is stored."""

    __slots__ = (
        "account_id", "as_of", "is_changed", "is_new", "key", "overrun", "reserved", "settled",
    )  # fmt: skip

    def __init__(
        self, account_id: int, key: BalanceKey, amounts: Sequence[int], *, is_new: bool = False
    ) -> None:
        self.account_id = account_id
        self.key = key
        self.settled, self.reserved, self.overrun = amounts
        self.is_new = is_new
        self.is_changed = False
        self.as_of = 0


class LiveAccounts:
    """Accounts by key and by number, and which of them have to be stored."""

    def __init__(self) -> None:
        self._by_key: dict[BalanceKey, LiveAccount] = {}
        self._by_id: dict[int, LiveAccount] = {}
        self._changed: list[LiveAccount] = []
        self._last_id: int | None = None
        self._as_of = 0
        self.last_stored: tuple[int, ...] = ()

    def forget(self) -> None:
        """Read everything again."""
        self._by_key.clear()
        self._by_id.clear()
        self._changed.clear()
        self._last_id = None

    def doubt(self) -> None:
        """Read every amount again, into the accounts that are there."""
        self._as_of += 1

    def trim(self) -> bool:
        """Forget everything where too much is kept, and tell; to be called between transactions.

        What refers to the accounts then has to be read again too: it would book to numbers
        that nobody else sees.
        """
        if len(self._by_key) <= _KEPT_MAX:
            return False
        self.forget()
        return True

    def get(self, driver: Driver, key: BalanceKey) -> LiveAccount:
        """Return the account of `key`; one that was never used stands at zero."""
        found = self._by_key.get(key)
        if found is not None and found.as_of == self._as_of:
            return found
        row = _BY_KEY.row(driver, dict(zip(_KEY, key, strict=True)))
        if row is None:
            return self._kept(LiveAccount(self._fresh_id(driver), key, (0, 0, 0), is_new=True))
        return self._kept_row(row)

    def numbered(self, driver: Driver, account_id: int) -> LiveAccount:
        """Return the account of that number, which is stored."""
        found = self._by_id.get(account_id)
        if found is not None and found.as_of == self._as_of:
            return found
        return self._kept_row(_BY_ID.row(driver, {"account_id": account_id}))

    def fetch_numbered(self, driver: Driver, account_ids: Iterable[int]) -> None:
        """Read the accounts of those numbers together."""
        missing = sorted({one for one in account_ids if not self._is_fresh(self._by_id.get(one))})
        if missing:
            self.keep(_BY_ID.rows_many(driver, [{"account_id": one} for one in missing]))

    def asked(self, driver: psycopg.Connection[Any], account_ids: Iterable[int]) -> Answers:
        """Ask for the accounts of those numbers, inside a pipeline; `keep` what is answered."""
        return _BY_ID.asked(driver, [{"account_id": one} for one in sorted(set(account_ids))])

    def keep(self, rows: Iterable[Any]) -> None:
        """Keep the accounts in `rows`."""
        for row in rows:
            self._kept_row(row)

    def fetch(self, driver: Driver, keys: Iterable[BalanceKey]) -> None:
        """Read the accounts of those keys together; what was never used is not there."""
        missing = sorted({one for one in keys if not self._is_fresh(self._by_key.get(one))})
        if missing:
            self.keep(
                _BY_KEY.rows_many(driver, [dict(zip(_KEY, one, strict=True)) for one in missing])
            )

    def refresh(self, driver: Driver, held_on: Iterable[LiveAccount]) -> None:
        """Read those accounts again that others may have changed."""
        as_of = self._as_of
        doubted = [account.account_id for account in held_on if account.as_of != as_of]
        if doubted:
            self.fetch_numbered(driver, doubted)

    def are_known(self, accounts: Iterable[LiveAccount]) -> bool:
        """Tell whether each of the accounts is stored, or was opened since the last doubt.

        One that was opened before and never stored may have been opened by others since.
        """
        as_of = self._as_of
        return all(account.as_of == as_of or not account.is_new for account in accounts)

    def balance(self, driver: Driver, account: Account) -> Balance:
        """Return how `account` stands, all parts of its window added up."""
        live = self.get(driver, account.key)
        if not account.older:
            return Balance(account, live.settled, live.reserved)
        parts = (*(self.get(driver, key) for key in account.older), live)
        return Balance.over(account, ((part.settled, part.reserved) for part in parts))

    def hold(
        self,
        live: Sequence[LiveAccount],
        described: Sequence[Account],
        held: Sequence[int],
        now_ms: int,
    ) -> None:
        """Hold each amount on the account beside it."""
        for account, description, amount in zip(live, described, held, strict=True):
            booking = description.posting[1]
            if booking is _SPEND or booking is _SLOT:
                account.reserved += amount
            elif booking is _RATE:
                rate = description.rate
                assert rate is not None, "a rate's account has a rate"
                account.settled = rate.after(account.settled, amount, now_ms)
            if not account.is_changed:
                self._touch(account)

    def end(self, live: Sequence[LiveAccount], ended: Ended, *, elapsed_ms: int) -> None:
        """Free what was held on each account for `elapsed_ms` and book what was charged."""
        figures = zip(live, ended.reservation.postings, ended.freed, ended.charged, strict=True)
        for account, posting, freed, charged in figures:
            if posting[1] is _RATE:
                account.settled = ReservationLine(posting, freed).rate_hold.corrected(
                    account.settled, charged=charged, elapsed_ms=elapsed_ms
                )
            else:
                account.reserved -= freed
                account.settled += charged
                if charged > freed:
                    account.overrun += charged - freed
            if not account.is_changed:
                self._touch(account)

    def give_back(self, account: LiveAccount, amount: int) -> None:
        """Free `amount` of what a sub-session's carve held."""
        account.reserved -= amount
        if not account.is_changed:
            self._touch(account)

    def flush(self, driver: Driver) -> None:
        """Store what changed."""
        if not self._changed:
            return
        _PUT.run_many(driver, [_row(account) for account in self._changed])
        self.last_stored = tuple([account.account_id for account in self._changed])
        for account in self._changed:
            account.is_changed = account.is_new = False
        self._changed.clear()

    def _touch(self, account: LiveAccount) -> None:
        account.is_changed = True
        self._changed.append(account)

    def _is_fresh(self, account: LiveAccount | None) -> bool:
        return account is not None and account.as_of == self._as_of

    def _kept_row(self, row: Any) -> LiveAccount:
        account_id, budget_id, subject, unit, start_ms, settled, reserved, overrun = row
        account = self._by_id.get(account_id)
        if account is None:
            key = BalanceKey(BudgetId(budget_id), subject, Unit(unit), start_ms)
            return self._kept(LiveAccount(account_id, key, (settled, reserved, overrun)))
        account.settled, account.reserved, account.overrun = settled, reserved, overrun
        account.as_of = self._as_of
        return account

    def _kept(self, account: LiveAccount) -> LiveAccount:
        account.as_of = self._as_of
        self._by_key[account.key] = account
        self._by_id[account.account_id] = account
        return account

    def _fresh_id(self, driver: Driver) -> int:
        if not isinstance(driver, sqlite3.Connection):
            # Other tenants' accounts may be opened by others at this moment.
            (fresh,) = _NEXT_ID.row(driver, {})
            return int(fresh)
        if self._last_id is None:
            (self._last_id,) = _LAST_ID.row(driver, {})
        self._last_id = (self._last_id or 0) + 1
        return self._last_id


def _row(account: LiveAccount) -> dict[str, Value]:
    budget_id, subject, unit, start_ms = account.key
    return {
        "account_id": account.account_id,
        "budget_id": budget_id,
        "subject": subject,
        "unit": unit.value,
        "window_start_ms": start_ms,
        "settled": account.settled,
        "reserved": account.reserved,
        "overrun": account.overrun,
    }
