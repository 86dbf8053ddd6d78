"""The namespaces held in memory: as many as there is room for, those used last."""

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from memory_store.search.held import Held
from memory_store.search.rows import Place
from memory_store.statement import Driver


class Shelves:
    """Namespaces by their place; several threads may ask."""

    def __init__(self, *, axes: int, bytes_max: int, shelved_max: int) -> None:
        """Take how much memory they may have; the one in use is held however large it is."""
        self._axes = axes
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
    def at(self, place: Place, driver: Driver) -> Iterator[Held]:
        """Yield what is held of a namespace, up to date, to nobody else at the same time."""
        with self._lock:
            held = self._held.get(place)
            if held is None:
                held = Held(place, axes=self._axes, shelved_max=self._shelved_max)
                self._held[place] = held
            self._held.move_to_end(place)
        with held.lock:
            held.bring_up(driver)
            self._make_room()
            yield held

    def clear(self) -> None:
        """Hold nothing more; whatever is asked for next is read anew."""
        with self._lock:
            self._held.clear()

    def _make_room(self) -> None:
        with self._lock:
            taken = sum(held.size_bytes for held in self._held.values())
            while taken > self._bytes_max and len(self._held) > 1:
                _, oldest = self._held.popitem(last=False)
                taken -= oldest.size_bytes
