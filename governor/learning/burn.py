"""What money counts while it burns: more, the faster a budget is used up than its time passes."""

_MULTIPLE_MAX = 64.0
_STEERED_MAX = 1e6
# With no window to keep pace with, money counts more from the last part of the budget on.
_LAST_PART = 0.5


def multiple_of_burn(*, used: int, limit: int, window_ms: int | None, left_ms: int | None) -> float:
    """Return how many times its usual worth a micro-dollar counts, 1 to 64.

    With a window: what is used over what would be used by now at an even pace, squared once it is
    above that. Without one: as the last half of the budget goes.
    """
    if limit <= 0:
        return _MULTIPLE_MAX
    gone = min(1.0, max(0.0, used / limit))
    if gone >= 1.0:
        return _MULTIPLE_MAX
    if window_ms is None or left_ms is None or window_ms <= 0:
        left = (1.0 - gone) / _LAST_PART
        return min(_MULTIPLE_MAX, 1.0 / left) if left < 1.0 else 1.0
    passed = min(1.0, max(0.0, 1.0 - left_ms / window_ms))
    # At the very beginning a first call is no pace yet.
    ahead = gone / max(passed, 0.02)
    return min(_MULTIPLE_MAX, ahead * ahead) if ahead > 1.0 else 1.0


def paced(multiple: float, *, spent_per_hour: float, rate_per_hour: float, step: float) -> float:
    """Return the multiple that steers spending to a rate, one call after `multiple`.

    Above the rate money counts more with each call; below it less again, but never less than
    usual: what was not spent in a quiet hour is no reason to spend it in the next two minutes.
    """
    strayed = max(-1.0, min(1.0, spent_per_hour / rate_per_hour - 1.0))
    return float(min(_STEERED_MAX, max(1.0, multiple * (1.0 + step * strayed))))
