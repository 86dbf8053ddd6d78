"""What an image in a request tells of itself before it is sent."""

from runtime.model_gateway.model_request import ImagePart

_INLINE = "data:"


def image_part(url: str, *, detail: str = "auto") -> ImagePart:
    """Return what is known of an image by its address, which may hold the image itself."""
    return ImagePart(detail=detail, encoded_bytes=len(url) if url.startswith(_INLINE) else 0)
