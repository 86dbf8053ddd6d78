"""Figures in the words and units that people read, each with the exact figure beside it."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from markupsafe import Markup

_BYTE_STEPS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_STEP = 1024
_THOUSANDS = ("", "k", "M", "G", "T", "P", "E")
_MICRO = 1_000_000
_MILLISECOND_STEPS = (
    (86_400_000, "d"),
    (3_600_000, "h"),
    (60_000, "min"),
    (1_000, "s"),
)
_BASIC_MAX = 0xFFFF
_MINUS = "\N{MINUS SIGN}"
_UNKNOWN = Markup('<span class="unknown" title="unknown">&ndash;</span>')
_MONEY = "cost_microusd"
_NAMES = {
    "cost_microusd": "cost",
    "input_tokens": "input tokens",
    "output_tokens": "output tokens",
    "tool_calls": "tool calls",
    "turns": "turns",
    "wall_ms": "time",
    "cpu_ms": "CPU time",
    "memory_mib_s": "memory",
    "io_bytes": "disk",
    "egress_bytes": "egress",
    "energy_mj": "energy",
    "context_tokens": "context tokens",
    "memory_bytes": "memory written",
    "memory_writes": "memory writes",
    "memory_read_tokens": "memory read",
}

# What is not seen, or has what follows seen in another order: controls but for the ends of lines
# and tabs, formats (the direction of text, joiners, tags), fillers, selectors, halves of pairs.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f"
    "\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U000110bd\U000110cd"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "\ud800-\udfff]|\r(?!\n)"
)


def plain(text: str) -> str:
    """Return what strangers wrote with every character that is not seen as its number."""
    return _UNSEEN.sub(_numbered, text)


def _numbered(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\U{number:08x}" if number > _BASIC_MAX else f"\\u{number:04x}"


def unit_name(unit: str) -> str:
    """Return what people call a unit; units of probes keep their names."""
    return _NAMES.get(unit, unit.replace("_", " "))


def word(text: object) -> str:
    """Return a stable word of the API as people read it."""
    return str(text).replace("_", " ")


def amount(value: int | None, unit: str) -> Markup:
    """Return an amount of a unit, short, with the exact integer of the unit in its title."""
    if value is None:
        return _UNKNOWN
    return _exact(value, amount_words(value, unit), f"{grouped(value)} {unit}")


def amount_words(value: int, unit: str) -> str:
    """Return an amount of a unit in short words."""
    if unit == _MONEY:
        return _money(value)
    for ending, words in _BY_ENDING.items():
        if unit.endswith(ending):
            return words(value)
    if unit == "memory_mib_s":
        return f"{_scaled(value, _THOUSANDS, 1000)} MiB·s"
    if unit == "energy_mj":
        return _energy(value)
    return _scaled(value, _THOUSANDS, 1000)


def money(value: int | None) -> Markup:
    """Return millionths of a dollar as dollars."""
    return amount(value, _MONEY)


def size(value: int | None) -> Markup:
    """Return bytes in the binary unit that fits."""
    return amount(value, "size_bytes")


def duration(value: int | None) -> Markup:
    """Return milliseconds in the unit that fits."""
    return amount(value, "span_ms")


def number(value: int | None) -> Markup:
    """Return a number with its thousands apart."""
    if value is None:
        return _UNKNOWN
    return _exact(value, grouped(value), None)


def grouped(value: int) -> str:
    """Return a number with narrow spaces between its thousands."""
    return f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def duration_words(value: int) -> str:
    """Return milliseconds in short words."""
    sign, left = (_MINUS, -value) if value < 0 else ("", value)
    for number_of, (step, name) in enumerate(_MILLISECOND_STEPS):
        if left < step:
            continue
        whole, rest = divmod(left, step)
        if number_of + 1 == len(_MILLISECOND_STEPS):
            return f"{sign}{_tenths(left, step)} s"
        under, under_name = _MILLISECOND_STEPS[number_of + 1]
        more = rest // under
        return f"{sign}{whole} {name}" + (f" {more} {under_name}" if more else "")
    return f"{sign}{left} ms"


def moment(at_ms: int | None, now_ms: int) -> Markup:
    """Return when something was or will be, seen from now, with the exact moment in its title."""
    if at_ms is None:
        return _UNKNOWN
    exact = _date(at_ms)
    told = relative(at_ms, now_ms)
    return Markup('<time datetime="{}" title="{} UTC">{}</time>').format(
        exact.replace(" ", "T") + "Z", exact, told
    )


def relative(at_ms: int, now_ms: int) -> str:
    """Return when something was or will be, in words from now."""
    away = abs(now_ms - at_ms)
    if away < _MILLISECOND_STEPS[-1][0]:
        return "now"
    told = next(f"{away // step} {name}" for step, name in _MILLISECOND_STEPS if away >= step)
    return f"in {told}" if at_ms > now_ms else f"{told} ago"


def share_permille(part: int, whole: int) -> int:
    """Return a share in thousandths, from 0 to 1000."""
    if whole <= 0:
        return 1000 if part > 0 else 0
    return max(0, min(1000, part * 1000 // whole))


def _exact(value: int, shown: str, title: str | None) -> Markup:
    if title is None:
        return Markup('<data value="{}">{}</data>').format(value, shown)
    return Markup('<data value="{}" title="{}">{}</data>').format(value, title, shown)


def _money(value: int) -> str:
    sign, left = (_MINUS, -value) if value < 0 else ("", value)
    if left == 0:
        return "$0"
    if left < _MICRO // 100:
        # Below a cent every digit counts.
        return f"{sign}$0.{left:06d}".rstrip("0")
    if left < _MICRO:
        tenths = (left + 50) // 100  # of a thousandth of a dollar
        if tenths % 100:
            return f"{sign}$0.{tenths:04d}".rstrip("0")
    cents = (left + 5_000) // 10_000
    return f"{sign}${grouped(cents // 100)}.{cents % 100:02d}"


def _bytes(value: int) -> str:
    return f"{_scaled(value, _BYTE_STEPS, _STEP, apart=True)}"


def _energy(value: int) -> str:
    joules = 1000
    if abs(value) < joules:
        return f"{value} mJ"
    return f"{_scaled(value // joules, _THOUSANDS, 1000, apart=True)}J"


def _scaled(value: int, steps: tuple[str, ...], step: int, *, apart: bool = False) -> str:
    """Return a number in the largest step that it reaches, with a decimal where one helps."""
    sign, left = (_MINUS, -value) if value < 0 else ("", value)
    rank, scale = 0, 1
    # Few thousands are read as they are; from ten of them on they are counted in thousands.
    first = step if apart else 10 * step
    while rank + 1 < len(steps) and left >= (first if rank == 0 else scale * step):
        rank, scale = rank + 1, scale * step
    gap = " " if apart else ""
    shown = grouped(left) if rank == 0 else _tenths(left, scale)
    return f"{sign}{shown}{gap}{steps[rank]}"


def _tenths(value: int, scale: int) -> str:
    tenths = (value * 10 + scale // 2) // scale
    whole, rest = divmod(tenths, 10)
    hundred = 100
    return grouped(whole) if rest == 0 or whole >= hundred else f"{whole}.{rest}"


def _date(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms // 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return "after the year 9999"


_BY_ENDING: Mapping[str, Callable[[int], str]] = {
    "_bytes": _bytes,
    "_ms": duration_words,
    "_percent": "{} %".format,
}
