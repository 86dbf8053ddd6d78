"""The words that stood in the place of something before: made once, and said again."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable

from governor.experience.piece import Piece
from governor.ids import ExperienceId
from runtime.model_gateway.compaction.conversation import Result
from runtime.model_gateway.compaction.report import mark_of, report_of
from runtime.model_gateway.compaction.terms import CompactionTerms

_MARKS_MAX = 20_000
_REPORTS_MAX = 500

Key = tuple[ExperienceId, int, bytes]


class Told:
    """Says the same of the same content; what it forgets is made again, and is no other."""

    def __init__(self) -> None:
        self._marks: OrderedDict[Key, str] = OrderedDict()
        self._reports: OrderedDict[Key, str] = OrderedDict()
        # Large conversations are looked at beside the loop.
        self._lock = threading.Lock()

    def mark(self, result: Result, index: ExperienceId, terms: CompactionTerms) -> str:
        """Return what stands in the place of a result that is kept under `index`."""
        key = (index, terms.summary_chars_max, b"")
        return self._said(
            self._marks, key, lambda: mark_of(result, index, terms), count_max=_MARKS_MAX
        )

    def report(
        self,
        pieces: Callable[[], Iterable[Piece]],
        *,
        contents: ExperienceId | None,
        terms: CompactionTerms,
        key: bytes,
    ) -> str:
        """Return the report of the turns that are listed under `contents`."""

        def made() -> str:
            return report_of(pieces(), contents=contents, terms=terms, key=key)

        if contents is None:
            return made()
        known = (contents, terms.report_tokens_max, key)
        return self._said(self._reports, known, made, count_max=_REPORTS_MAX)

    def _said(
        self,
        known: OrderedDict[Key, str],
        key: Key,
        made: Callable[[], str],
        *,
        count_max: int,
    ) -> str:
        with self._lock:
            found = known.get(key)
            if found is not None:
                known.move_to_end(key)
                return found
        words = made()
        with self._lock:
            known[key] = words
            while len(known) > count_max:
                known.popitem(last=False)
        return words
