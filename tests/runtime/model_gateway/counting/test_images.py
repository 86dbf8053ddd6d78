"""The size of an image is read from its beginning; its tokens are by its provider's rule."""

import base64
import struct
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.model_gateway.counting.image_sizes import size_of
from runtime.model_gateway.counting.images import (
    image_part,
    image_tokens_max,
)
from runtime.model_gateway.model_request import ImagePart
from tests.runtime.model_gateway.counting.world import a_request, a_tier, bound_of

EXIF = b"\xff\xe1" + struct.pack(">H", 60_002) + b"\xff\xc0thumbnail" + b"x" * 59_989


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + b"\x08\x06\0\0\0"


def jpeg(width: int, height: int, *, before: bytes = b"") -> bytes:
    frame = b"\xff\xc2" + struct.pack(">HBHHB", 17, 8, height, width, 3)
    app = b"\xff\xe0" + struct.pack(">H", 16) + b"JFIF\0" + b"\0" * 9
    return b"\xff\xd8" + app + before + b"\xff\xff" + frame[1:] + b"\0" * 12


def gif(width: int, height: int, *, frame: tuple[int, int] | None = None) -> bytes:
    wide, high = frame or (width, height)
    screen = b"GIF89a" + struct.pack("<HHB", width, height, 0x81) + b"\0\0" + b"\0" * 12
    return screen + b"!\xf9\x04\0\0\0\0\0," + struct.pack("<HHHHB", 0, 0, wide, high, 0)


def webp(kind: bytes, width: int, height: int) -> bytes:
    match kind:
        case b"VP8X":
            sides = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
            chunk = b"\0\0\0\0" + sides
        case b"VP8L":
            chunk = b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14)
        case _:
            chunk = b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height)
    return b"RIFF\0\0\0\0WEBP" + kind + struct.pack("<I", len(chunk)) + chunk


@pytest.mark.parametrize(
    "content",
    [
        png(640, 480),
        jpeg(640, 480),
        jpeg(640, 480, before=EXIF * 3),
        gif(640, 480),
        webp(b"VP8X", 640, 480),
        webp(b"VP8L", 640, 480),
        webp(b"VP8 ", 640, 480),
    ],
)
def test_the_size_is_read_from_the_beginning_of_a_file(content: bytes) -> None:
    encoded = base64.b64encode(content + b"\0" * 100_000).decode()

    part = image_part(f"data:image/any;base64,{encoded}")

    assert (part.width, part.height) == (640, 480)
    assert part.encoded_bytes == len(encoded)


def test_a_gif_whose_frame_is_larger_than_its_screen_is_as_large_as_its_frame() -> None:
    assert size_of(gif(1, 1, frame=(2_000, 900))) == (2_000, 900)


@settings(max_examples=300, deadline=None)
@given(
    head=st.sampled_from(
        [
            b"",
            png(3, 4)[:8],
            b"\xff\xd8",
            b"GIF89a",
            b"RIFF\0\0\0\0WEBPVP8L",
            b"RIFF\0\0\0\0WEBPVP8X",
        ]
    ),
    rest=st.binary(max_size=200),
)
def test_what_is_no_image_has_no_size(head: bytes, rest: bytes) -> None:
    size = size_of(head + rest)

    assert size is None or min(size) > 0


@pytest.mark.parametrize(
    "hostile",
    [
        b"\xff\xd8" + b"\xff" * 400_000,
        b"\xff\xd8" + b"\0" * 400_000,
        b"\xff\xd8\xff\xe0\0\2" * 60_000,
    ],
)
def test_a_hostile_photograph_costs_no_time(hostile: bytes) -> None:
    encoded = base64.b64encode(hostile).decode()
    began = time.process_time()

    assert image_part(f"data:image/jpeg;base64,{encoded}").width is None
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://host/a.png", "https:// address"),
        ("data:text/plain;base64,aGVsbG8=", "data:image/"),
        ("data:image/png,hello", "base64"),
        ("data:image/png;base64,!!!!", "not base64"),
    ],
)
def test_an_image_that_nobody_can_read_is_refused_with_what_is_expected(
    url: str, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        image_part(url)


@pytest.mark.requirement("count.images")
@pytest.mark.parametrize(
    ("model", "detail", "size", "tokens"),
    [
        # The examples that the providers themselves give.
        ("gpt-4o", "high", (1_024, 1_024), 765),
        ("gpt-4o", "high", (2_048, 4_096), 1_105),
        ("gpt-4o", "low", (4_096, 8_192), 85),
        ("openai/gpt-4o-2024-11-20", "auto", (1_024, 1_024), 765),
        ("gpt-4o-mini", "high", (1_024, 1_024), 2_833 + 4 * 5_667),
        ("o3", "high", (1_024, 1_024), 75 + 4 * 150),
        ("gpt-5", "high", (1_024, 1_024), 70 + 4 * 140),
        ("gpt-4.1-mini", "high", (1_024, 1_024), 1_659),
        ("gpt-4.1-nano", "high", (1_024, 1_024), 2_520),
        ("o4-mini", "high", (4_000, 4_000), -(-1_536 * 172 // 100)),
        ("claude-3-5-sonnet-20241022", "auto", (1_000, 1_000), 1_334),
        ("claude-sonnet-4-20250514", "auto", (200, 200), 64),
        ("claude-sonnet-4-5", "auto", (8_000, 8_000), 1_600),
        ("anthropic.claude-opus-4-1-20250805-v1:0", "auto", (1_092, 1_092), 1_590),
        ("claude-opus-4-7", "auto", (8_000, 8_000), 4_784),
        ("claude-something-new", "auto", None, 4_784),
        ("gpt-4o", "auto", None, 85 + 8 * 170),
        ("gpt-6", "auto", None, 16_384),
        ("my-own-model", "auto", None, 16_384),
        ("my-own-model", "auto", (64, 64), 765),
        ("my-own-model", "auto", (1_024, 1_024), 64 * 64 + 64),
    ],
)
def test_an_image_is_as_many_tokens_as_its_provider_says(
    model: str, detail: str, size: tuple[int, int] | None, tokens: int
) -> None:
    width, height = size or (None, None)
    image = ImagePart(detail=detail, width=width, height=height)

    assert image_tokens_max(image, a_tier(model)) == tokens


@settings(max_examples=300, deadline=None)
@given(
    width=st.integers(1, 40_000),
    height=st.integers(1, 40_000),
    model=st.sampled_from(["gpt-4o", "gpt-4.1-mini", "claude-3-haiku", "claude-opus-4-8", "other"]),
)
def test_a_known_size_never_costs_more_than_an_unknown_one(
    width: int, height: int, model: str
) -> None:
    known = ImagePart(width=width, height=height)

    assert (
        0 < image_tokens_max(known, a_tier(model)) <= image_tokens_max(ImagePart(), a_tier(model))
    )


def test_what_a_tier_says_of_its_images_goes_before_every_rule() -> None:
    tier = a_tier("gpt-4o", image_tokens_max=256)

    assert image_tokens_max(ImagePart(width=9_000, height=9_000), tier) == 256


@pytest.mark.requirement("count.images")
def test_a_large_image_is_not_counted_as_the_text_that_it_is_sent_as() -> None:
    url = "data:image/png;base64," + base64.b64encode(png(1_024, 1_024) + bytes(1_500_000)).decode()
    part = image_part(url)
    content = [{"type": "image_url", "image_url": {"url": url}}]
    request = a_request({"messages": [{"role": "user", "content": content}]}, images=(part,))

    assert 765 < bound_of(request, tier=a_tier("gpt-4o")) < 1_500
