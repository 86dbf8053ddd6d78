"""How fast an allowance is used up, and when nothing is left of it if that goes on."""

HOUR_MS = 60 * 60 * 1000
# A pace is told over at least so long: one call a moment ago is no pace yet.
SPAN_MS_MIN = 5 * 60 * 1000


def pace_per_hour(charged: int, *, first_at_ms: int, since_ms: int, now_ms: int) -> int:
    """Return what `charged` comes to in an hour.

    It was charged between `first_at_ms` and now; `since_ms` is as far back as was looked.
    """
    looked_ms = max(1, now_ms - since_ms)
    span_ms = max(min(SPAN_MS_MIN, looked_ms), now_ms - max(first_at_ms, since_ms))
    return charged * HOUR_MS // span_ms


def empties_at_ms(
    *,
    remaining: int,
    per_hour: int,
    now_ms: int,
    resets_at_ms: int | None,
    returns_within_ms: int | None = None,
    limit: int = 0,
) -> int | None:
    """Return when `remaining` is used up at that pace; None if that is not to be expected.

    It is not where the window begins anew before, or, of a window that slides, where what is
    used returns within `returns_within_ms` as fast as it is used.
    """
    if remaining <= 0:
        return now_ms
    if per_hour <= 0:
        return None
    if returns_within_ms is not None:
        is_steady = per_hour * returns_within_ms <= limit * HOUR_MS
        return None if is_steady else now_ms + remaining * HOUR_MS // per_hour
    at_ms = now_ms + remaining * HOUR_MS // per_hour
    return None if resets_at_ms is not None and at_ms >= resets_at_ms else at_ms
