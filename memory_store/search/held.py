"""A namespace held in memory to be searched, and kept as the log of its tenant says it is."""

import threading

import numpy as np

from governor.retrieval.shelf import Shelf
from governor.retrieval.sketches import Sketches
from memory_store.search import nearness, rows
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
# So many that are not in the database's index yet are compared with each question. Where there
# are more, sketches are held until half of that is left.
TAIL_MAX = 5_000
_LOOK_SECONDS = 0.05


class OutOfStepError(Exception):
    """What is held cannot be brought up to date and has to be read anew."""


class Held:
    """What is held of one namespace; who uses it has its `lock`."""

    def __init__(
        self,
        place: Place,
        *,
        axes: int,
        shelved_max: int = SHELVED_MAX,
        indexed_from: int | None = None,
    ) -> None:
        """Take which one, and how many axes vectors have, 0 without any.

        Where there are more than `indexed_from` the database's index compares them, if there is
        one; None: never.
        """
        self.place = place
        self.is_loading = False
        # Up to which number the database's index finds; None where sketches or a shelf do.
        self.indexed_upto: int | None = None
        self.is_behind = False
        self.axes = axes
        self.lock = threading.Lock()
        self.columns = Columns()
        self.shelf: Shelf | None = None
        self.sketches: Sketches | None = None
        self.spread = Spread()
        self.size_bytes = 0
        self._shelved_max = shelved_max
        self._indexed_from = indexed_from
        self._upto: int | None = None
        self._gone = 0
        self._sampled_of = 0

    @property
    def is_vast(self) -> bool:
        """Tell whether it has so many that the database's index is to find them."""
        return self._is_vast(len(self.columns))

    def taken(self) -> bool:
        """Return with its lock; without it where it is being read, which may take long."""
        while not self.lock.acquire(timeout=_LOOK_SECONDS):
            if self.is_loading:
                return False
        return True

    def bring_up(self, driver: Driver, *, most: int | None = None) -> bool:
        """Hold what the database holds as of this transaction, or something later.

        What is not held at all and has more than `most` is left so, and False is returned.
        """
        if self._upto is not None:
            try:
                self._follow(driver)
                self._choose(driver)
            except OutOfStepError:
                self._upto = None
        if self._upto is None:
            if most is not None and rows.count(driver, self.place, most=most + 1) > most:
                return False
            self._load(driver)
        self._measure()
        return True

    def _load(self, driver: Driver) -> None:
        upto = rows.head_number(driver, self.place.tenant)
        total = rows.count(
            driver, self.place, most=max(self._shelved_max, self._indexed_from or 0) + 1
        )
        is_shelved = total <= self._shelved_max
        self.indexed_upto = None if is_shelved else self._indexed(driver, total)
        is_sketched = not is_shelved and self.indexed_upto is None
        self.columns, self.spread, self._gone = Columns(), Spread(), 0
        self.shelf = Shelf(axes=self.axes) if is_shelved else None
        self.sketches = Sketches(axes=self.axes) if is_sketched else None
        for page in rows.pages(
            driver, self.place, with_terms=is_shelved, with_vectors=self.indexed_upto is None
        ):
            self._add(page)
        self._sample(driver)
        self._upto = upto
        self.is_behind = self.is_vast

    def _indexed(self, driver: Driver, total: int) -> int | None:
        """Return up to which number the database's index finds, if that is nearly all."""
        if not self._is_vast(total):
            return None
        upto = nearness.upto(driver, self.place.namespace, axes=self.axes)
        if upto is None or rows.count(driver, self.place, after=upto, most=TAIL_MAX) == TAIL_MAX:
            return None
        return upto

    def _is_vast(self, total: int) -> bool:
        return self._indexed_from is not None and self.axes > 0 and total > self._indexed_from

    def _choose(self, driver: Driver) -> None:
        """Leave comparing to the database's index once that is filled.

        Raises:
            OutOfStepError: it is no more.
        """
        self.is_behind = self.shelf is None and self.is_vast
        if not self.is_behind:
            return
        upto = nearness.upto(driver, self.place.namespace, axes=self.axes)
        numbers = self.columns.numbers
        behind = numbers.size - int(np.searchsorted(numbers, upto or 0, side="right"))
        if self.sketches is not None and (upto is None or behind > TAIL_MAX // 2):
            return
        if upto is None or behind > TAIL_MAX:
            raise OutOfStepError
        self.indexed_upto, self.sketches, self.is_behind = upto, None, behind > 0

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
        held = (self.columns, self.shelf, self.sketches)
        self.size_bytes = sum(one.size_bytes for one in held if one is not None)
