"""How values of a type are written and read: in C where that knows the type, else here.

Both ends are of one version and know the types of each operation.
"""

import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import msgspec

from runtime.link.codec import class_of, codec_of


class Form(NamedTuple):
    """What is encoded for a value, the value itself if None, and how it is read from bytes."""

    plain: Callable[[Any], Any] | None
    read: Callable[[Any], Any]


def of_mapping(value: object) -> object:
    """Return what MessagePack holds of a mapping that nobody can change."""
    if isinstance(value, Mapping):
        return dict(value)
    message = f"{type(value).__name__} is not sent between processes"
    raise TypeError(message)


_Choice = tuple[int, msgspec.Raw]
_read_choice = msgspec.msgpack.Decoder(_Choice).decode
_read_any = msgspec.msgpack.Decoder().decode


@cache
def form_of(hint: Any) -> Form:
    """Return the form of a type hint.

    Raises:
        TypeError: values of that type are not sent between processes.
    """
    kinds = typing.get_args(hint)
    is_choice = typing.get_origin(hint) in {typing.Union, types.UnionType}
    if is_choice and sum(kind is not type(None) for kind in kinds) > 1:
        return _of_choice(kinds)
    try:
        return Form(None, msgspec.msgpack.Decoder(hint).decode)
    except TypeError:
        pack, unpack = codec_of(hint)
        assert unpack is not None, "what is plain is known in C"
        return Form(pack, lambda raw: unpack(_read_any(raw)))


def _of_choice(kinds: tuple[Any, ...]) -> Form:
    """Return the form of a choice: the number of the class, and the value as of that class."""
    forms = [form_of(kind) for kind in kinds]
    assert all(form.plain is None for form in forms), "each of them is known in C"
    numbers = {class_of(kind): number for number, kind in enumerate(kinds)}

    def read(raw: Any) -> Any:
        number, value = _read_choice(raw)
        return forms[number].read(value)

    return Form(lambda value: (numbers[type(value)], value), read)
