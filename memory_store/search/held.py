"""A namespace held in memory to be searched, and kept as the log of its tenant says it is."""

import threading

from governor.retrieval.shelf import Shelf
from governor.retrieval.sketches import Sketches
from memory_store.search import rows
from memory_store.search.columns import NOWHERE, Columns
from memory_store.search.rows import Place, Whole
from memory_store.search.spread import SAMPLED, Spread, spread_of
from memory_store.statement import Driver

# Up to so many every word and every vector is held; beyond, a bit for each axis.
SHELVED_MAX = 50_000
_CHANGES_AT_ONCE = 5_000
# What so much more was changed around than it holds itself is read anew: that is quicker.
_BEHIND_MAX = 20_000
# Places of what is gone are not used again; when they are so many, all is read anew.
_GONE_SHARE_MAX = 0.5
# What has grown so much since its words were sampled is sampled anew.
_GROWN = 2


class OutOfStepError(Exception):
    """What is held cannot be brought up to date and has to be read anew."""


class Held:
    """What is held of one namespace; who uses it has its `lock`."""

    def __init__(self, place: Place, *, axes: int, shelved_max: int = SHELVED_MAX) -> None:
        """Take which one, and how many axes vectors have, 0 without any."""
        self.place = place
        self.axes = axes
        self.lock = threading.Lock()
        self.columns = Columns()
        self.shelf: Shelf | None = None
        self.sketches: Sketches | None = None
        self.spread = Spread()
        self.size_bytes = 0
        self._shelved_max = shelved_max
        self._upto: int | None = None
        self._gone = 0
        self._sampled_of = 0

    def bring_up(self, driver: Driver) -> None:
        """Hold what the database holds as of this transaction, or something later."""
        if self._upto is not None:
            try:
                self._follow(driver)
            except OutOfStepError:
                self._upto = None
        if self._upto is None:
            self._load(driver)

    def _load(self, driver: Driver) -> None:
        upto = rows.head_number(driver, self.place.tenant)
        total = rows.count(driver, self.place, most=self._shelved_max + 1)
        is_shelved = total <= self._shelved_max
        self.columns, self.spread, self._gone = Columns(), Spread(), 0
        self.shelf = Shelf(axes=self.axes) if is_shelved else None
        self.sketches = None if is_shelved else Sketches(axes=self.axes)
        for page in rows.pages(driver, self.place, with_terms=is_shelved):
            self._add(page)
        self._sample(driver)
        self._upto = upto
        self._measure()

    def _follow(self, driver: Driver) -> None:
        """Take over what the log says was changed since.

        Raises:
            OutOfStepError: that cannot be done, or takes longer than to read everything anew.
        """
        assert self._upto is not None, "it was loaded"
        behind = rows.head_number(driver, self.place.tenant) - self._upto
        if behind <= 0:
            return  # somebody with a later view was here already
        if behind > _BEHIND_MAX + len(self.columns):
            raise OutOfStepError
        is_all = False
        while not is_all:
            changes = rows.changes(driver, self.place, after=self._upto, most=_CHANGES_AT_ONCE)
            self._take_over(rows.wholes(driver, self.place, changes.numbers), changes.numbers)
            self._upto, is_all = changes.upto, changes.is_all
        if len(self.columns) > _GROWN * self._sampled_of:
            self._sample(driver)
        self._measure()

    def _sample(self, driver: Driver) -> None:
        """Tell from a sample how words are spread, where not every word is held."""
        self._sampled_of = len(self.columns)
        if self.shelf is None:
            numbers = self.columns.numbers
            chosen = numbers[:: max(1, len(numbers) // SAMPLED)].tolist()
            self.spread = spread_of(rows.terms(driver, chosen))

    def _take_over(self, found: list[Whole], changed: tuple[int, ...]) -> None:
        there = {whole.traced.number for whole in found}
        for number in changed:
            if number not in there:
                self._remove(number)
        new = []
        for whole in found:
            if self.columns.place_of(whole.traced.number) == NOWHERE:
                new.append(whole)
            else:
                self.columns.change(whole.traced)
        is_behind = new and len(self.columns) and new[0].traced.number < self.columns.numbers[-1]
        is_outgrown = self.shelf is not None and len(self.columns) + len(new) > self._shelved_max
        if is_behind or is_outgrown or self._gone > _GONE_SHARE_MAX * len(self.columns):
            raise OutOfStepError
        self._add(new)

    def _add(self, wholes: list[Whole]) -> None:
        self.columns.add([whole.traced for whole in wholes])
        if self.shelf is not None:
            self.shelf.add([whole.entry(axes=self.axes) for whole in wholes])
        if self.sketches is not None and self.axes:
            stored = [whole.vector for whole in wholes]
            self.sketches.add(rows.matrix_of(stored, axes=self.axes))

    def _remove(self, number: int) -> None:
        place = self.columns.place_of(number)
        if place == NOWHERE:
            return
        self._gone += 1
        self.columns.remove(number)
        if self.shelf is not None:
            self.shelf.remove([number])
        if self.sketches is not None and self.axes:
            self.sketches.remove(place)

    def _measure(self) -> None:
        contents = self.shelf if self.shelf is not None else self.sketches
        assert contents is not None, "it was loaded"
        self.size_bytes = self.columns.size_bytes + contents.size_bytes
