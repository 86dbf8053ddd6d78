"""The time that a question names, and how well the time of a text fits it.

Read are a year, a month with or without a year, and a day of a month, in the usual orders. Days
count from 1970-01-01; all is in UTC, and a text told a few days after the time that is asked for
fits half: people tell of what was.
"""

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from governor.retrieval.columns import Floats

MS_PER_DAY = 86_400_000
# A thousand years either way: clocks may be wrong.
DAYS_MAX = 365_000
_LATER_DAYS = 7
_LATER_FIT = 0.5
_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            *("january jan", "february feb", "march mar", "april apr", "may", "june jun"),
            *("july jul", "august aug", "september sept sep", "october oct", "november nov"),
            "december dec",
        ),
        start=1,
    )
    for name in names.split()
}
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_DAY = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th)?"
_NAME = rf"(?P<month>{_MONTH})\b\.?"
_PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\b{_YEAR}[-/.](?P<number>[01]?\d)[-/.](?P<day>[0-3]?\d)\b",
        rf"\b{_DAY} (?:of )?{_NAME}(?:,? {_YEAR}\b)?",
        rf"\b{_NAME} {_DAY}\b(?:,? {_YEAR}\b)?",
        rf"\b{_NAME},? (?:of )?{_YEAR}\b",
        # Alone, some names of months are words: only after what stands before a time.
        rf"\b(?:in|of|since|during|until|before|after|by|last|early|late|mid) {_NAME}",
        rf"\b{_YEAR}\b",
        rf"{_YEAR}\u5e74(?:(?P<number>[01]?\d)\u6708)?(?:(?P<day>[0-3]?\d)[\u65e5\u53f7])?",
        r"(?P<number>[01]?\d)\u6708(?:(?P<day>[0-3]?\d)[\u65e5\u53f7])?",
    )
)
_MONTHS_MAX, _DAYS_MAX = 12, 31


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A time as it was named: what was not named is None."""

    year: int | None = None
    month: int | None = None
    day: int | None = None


def moment_in(text: str) -> Moment | None:
    """Return the first time that a question names, None where it names none."""
    lowered = text.lower()
    for pattern in _PATTERNS:
        if (match := pattern.search(lowered)) is not None and (found := _moment(match)):
            return found
    return None


def _moment(match: re.Match[str]) -> Moment | None:
    parts = match.groupdict()
    year, day = parts.get("year"), parts.get("day")
    name, number = parts.get("month"), parts.get("number")
    month = _MONTHS[name] if name else int(number) if number else None
    if (month is not None and not 1 <= month <= _MONTHS_MAX) or (
        day is not None and not 1 <= int(day) <= _DAYS_MAX
    ):
        return None
    return Moment(year=int(year) if year else None, month=month, day=int(day) if day else None)


def fits(moment: Moment, days: npt.NDArray[np.int32]) -> Floats:
    """Return how well each day fits a time: 1 inside it, half for a week after it, else 0."""
    inside = _inside(moment, days)
    later = np.zeros(days.size, dtype=np.bool_)
    for after in range(1, _LATER_DAYS + 1):
        later |= _inside(moment, days - np.int32(after))
    return np.where(inside, 1.0, np.where(later, _LATER_FIT, 0.0)).astype(np.float32)


def _inside(moment: Moment, days: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    dates = days.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    fitting = np.ones(days.size, dtype=np.bool_)
    if moment.year is not None:
        fitting &= months.astype("datetime64[Y]").astype(np.int32) + 1970 == moment.year
    if moment.month is not None:
        fitting &= months.astype(np.int32) % _MONTHS_MAX + 1 == moment.month
    if moment.day is not None:
        fitting &= (dates - months).astype(np.int32) + 1 == moment.day
    return fitting
