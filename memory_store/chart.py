"""The accounts that calls of one kind stand on: what of a hold is the same for all of them."""

from collections.abc import Sequence
from functools import cached_property
from itertools import chain

from governor.account import Account, Booking, Posting
from governor.ids import SessionId
from governor.target import CallTarget
from memory_store import line_text
from memory_store.live_accounts import LiveAccount, LiveAccounts
from memory_store.statement import Driver

_CHARTS_MAX = 10_000


class Chart:
    """Accounts in the order of a hold's lines, how they are described, and the lines' text.

    After a restart nobody knows how the accounts of a hold were described: `described` is
    empty then. A chart belongs to the writer's thread, as its accounts do.
    """

    def __init__(
        self,
        accounts: Sequence[LiveAccount],
        postings: Sequence[Posting],
        described: Sequence[Account] = (),
    ) -> None:
        self.accounts = tuple(accounts)
        self.postings = tuple(postings)
        self.described = tuple(described)  # the same one, where it is a tuple
        # By place: what comes out of a carve, with the depth of its session.
        self.draws = tuple(
            [
                (place, posting.covered_at)
                for place, posting in enumerate(postings)
                if posting.booking is Booking.DRAW
            ]
        )
        self.watched = tuple([place for place, account in enumerate(described) if account.warn_at])

    def held_text(self, held: tuple[int, ...]) -> str:
        """Return the lines of a hold."""
        return self._held_form % held

    def ended_text(self, freed: Sequence[int], charged: Sequence[int]) -> str:
        """Return the charges that end a hold."""
        return self._ended_form % tuple(chain.from_iterable(zip(freed, charged, strict=True)))

    @cached_property
    def _held_form(self) -> str:
        return line_text.form_of(self._numbers, self.postings, figures=1)

    @cached_property
    def _ended_form(self) -> str:
        return line_text.form_of(self._numbers, self.postings, figures=2)

    @property
    def _numbers(self) -> list[int]:
        return [account.account_id for account in self.accounts]


class Charts:
    """The charts of those kinds of calls that were met, by their session and target."""

    def __init__(self) -> None:
        self._by_place: dict[tuple[SessionId, CallTarget], Chart] = {}

    def forget(self) -> None:
        """Draw every chart anew."""
        self._by_place.clear()

    def at(
        self,
        place: tuple[SessionId, CallTarget],
        described: tuple[Account, ...],
        accounts: LiveAccounts,
        driver: Driver,
    ) -> Chart:
        """Return the chart of the accounts that are `described`, each as it stands now."""
        chart = self._by_place.get(place)
        # Whatever changes the accounts of a place makes their description anew.
        if (
            chart is not None
            and chart.described is described
            and accounts.are_known(chart.accounts)
        ):
            accounts.refresh(driver, chart.accounts)
            return chart
        if len(self._by_place) >= _CHARTS_MAX:
            self._by_place.clear()
        chart = self._by_place[place] = drawn(described, accounts, driver)
        return chart


def drawn(described: Sequence[Account], accounts: LiveAccounts, driver: Driver) -> Chart:
    """Return a chart of the accounts that are `described`."""
    return Chart(
        [accounts.get(driver, account.key) for account in described],
        [account.posting for account in described],
        described,
    )
