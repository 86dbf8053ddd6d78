"""What a shelf keeps of each text but its words, in arrays that grow together.

There is always room for one place more than there are texts, and that place stays zero. A text
without a neighbour points to it: place -1 is the last.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Places = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

NOWHERE = -1
_GROWTH = 1.5


class Columns:
    """Arrays by place."""

    def __init__(self, *, axes: int) -> None:
        """Begin with room for none but the place that stays zero."""
        self.numbers = np.zeros(1, dtype=np.int64)
        self.lengths = np.zeros(1, dtype=np.float32)
        self.alive = np.zeros(1, dtype=np.bool_)
        self.traits = np.zeros(1, dtype=np.int32)
        self.actors = np.zeros(1, dtype=np.int32)
        self.before = np.full(1, NOWHERE, dtype=np.int32)
        self.after = np.full(1, NOWHERE, dtype=np.int32)
        self.sessions = np.zeros(1, dtype=np.int32)
        self.days = np.zeros(1, dtype=np.int32)
        self.vectors = np.zeros((1, axes), dtype=np.float32)

    def make_room(self, total: int) -> None:
        """Make room for `total` texts and the place after them that stays zero."""
        room = self.numbers.size
        if total < room:
            return
        more = max(total + 1, int(room * _GROWTH)) - room
        self.numbers = np.pad(self.numbers, (0, more))
        self.lengths = np.pad(self.lengths, (0, more))
        self.alive = np.pad(self.alive, (0, more))
        self.traits = np.pad(self.traits, (0, more))
        self.actors = np.pad(self.actors, (0, more))
        self.sessions = np.pad(self.sessions, (0, more))
        self.days = np.pad(self.days, (0, more))
        self.before = np.pad(self.before, (0, more), constant_values=NOWHERE)
        self.after = np.pad(self.after, (0, more), constant_values=NOWHERE)
        self.vectors = np.pad(self.vectors, ((0, more), (0, 0)))

    def link(self, place: int, *, session: int, last: int) -> None:
        """Set the text at `place` behind the one at `last`, the last of its session so far."""
        self.sessions[place] = session
        self.before[place] = last
        self.after[place] = NOWHERE
        if last != NOWHERE:
            self.after[last] = place

    def unlink(self, place: int) -> None:
        """Make the neighbours of the text at `place` neighbours of one another."""
        before, after = int(self.before[place]), int(self.after[place])
        if before != NOWHERE:
            self.after[before] = after
        if after != NOWHERE:
            self.before[after] = before
        self.alive[place] = False
        self.vectors[place] = 0
