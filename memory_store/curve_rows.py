"""Curves as the text that is stored: some seven characters for each point."""

from base64 import b64decode, b64encode

from governor.curve import POINTS_MAX, Curve, CurvePoint

_VERSION = 1
_WITH_CPU, _WITHOUT_CPU = 1, 0
_KIB = 1024
_SEVEN_BITS = 0x7F
_MORE = 0x80


def curve_text(curve: Curve) -> str:
    """Return a curve as text: how far each point is from the one before, memory in kibibytes.

    Each number takes as many bytes as it needs, seven bits in each, the lowest first. They are
    text because many rows go to PostgreSQL as one JSON text, which holds no bytes.
    """
    has_cpu = all(point.cpu_ms is not None for point in curve.points)
    content = bytearray((_VERSION, _WITH_CPU if has_cpu else _WITHOUT_CPU))
    at_ms = memory_kib = cpu_ms = 0
    for point in curve.points[:POINTS_MAX]:
        held_kib = -(-point.memory_bytes // _KIB)
        _put(content, max(0, point.at_ms - at_ms))
        _put(content, _folded(held_kib - memory_kib))
        at_ms, memory_kib = max(at_ms, point.at_ms), held_kib
        if has_cpu:
            used_ms = point.cpu_ms or 0
            _put(content, max(0, used_ms - cpu_ms))
            cpu_ms = max(cpu_ms, used_ms)
    return b64encode(content).decode()


def curve_of(text: str) -> Curve | None:
    """Return the curve that was stored; None where a newer version wrote it another way."""
    content = b64decode(text)
    if len(content) < 2 or content[0] != _VERSION:  # noqa: PLR2004 - version and flag
        return None
    has_cpu = content[1] == _WITH_CPU
    numbers = _numbers(content[2:])
    width = 3 if has_cpu else 2
    points = []
    at_ms = memory_kib = cpu_ms = 0
    for place in range(0, len(numbers) - width + 1, width):
        at_ms += numbers[place]
        memory_kib += _unfolded(numbers[place + 1])
        cpu_ms += numbers[place + 2] if has_cpu else 0
        points.append(CurvePoint(at_ms, memory_kib * _KIB, cpu_ms if has_cpu else None))
    return Curve(points=tuple(points))


def _put(content: bytearray, number: int) -> None:
    while number > _SEVEN_BITS:
        content.append(number & _SEVEN_BITS | _MORE)
        number >>= 7
    content.append(number)


def _numbers(content: bytes) -> list[int]:
    found, number, shift = [], 0, 0
    for byte in content:
        number |= (byte & _SEVEN_BITS) << shift
        shift += 7
        if not byte & _MORE:
            found.append(number)
            number = shift = 0
    return found


def _folded(number: int) -> int:
    """Return a number without a sign: what is near zero stays small."""
    return number * 2 if number >= 0 else -number * 2 - 1


def _unfolded(number: int) -> int:
    return number // 2 if number % 2 == 0 else -(number + 1) // 2
