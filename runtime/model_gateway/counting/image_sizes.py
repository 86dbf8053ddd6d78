"""The width and height that the first bytes of an image state, without decoding a pixel."""

import binascii
import re
import struct
from base64 import b64decode
from typing import NamedTuple

# A photograph's own notes stand before its size, a few segments of 64 KiB at the most.
_HEAD_CHARS_MAX = 512 * 1024
_FIRST_LOOK_CHARS = 3 * 1024
_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8"
_GIF = (b"GIF87a", b"GIF89a")
_GIF_FRAME = 0x2C
_GIF_EXTENSION = 0x21
_SEGMENTS_MAX = 512
# Markers of a JPEG without a length of their own.
_BARE = frozenset({0x01, *range(0xD0, 0xD9)})
# Those that begin a frame and state its size: C4, C8 and CC in between mean other things.
_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
_NO_FILL = re.compile(rb"[^\xff]", re.DOTALL)
_SCAN = 0xDA
_END = 0xD9
_VP8X_BYTES = 30
_VP8L_MARK = 0x2F
_VP8_MARK = b"\x9d\x01\x2a"
_PIXELS_OF_14_BITS = (1 << 14) - 1


class Size(NamedTuple):
    """Pixels of an image."""

    width: int
    height: int


def size_in_base64(url: str, *, begins: int = 0) -> Size | None:
    """Return the size of an image in base64; None where it is not stated near the beginning.

    The image `begins` somewhere in `url`, which is long, so it is not copied whole.

    Raises:
        ValueError: it is not base64.
    """
    size = size_of(_head(url, begins, _FIRST_LOOK_CHARS))
    if size is None and len(url) - begins > _FIRST_LOOK_CHARS:
        size = size_of(_head(url, begins, _HEAD_CHARS_MAX))
    return size


def size_of(head: bytes) -> Size | None:
    """Return the size that the beginning of a PNG, JPEG, GIF or WebP file states."""
    try:
        size = _stated(head)
    except (struct.error, IndexError):
        return None
    return size if size is not None and size.width > 0 and size.height > 0 else None


def _head(url: str, begins: int, chars: int) -> bytes:
    # Whole groups of four only, so that a cut is no fault of the client's.
    whole = url[begins : begins + chars - chars % 4]
    try:
        return b64decode(whole + "=" * (-len(whole) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        message = "the data of the image is not base64"
        raise ValueError(message) from error


def _stated(head: bytes) -> Size | None:
    if head.startswith(_PNG):
        return Size(*struct.unpack_from(">II", head, 16)) if head[12:16] == b"IHDR" else None
    if head.startswith(_GIF):
        return _of_gif(head)
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return _of_webp(head)
    return _of_jpeg(head) if head.startswith(_JPEG) else None


def _of_webp(head: bytes) -> Size | None:
    kind = head[12:16]
    if kind == b"VP8X":
        width, height = (int.from_bytes(head[at : at + 3], "little") for at in (24, 27))
        return Size(width + 1, height + 1) if len(head) >= _VP8X_BYTES else None
    if kind == b"VP8L" and head[20] == _VP8L_MARK:
        (bits,) = struct.unpack_from("<I", head, 21)
        return Size((bits & _PIXELS_OF_14_BITS) + 1, (bits >> 14 & _PIXELS_OF_14_BITS) + 1)
    if kind == b"VP8 " and head[23:26] == _VP8_MARK:
        width, height = struct.unpack_from("<HH", head, 26)
        return Size(width & _PIXELS_OF_14_BITS, height & _PIXELS_OF_14_BITS)
    return None


def _of_jpeg(head: bytes) -> Size | None:
    at = 2
    for _ in range(_SEGMENTS_MAX):
        # In two steps, each of which sees a byte once, however many of them only fill.
        at = head.find(b"\xff", at)
        found = None if at < 0 else _NO_FILL.search(head, at)
        if found is None or (marker := found[0][0]) in (_SCAN, _END):
            return None
        at = found.end()
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", head, at + 3)
            return Size(width, height)
        if marker not in _BARE:
            at += struct.unpack_from(">H", head, at)[0]
    return None


def _of_gif(head: bytes) -> Size:
    """Return the size of a GIF's first frame where that is larger than its screen: some draw it."""
    width, height, flags = struct.unpack_from("<HHB", head, 6)
    at = 13 + (3 << (flags & 7) + 1 if flags & 0x80 else 0)
    for _ in range(_SEGMENTS_MAX):
        if head[at] == _GIF_FRAME:
            left, top, wide, high = struct.unpack_from("<HHHH", head, at + 1)
            return Size(max(width, left + wide), max(height, top + high))
        if head[at] != _GIF_EXTENSION:
            break
        at += 2
        while head[at]:
            at += 1 + head[at]
        at += 1
    return Size(width, height)
