"""The namespaces held in memory: as many as there is room for, those used last."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from memory_store.search.held import Held
from memory_store.search.rows import Place
from memory_store.statement import Driver

# Of so many the first search reads all that is held; it takes a fifth of a second at most.
AWAITED_MAX = 10_000


class Shelves:
    """Namespaces by their place; several threads may ask."""

    def __init__(
        self,
        *,
        axes: int,
        bytes_max: int,
        shelved_max: int,
        indexed_from: int | None = None,
        awaited_max: int = AWAITED_MAX,
        keep_index: Callable[[Place], None] | None = None,
    ) -> None:
        """Take how much memory they may have; the one in use is held however large it is.

        Larger ones than `awaited_max` are read by `load` alone. `keep_index` is told of those
        that the database's index is to find and has not all of.
        """
        self.axes = axes
        self._indexed_from = indexed_from
        self._awaited_max = awaited_max
        self._keep_index = keep_index
        self._bytes_max = bytes_max
        self._shelved_max = shelved_max
        self._held: OrderedDict[Place, Held] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def size_bytes(self) -> int:
        """Return about how much memory they have."""
        with self._lock:
            return sum(held.size_bytes for held in self._held.values())

    @contextmanager
    def at(self, place: Place, driver: Driver) -> Iterator[Held | None]:
        """Yield what is held of a namespace, up to date, to nobody else at the same time.

        That is None where it is large and nothing is held of it yet.
        """
        held = self._of(place)
        if not held.taken():
            yield None
            return
        try:
            is_up = held.bring_up(driver, most=self._awaited_max)
            self._make_room()
            if self._keep_index is not None and held.is_behind:
                self._keep_index(place)
            yield held if is_up else None
        finally:
            held.lock.release()

    def load(self, place: Place, driver: Driver) -> None:
        """Hold a namespace, however long it takes to read; nobody else waits for that."""
        held = self._of(place)
        held.is_loading = True
        try:
            with held.lock:
                held.bring_up(driver)
                self._make_room()
        finally:
            held.is_loading = False

    def clear(self) -> None:
        """Hold nothing more; whatever is asked for next is read anew."""
        with self._lock:
            self._held.clear()

    def _of(self, place: Place) -> Held:
        with self._lock:
            held = self._held.get(place)
            if held is None:
                held = self._held[place] = Held(
                    place,
                    axes=self.axes,
                    shelved_max=self._shelved_max,
                    indexed_from=self._indexed_from,
                )
            self._held.move_to_end(place)
            return held

    def _make_room(self) -> None:
        with self._lock:
            taken = sum(held.size_bytes for held in self._held.values())
            while taken > self._bytes_max and len(self._held) > 1:
                _, oldest = self._held.popitem(last=False)
                taken -= oldest.size_bytes
