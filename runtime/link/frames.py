"""Frames: messages on a stream of bytes, each behind its length, and who is at the other end."""

import os
import socket
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from runtime.link.forms import of_mapping

# An archive entry is at most 64 MiB; nothing else comes near.
FRAME_BYTES_MAX = 72 * 1024 * 1024
_LENGTH = struct.Struct(">I")
_UCRED = struct.Struct("3i")


_encode = msgspec.msgpack.Encoder(enc_hook=of_mapping).encode


def framed(message: Any, *, escaped: bool = False) -> bytes:
    """Return a message as it is sent; `escaped` writes text that no UTF-8 holds as escapes.

    Raises:
        UnicodeEncodeError: a text is none, and `escaped` is not asked for.
        ValueError: it is larger than a frame may be.
    """
    try:
        body = _encode(message)
    except UnicodeEncodeError:
        if not escaped:
            raise
        body = _encode(_escaped(msgspec.to_builtins(message, enc_hook=of_mapping)))
    if len(body) > FRAME_BYTES_MAX:
        message_size = f"{len(body)} bytes are more than {FRAME_BYTES_MAX}"
        raise ValueError(message_size)
    return _LENGTH.pack(len(body)) + body


class Frames:
    """What has come of a stream, and the frames that are whole."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._buffer = bytearray()

    def taken(self, data: bytes) -> Iterator[bytes]:
        """Yield the frames that `data` completes.

        Raises:
            ValueError: one is too large.
        """
        buffer = self._buffer
        buffer += data
        start = 0
        while len(buffer) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(buffer, start)
            if length > FRAME_BYTES_MAX:
                message = f"a frame of {length} bytes"
                raise ValueError(message)
            end = start + _LENGTH.size + length
            if len(buffer) < end:
                break
            frame = bytes(buffer[start + _LENGTH.size : end])
            start = end
            yield frame
        del buffer[:start]


def is_of_this_user(peer: socket.socket) -> bool:
    """Tell whether the process at the other end runs as this user, or as root.

    Where the system does not say, the mode of the socket and of its directory stand for it.
    """
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    told = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    _, uid, _ = _UCRED.unpack(told)
    return uid in {0, os.geteuid()}


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, Mapping):
        return {_escaped(key): _escaped(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_escaped(one) for one in value]
    return value
