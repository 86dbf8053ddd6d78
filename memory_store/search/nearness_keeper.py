"""A thread that takes what was written into the indexes of pgvector, behind the writes.

A write so costs what it costs without them. It goes on for as long as somebody searches: what
nobody searches is not filled, and what was not searched longest is forgotten first.
"""

import threading
from collections import OrderedDict
from contextlib import suppress

from sqlalchemy import Engine

from memory_store.advisory import Duty, is_free
from memory_store.engine import translated
from memory_store.errors import StoreError
from memory_store.search import nearness
from memory_store.search.rows import Place

KEPT_MAX = 256
# An erasure waits for no more than these to be indexed.
FILLED_AT_ONCE = 64
_EVERY_SECONDS = 10.0
# How long a close waits for what is being filled; the thread ends with the process at the latest.
_JOIN_SECONDS = 30.0


class NearnessKeeper:
    """Fills the indexes of the namespaces that it was shown."""

    def __init__(self, engine: Engine, *, axes: int) -> None:
        """Take what writes, one connection that nobody else waits for."""
        self._engine = engine
        self._axes = axes
        self._places: OrderedDict[Place, None] = OrderedDict()
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="flyball-nearness", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Fill nothing more and return when that is so."""
        self._is_closing = True
        self._woken.set()
        self._thread.join(_JOIN_SECONDS)

    def keep(self, place: Place) -> None:
        """Fill a namespace's index now, and from now on."""
        with self._lock:
            self._places[place] = None
            self._places.move_to_end(place)
            if len(self._places) > KEPT_MAX:
                self._places.popitem(last=False)
        self._woken.set()

    def fill(self, place: Place) -> bool:
        """Take over the next few of a namespace, and tell whether more follow.

        Raises:
            StoreUnavailableError: the database refused or failed.
        """
        with translated(), self._engine.begin() as connection:
            # Another sidecar is at it.
            if not is_free(connection, Duty.NEARNESS):
                return False
            nearness.make(connection, place, axes=self._axes)
            return nearness.fill(connection, place, axes=self._axes, most=FILLED_AT_ONCE)

    def _run(self) -> None:
        while not self._is_closing:
            self._woken.clear()
            with self._lock:
                places = list(self._places)
            for place in places:
                # What cannot be filled is found as if there were no index; it is tried again.
                with suppress(StoreError):
                    while not self._is_closing and self.fill(place):
                        pass
            self._woken.wait(_EVERY_SECONDS)
