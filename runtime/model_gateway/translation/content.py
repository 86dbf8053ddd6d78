"""Texts, images and files of a conversation, as either wire writes them."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from runtime.model_gateway.translation.refusing import untold

_DATA = re.compile(r"data:([a-z]+/[A-Za-z0-9.+-]+);base64,(.*)", re.DOTALL)
_PDF = "application/pdf"
_FILE_NAME = "document.pdf"

Block = dict[str, Any]


def blocks_of(content: object, *, where: str, is_text_alone: bool = False) -> list[Block]:
    """Return what a chat message holds as blocks; no text at all is no block.

    Raises:
        InvalidRequestError: a part cannot be said in messages.
    """
    if content is None or isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    if not isinstance(content, Sequence):
        raise untold(where)
    blocks = (_block(part, where=where, is_text_alone=is_text_alone) for part in content)
    return [block for block in blocks if block.get("text") != ""]


def _block(part: object, *, where: str, is_text_alone: bool) -> Block:
    match part:
        case {"type": "text", "text": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "refusal", "refusal": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "image_url", "image_url": {"url": str(url)}} if not is_text_alone:
            return {"type": "image", "source": _source(url, where=where)}
        case {"type": "file", "file": {"file_data": str(url)}} if not is_text_alone:
            found = _DATA.fullmatch(url)
            if found is not None and found[1] == _PDF:
                return {"type": "document", "source": _base64(_PDF, found[2])}
    raise untold(where, "holds a part that cannot be said")


def _source(url: str, *, where: str) -> Block:
    found = _DATA.fullmatch(url)
    if found is not None:
        return _base64(found[1], found[2])
    if url.startswith(("http://", "https://")):
        return {"type": "url", "url": url}
    raise untold(where, "holds an image whose address cannot be said")


def _base64(media_type: str, data: str) -> Block:
    return {"type": "base64", "media_type": media_type, "data": data}


def text_of(content: object, *, where: str) -> str | list[Block]:
    """Return a message's texts for chat: as one string where there is one.

    Raises:
        InvalidRequestError: there is something else than text.
    """
    parts = list(_parts(content, where=where))
    if any(part["type"] != "text" for part in parts):
        raise untold(where, "holds more than text, which cannot be said there")
    return plain(parts)


def parts_of(content: object, *, where: str) -> list[Block]:
    """Return what blocks of a message hold as parts of a chat message.

    Raises:
        InvalidRequestError: a block cannot be said in chat.
    """
    return list(_parts(content, where=where))


def plain(parts: list[Block]) -> str | list[Block]:
    """Return one text as a string, which every server reads; anything else as it is."""
    if not parts:
        return ""
    only = parts[0]
    return only["text"] if len(parts) == 1 and only["type"] == "text" else parts


def _parts(content: object, *, where: str) -> Iterator[Block]:
    if content is None:
        return
    if isinstance(content, str):
        if content:
            yield {"type": "text", "text": content}
        return
    if not isinstance(content, Sequence):
        raise untold(where)
    for block in content:
        part = _part(block)
        if part is None:
            raise untold(where, "holds a block that cannot be said")
        yield part


def _part(block: object) -> Block | None:
    match block:
        case {"type": "text", "text": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}:
            return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}}
        case {"type": "image", "source": {"type": "url", "url": str(url)}}:
            return {"type": "image_url", "image_url": {"url": url}}
        case {"type": "document", "source": {"type": "text", "data": str(text)}}:
            return {"type": "text", "text": text}
        case {"type": "document", "source": {"type": "base64", "media_type": kind, "data": data}}:
            url = f"data:{kind};base64,{data}"
            return {"type": "file", "file": {"filename": _FILE_NAME, "file_data": url}}
        case _:
            return None
