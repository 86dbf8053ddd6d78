"""Moments and periods as people say them on a command line, in UTC."""

import argparse
import re
from datetime import UTC, datetime, timedelta

from runtime.clock import SystemClock

_AGO = re.compile(r"^(?P<count>\d{1,5})(?P<unit>[smhdw])$")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_MONTHS = {"this-month": 0, "last-month": 1}
_MS = 1_000
MOMENTS = "2026-11-01, 2026-11-01T08:30Z, 90m, 24h, 7d (so long ago), this-month or last-month"


def add_period(parser: argparse.ArgumentParser) -> None:
    """Add from when to when; both are read into milliseconds of the epoch."""
    parser.add_argument(
        "--since", type=moment, metavar="WHEN", help=f"what ended from then on: {MOMENTS}"
    )
    parser.add_argument("--until", type=moment, metavar="WHEN", help="what ended before then")


def moment(text: str) -> int:
    """Return a moment in milliseconds of the epoch; a month's is its beginning.

    Raises:
        ArgumentTypeError: it is none.
    """
    return moment_at(text, now=datetime.fromtimestamp(SystemClock().now_ms() / _MS, tz=UTC))


def moment_at(text: str, *, now: datetime) -> int:
    """Return the moment that `text` says at the time `now`.

    Raises:
        ArgumentTypeError: it says none.
    """
    ago = _AGO.match(text)
    try:
        if ago is not None:
            found = now - timedelta(**{_UNITS[ago["unit"]]: int(ago["count"])})
        elif text in _MONTHS:
            found = month_of(now)
            if _MONTHS[text]:
                found = month_of(found - timedelta(days=1))
        else:
            found = datetime.fromisoformat(text)
            found = found.replace(tzinfo=UTC) if found.tzinfo is None else found
        epoch_ms = int(found.timestamp() * _MS)
    except (ValueError, OverflowError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no moment: say {MOMENTS}") from error
    if epoch_ms < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is before 1970: say {MOMENTS}")
    return epoch_ms


def month_of(when: datetime) -> datetime:
    """Return the beginning of a month."""
    return when.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def after_month(when: datetime) -> datetime:
    """Return the beginning of the month that follows."""
    return month_of(month_of(when) + timedelta(days=31))
