"""The span of time over which a budget's use is added up."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum

from governor.errors import InvalidBudgetError

# Further back a clock has stepped, and nothing is admitted until it has caught up.
CLOCK_BACK_MS_MAX = 5_000
_BUCKETS_MAX = 1_000
_BUCKETS_USUAL = 60


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A window that never ends."""

    def start_ms(self, now_ms: int) -> int:
        """Return 0: everything since the beginning counts."""
        return 0

    def resets_at_ms(self, now_ms: int) -> int | None:
        """Return None: what is used up stays used up."""
        return None

    def older_ms(self, now_ms: int) -> tuple[int, ...]:
        """Return nothing: there is one account."""
        return ()


@dataclass(frozen=True, slots=True)
class Fixed:
    """Back-to-back windows of one length, aligned to the Unix epoch.

    Raises:
        InvalidBudgetError: `length_ms` is not above zero.
    """

    length_ms: int

    def __post_init__(self) -> None:
        """Refuse a window of no length."""
        _check_length(self.length_ms)

    def start_ms(self, now_ms: int) -> int:
        """Return when the window that contains `now_ms` began."""
        return now_ms - now_ms % self.length_ms

    def resets_at_ms(self, now_ms: int) -> int | None:
        """Return when the next window begins."""
        return self.start_ms(now_ms) + self.length_ms

    def older_ms(self, now_ms: int) -> tuple[int, ...]:
        """Return nothing: an earlier window does not count."""
        return ()


class Period(StrEnum):
    """What a calendar window follows."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """Days, weeks from Monday, or months, as the clocks on the wall of one time zone show them.

    `time_zone` is the zone's name in the IANA database, `zone` what the name stands for. A
    window may last 23 or 25 hours where the clocks are changed.
    """

    period: Period
    time_zone: str
    zone: tzinfo

    def start_ms(self, now_ms: int) -> int:
        """Return when the window that contains `now_ms` began."""
        return self._ms(self._first_day(now_ms))

    def resets_at_ms(self, now_ms: int) -> int | None:
        """Return when the next window begins."""
        first = self._first_day(now_ms)
        match self.period:
            case Period.DAY:
                following = first + timedelta(days=1)
            case Period.WEEK:
                following = first + timedelta(weeks=1)
            case Period.MONTH:
                following = (first + timedelta(days=32)).replace(day=1)
        return self._ms(following)

    def older_ms(self, now_ms: int) -> tuple[int, ...]:
        """Return nothing: an earlier window does not count."""
        return ()

    def _first_day(self, now_ms: int) -> datetime:
        """Return the first midnight of the window, as the zone's wall shows it."""
        # Seconds before the epoch would do as well; a naive date is moved by the calendar alone.
        here = datetime.fromtimestamp(now_ms / 1000, self.zone)
        midnight = datetime(here.year, here.month, here.day)  # noqa: DTZ001 - given a zone in _ms
        match self.period:
            case Period.DAY:
                return midnight
            case Period.WEEK:
                return midnight - timedelta(days=midnight.weekday())
            case Period.MONTH:
                return midnight.replace(day=1)

    def _ms(self, wall: datetime) -> int:
        return int(wall.replace(tzinfo=self.zone).timestamp()) * 1000


def buckets_near(length_ms: int, near: int = _BUCKETS_USUAL) -> int:
    """Return into how many parts a length divides, as near to `near` as can be.

    Of two that are as near, the larger number, whose parts leave sooner.
    """
    possible = (parts for parts in range(_BUCKETS_MAX, 0, -1) if length_ms % parts == 0)
    return min(possible, key=lambda parts: abs(parts - near))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sliding:
    """The last `length_ms`, in `buckets` parts.

    Use is added up part by part and leaves part by part, so up to one part more than the
    length counts: never less than what was used within it. What a clock booked before it
    stepped back a little counts as well, or the window would be open a second time.

    Raises:
        InvalidBudgetError: there is no length, or it does not divide into the parts.
    """

    length_ms: int
    buckets: int = _BUCKETS_USUAL

    def __post_init__(self) -> None:
        """Refuse a window of no length and one that does not divide."""
        _check_length(self.length_ms)
        if not 1 <= self.buckets <= _BUCKETS_MAX:
            message = f"window.buckets: {self.buckets} is not from 1 to {_BUCKETS_MAX}"
            raise InvalidBudgetError(message)
        if self.length_ms % self.buckets:
            message = f"window.buckets: {self.length_ms} ms do not divide into {self.buckets} parts"
            fitting = buckets_near(self.length_ms, self.buckets)
            raise InvalidBudgetError(f"{message}; write {fitting}, or leave it out")

    @property
    def bucket_ms(self) -> int:
        """Return the length of one part."""
        return self.length_ms // self.buckets

    def start_ms(self, now_ms: int) -> int:
        """Return when the part that contains `now_ms` began."""
        return now_ms - now_ms % self.bucket_ms

    def resets_at_ms(self, now_ms: int) -> int | None:
        """Return when everything that is used now will have left."""
        return self.start_ms(now_ms) + self.bucket_ms + self.length_ms

    def older_ms(self, now_ms: int) -> tuple[int, ...]:
        """Return when each other part that counts began, the oldest first."""
        start_ms, part_ms = self.start_ms(now_ms), self.bucket_ms
        # A part that begins a whole length from now shares no stretch of that length with it.
        ahead = min(self.buckets, -(-CLOCK_BACK_MS_MAX // part_ms))
        earlier = range(start_ms - self.length_ms, start_ms, part_ms)
        return (*earlier, *range(start_ms + part_ms, start_ms + (ahead + 1) * part_ms, part_ms))


Window = Lifetime | Fixed | Calendar | Sliding


def turns_over_at_ms(window: Window, now_ms: int) -> int | None:
    """Return when use is next booked to another account; None: never."""
    if isinstance(window, Sliding):
        return window.start_ms(now_ms) + window.bucket_ms
    return window.resets_at_ms(now_ms)


def _check_length(length_ms: int) -> None:
    if length_ms <= 0:
        message = f"window.length_ms: {length_ms} is not above 0"
        raise InvalidBudgetError(message)


def moment_words(epoch_ms: int) -> str:
    """Return a moment to the minute, in UTC; one further away than its years is never."""
    try:
        moment = datetime.fromtimestamp(epoch_ms // 1000, tz=UTC)
    except (OverflowError, ValueError, OSError):
        return "a time after the year 9999"
    return moment.strftime("%Y-%m-%d %H:%M UTC")
