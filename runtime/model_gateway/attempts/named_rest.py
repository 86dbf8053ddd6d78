"""When a provider says that asking it again helps, in any of the headers that say so."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import ceil, isfinite

from governor.providing.key_ring import REST_MS_MAX

_CHARS_MAX = 64
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,15})?", re.ASCII)
# "6m0s", "1h2m3.5s", "20ms": as OpenAI and those who follow it write durations.
_DURATION = re.compile(r"(?:\d{1,9}(?:\.\d{1,9})?(?:ms|[smhd])){1,5}", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])", re.ASCII)
_MS_IN = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_RESET = re.compile(r"x-ratelimit-reset(?P<of>-[a-z-]+)?|anthropic-ratelimit-(?P<by>[a-z-]+)-reset")
# A number above this is a time of the clock, in seconds; above the next one in milliseconds.
_EPOCH_S_MIN = 1_000_000_000
_EPOCH_MS_MIN = 1_000_000_000_000


def named_rest_ms(headers: Mapping[str, str], *, now_ms: int) -> int | None:
    """Return how long a provider says to wait, None where it does not say or nobody can read it.

    `headers` have names in lower case; `now_ms` is the time of the clock. What is said of a
    limit that is not used up counts only where none is. Never longer than an hour.
    """
    for name, unit_ms in (("retry-after-ms", 1), ("retry-after", 1_000)):
        wait_ms = _wait_ms(headers.get(name), now_ms=now_ms, unit_ms=unit_ms)
        if wait_ms is not None:
            return wait_ms
    resets = list(_resets(headers, now_ms=now_ms))
    used_up = [wait_ms for wait_ms, is_used_up in resets if is_used_up]
    if used_up:
        return max(used_up)
    return min((wait_ms for wait_ms, _ in resets), default=None)


def _resets(headers: Mapping[str, str], *, now_ms: int) -> Iterator[tuple[int, bool]]:
    """Yield when each limit comes back, and whether nothing of it remains."""
    for name, value in headers.items():
        match = _RESET.fullmatch(name)
        wait_ms = None if match is None else _wait_ms(value, now_ms=now_ms, unit_ms=1_000)
        if wait_ms is not None:
            remaining = headers.get(name.replace("reset", "remaining"))
            yield wait_ms, remaining is None or remaining.strip() == "0"


def _wait_ms(value: str | None, *, now_ms: int, unit_ms: int) -> int | None:
    text = "" if value is None else value.strip()
    if not text or len(text) > _CHARS_MAX:
        return None
    if _NUMBER.fullmatch(text):
        return _bounded(_of_number(float(text), now_ms=now_ms, unit_ms=unit_ms))
    if _DURATION.fullmatch(text):
        return _bounded(sum(float(part) * _MS_IN[unit] for part, unit in _PART.findall(text)))
    at = _moment(text)
    return None if at is None else _bounded(at.timestamp() * 1_000 - now_ms)


def _of_number(number: float, *, now_ms: int, unit_ms: int) -> float:
    if number >= _EPOCH_MS_MIN:
        return number - now_ms
    if number >= _EPOCH_S_MIN:
        return number * 1_000 - now_ms
    return number * unit_ms


def _moment(text: str) -> datetime | None:
    """Return the moment that an HTTP date or an RFC 3339 one names, None for anything else."""
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            at = read(text)
        except (ValueError, OverflowError):
            continue
        return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return None


def _bounded(wait_ms: float) -> int:
    return min(max(0, ceil(wait_ms)), REST_MS_MAX) if isfinite(wait_ms) else REST_MS_MAX
