"""What an image is counted as: by its provider's published rule, else by the largest known.

A rule is chosen by the model's name. What a tier says of its model goes before every rule.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from governor.tiers import ModelTier
from runtime.model_gateway.counting.image_sizes import size_in_base64
from runtime.model_gateway.model_request import ImagePart

_LOW = "low"
_ORIGINAL = "original"
_DATA = "data:"
_HEAD_CHARS_MAX = 256
_WEB = ("http://", "https://")
# OpenAI fits an image into this square, its shorter side into that many pixels, and cuts tiles.
_SQUARE_PX = 2_048
_SHORT_PX = 768
_TILE_PX = 512
_TILES_MAX = 8
# Or it counts patches, so many at the most, and multiplies by a model's own factor.
_PATCH_PX = 32
_PATCHES_MAX = 1_536
_PATCHES_OF_ORIGINAL_MAX = 10_000
_PERCENT = 100
# Anthropic counts cells of 28 pixels, in its older words a token for 750 pixels.
_CELL_PX = 28
_PIXELS_PER_TOKEN = 750
# The finest patches that open models cut, with a token at the end of each row; and the most
# that any is configured to take of one image.
_FINEST_PX = 16
_IMAGE_TOKENS_MAX = 16_384

Rule = Callable[[ImagePart], int]


def image_part(url: str, *, detail: str = "auto") -> ImagePart:
    """Return what is known of an image by its address, which may hold the image itself.

    Raises:
        ValueError: it is neither an address of the web nor an image in base64.
    """
    if url.startswith(_WEB):
        return ImagePart(detail=detail)
    begins = url.find(",", 0, _HEAD_CHARS_MAX) + 1
    if not url.startswith(_DATA) or not begins:
        raise ValueError("expected an https:// address or a data: URL with an image in base64")
    head = url[:begins]
    if not head.startswith("data:image/") or not head.endswith(";base64,"):
        raise ValueError("expected a data: URL that begins data:image/...;base64,")
    size = size_in_base64(url, begins=begins)
    width, height = (None, None) if size is None else size
    return ImagePart(detail=detail, width=width, height=height, encoded_bytes=len(url) - begins)


def image_tokens_max(image: ImagePart, tier: ModelTier) -> int:
    """Return the most tokens that the provider of `tier` counts for an image."""
    if tier.image_tokens_max is not None:
        return tier.image_tokens_max
    model = _plain(tier.model)
    for pattern, rule in _RULES:
        if fnmatchcase(model, pattern):
            return rule(image)
    return _any(image)


@dataclass(frozen=True, slots=True)
class _Tiles:
    """OpenAI's rule of tiles: a fixed part, and more for each tile."""

    fixed: int
    each: int

    def __call__(self, image: ImagePart) -> int:
        if image.detail == _LOW:
            return self.fixed
        return self.fixed + self.each * _tiles(image)


@dataclass(frozen=True, slots=True)
class _Patches:
    """OpenAI's rule of patches, times a model's factor in hundredths."""

    percent: int

    def __call__(self, image: ImagePart) -> int:
        most = _PATCHES_OF_ORIGINAL_MAX if image.detail == _ORIGINAL else _PATCHES_MAX
        found = _cells(image, _PATCH_PX)
        return -(-min(most, most if found is None else found) * self.percent // _PERCENT)


@dataclass(frozen=True, slots=True)
class _Largest:
    """The larger of several rules, where a provider's words differ."""

    rules: tuple[Rule, ...]

    def __call__(self, image: ImagePart) -> int:
        return max(rule(image) for rule in self.rules)


@dataclass(frozen=True, slots=True)
class _Cells:
    """Anthropic's rule: an image is shrunk to a longest side and to a most of tokens."""

    side_px: int
    tokens_max: int

    def __call__(self, image: ImagePart) -> int:
        if image.width is None or image.height is None:
            return self.tokens_max
        width, height = image.width, image.height
        longest = max(width, height)
        if longest > self.side_px:
            width, height = (-(-side * self.side_px // longest) for side in (width, height))
        by_area = -(-width * height // _PIXELS_PER_TOKEN)
        by_cells = -(-width // _CELL_PX) * -(-height // _CELL_PX)
        return min(self.tokens_max, max(by_area, by_cells))


def _any(image: ImagePart) -> int:
    """Return the largest figure of all rules but the one that is far above all others."""
    if image.width is None or image.height is None:
        return _IMAGE_TOKENS_MAX
    across, down = -(-image.width // _FINEST_PX), -(-image.height // _FINEST_PX)
    finest = across * down + max(across, down)
    return min(_IMAGE_TOKENS_MAX, max(finest, _LARGEST_OF_OPENAI(image)))


def _tiles(image: ImagePart) -> int:
    if image.width is None or image.height is None:
        return _TILES_MAX
    short, long = sorted((image.width, image.height))
    # A small image may or may not be enlarged: the larger figure counts.
    return max(_tiles_of(min(short, _SHORT_PX), short, long), _tiles_of(_SHORT_PX, short, long))


def _tiles_of(short_px: int, short: int, long: int) -> int:
    """Return the tiles of an image whose shorter side is made `short_px`, within the square."""
    if long * short_px > _SQUARE_PX * short:
        across, down = _SQUARE_PX, -(-short * _SQUARE_PX // long)
    else:
        across, down = -(-long * short_px // short), short_px
    return min(_TILES_MAX, -(-across // _TILE_PX) * -(-down // _TILE_PX))


def _cells(image: ImagePart, side_px: int) -> int | None:
    if image.width is None or image.height is None:
        return None
    return -(-image.width // side_px) * -(-image.height // side_px)


def _plain(model: str) -> str:
    """Return a model's name without what resellers put before it."""
    name = model.lower().rpartition("/")[2]
    at = name.find("claude")
    return name[at:] if at > 0 else name


_LARGEST_OF_OPENAI = _Largest((_Tiles(85, 170), _Patches(246)))
_STANDARD = _Cells(side_px=1_568, tokens_max=1_600)
_HIGH = _Cells(side_px=2_576, tokens_max=4_784)
# The first pattern that a model's name fits is its rule.
_RULES: tuple[tuple[str, Rule], ...] = (
    ("gpt-4o-mini*", _Tiles(2_833, 5_667)),
    ("gpt-4.1-mini*", _Patches(162)),
    ("gpt-5-mini*", _Patches(162)),
    ("gpt-4.1-nano*", _Patches(246)),
    ("gpt-5-nano*", _Patches(246)),
    ("o4-mini*", _Patches(172)),
    ("gpt-4.1*", _Largest((_Tiles(85, 170), _Patches(100)))),
    ("gpt-4o*", _Tiles(85, 170)),
    ("chatgpt-4o*", _Tiles(85, 170)),
    ("gpt-4.5*", _Tiles(85, 170)),
    ("gpt-4-*", _Tiles(85, 170)),
    ("o1*", _Tiles(75, 150)),
    ("o3*", _Tiles(75, 150)),
    ("computer-use-preview*", _Tiles(65, 129)),
    ("gpt-5", _Tiles(70, 140)),
    ("gpt-5-20*", _Tiles(70, 140)),
    ("gpt-5-chat*", _Tiles(70, 140)),
    ("gpt-5*", _LARGEST_OF_OPENAI),
    ("claude-3*", _STANDARD),
    ("claude-*-4", _STANDARD),
    ("claude-*-4-[0-6]", _STANDARD),
    ("claude-*-4-[0-6][-@]*", _STANDARD),
    ("claude-*-4[-@]20[0-9][0-9][0-9][0-9][0-9][0-9]*", _STANDARD),
    ("claude*", _HIGH),
)
