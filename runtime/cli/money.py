"""Money as people read it; it is kept in millionths of a dollar."""

_MICRO = 1_000_000
_HUNDREDTH = 10_000


def dollars(microusd: int | None) -> str:
    """Return an amount in dollars, "-" where none is known."""
    if microusd is None:
        return "-"
    # Cents and their hundredths, but for what would then be nothing at all.
    return f"${microusd / _MICRO:.{4 if microusd >= _HUNDREDTH else 6}f}"


def exact_dollars(microusd: int) -> str:
    """Return an amount in dollars to its last digit, as programs read it."""
    sign, whole = ("-" if microusd < 0 else ""), abs(microusd)
    return f"{sign}{whole // _MICRO}.{whole % _MICRO:06d}"
