"""What was found in a request while it was read."""

from dataclasses import dataclass, field

from runtime.model_gateway.model_request import Asked, ImagePart, Uncounted


@dataclass(slots=True)
class Found:
    """What a request holds besides the text that its bytes bound; a wire adds what it needs."""

    images: list[ImagePart] = field(default_factory=list)
    uncounted: list[Uncounted] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    # Beyond what the bytes that are sent stand for.
    more_tokens: int = 0
    writes_cache: bool = False
