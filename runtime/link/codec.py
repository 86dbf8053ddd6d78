"""Values of the house as plain values that MessagePack holds, and back, by their type hints.

This is for the few types that the encoder in C does not know: choices between classes. Nothing
that a peer sends can name a class, a module or a function.
"""

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from datetime import UTC, tzinfo
from enum import Enum
from functools import cache, partial
from operator import attrgetter
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

Convert = Callable[[Any], Any]

_PLAIN = frozenset({int, str, bool, bytes, float, type(None), object})
_MAPPINGS = frozenset({dict, Mapping})
# The one zone that is not known by a name of the time zone database.
_UTC = "+00:00"


class Codec(NamedTuple):
    """How values of one type are packed and unpacked; None where they are plain already."""

    pack: Convert | None
    unpack: Convert | None


_AS_IS = Codec(None, None)


@cache
def codec_of(hint: Any) -> Codec:
    """Return the codec of a type hint.

    Raises:
        TypeError: values of that type are not sent between processes.
    """
    if isinstance(hint, typing.NewType):
        return codec_of(hint.__supertype__)
    if hint in _PLAIN:
        return _AS_IS
    origin = typing.get_origin(hint)
    if origin is not None:
        return _of_generic(hint, origin)
    if isinstance(hint, type):
        return _of_class(hint)
    raise TypeError(f"{hint} is not sent between processes")


def _of_class(kind: type) -> Codec:
    if issubclass(kind, Enum):
        return Codec(attrgetter("value"), kind)
    if dataclasses.is_dataclass(kind):
        return _of_fields(kind, [one.name for one in dataclasses.fields(kind) if one.init])
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _of_fields(kind, list(kind._fields))
    if issubclass(kind, tzinfo):
        return Codec(_zone_name, _zone)
    raise TypeError(f"{kind} is not sent between processes")


def _of_generic(hint: Any, origin: Any) -> Codec:
    parts = typing.get_args(hint)
    if origin in {typing.Union, types.UnionType}:
        return _of_union(parts)
    if origin in _MAPPINGS:
        key, value = (_converts(codec_of(part)) for part in parts)
        return Codec(partial(_mapped, key[0], value[0]), partial(_mapped, key[1], value[1]))
    if origin is tuple and len(parts) == 2 and parts[1] is ...:  # noqa: PLR2004 - "X, ..."
        pack, unpack = _converts(codec_of(parts[0]))
        return Codec(partial(_each, list, pack), partial(_each, tuple, unpack))
    if origin is tuple:
        codecs = [_converts(codec_of(part)) for part in parts]
        packs, unpacks = [one[0] for one in codecs], [one[1] for one in codecs]
        return Codec(partial(_in_turn, list, packs), partial(_in_turn, tuple, unpacks))
    if origin is frozenset:
        pack, unpack = _converts(codec_of(parts[0]))
        return Codec(partial(_each, list, pack), partial(_each, frozenset, unpack))
    raise TypeError(f"{hint} is not sent between processes")


def _of_union(parts: tuple[Any, ...]) -> Codec:
    """Return the codec of a choice: which of the types it is, and the value; None by itself."""
    kinds = [part for part in parts if part is not type(None)]
    codecs = [codec_of(kind) for kind in kinds]
    if all(codec == _AS_IS for codec in codecs):
        return _AS_IS
    converts = [_converts(codec) for codec in codecs]
    if len(kinds) == 1:
        pack, unpack = converts[0]
        return Codec(
            lambda value: None if value is None else pack(value),
            lambda value: None if value is None else unpack(value),
        )
    by_type = {
        class_of(kind): (number, convert[0])
        for number, (kind, convert) in enumerate(zip(kinds, converts, strict=True))
    }
    unpacks = [convert[1] for convert in converts]

    def pack_one(value: Any) -> Any:
        if value is None:
            return None
        number, pack = by_type[type(value)]
        return [number, pack(value)]

    def unpack_one(value: Any) -> Any:
        return None if value is None else unpacks[value[0]](value[1])

    return Codec(pack_one, unpack_one)


def class_of(kind: Any) -> type:
    """Return the class that the values of a kind are of."""
    while isinstance(kind, typing.NewType):
        kind = kind.__supertype__
    found = typing.get_origin(kind) or kind
    assert isinstance(found, type), "a choice is between classes"
    return found


def _of_fields(kind: Any, names: list[str]) -> Codec:
    """Return the codec of a class by its fields; what they hold is converted where it must be."""
    hints = typing.get_type_hints(kind)
    codecs = [codec_of(hints[name]) for name in names]
    packed = [(at, codec.pack) for at, codec in enumerate(codecs) if codec.pack is not None]
    unpacked = [(at, codec.unpack) for at, codec in enumerate(codecs) if codec.unpack is not None]
    is_named = issubclass(kind, tuple)
    read = list if is_named else _reader(names)

    def pack(value: Any) -> list[Any]:
        fields = read(value)
        for at, convert in packed:
            fields[at] = convert(fields[at])
        return fields

    def unpack(fields: list[Any]) -> Any:
        for at, convert in unpacked:
            fields[at] = convert(fields[at])
        if is_named or not is_by_keyword:
            return kind(*fields)
        return kind(**dict(zip(names, fields, strict=True)))

    is_by_keyword = not is_named and any(field.kw_only for field in dataclasses.fields(kind))
    return Codec(pack, unpack)


def _reader(names: list[str]) -> Convert:
    if not names:
        return lambda _: []
    if len(names) == 1:
        (name,) = names
        return lambda value: [getattr(value, name)]
    read = attrgetter(*names)
    return lambda value: list(read(value))


def _converts(codec: Codec) -> tuple[Convert, Convert]:
    return codec.pack or _same, codec.unpack or _same


def _same(value: Any) -> Any:
    return value


def _mapped(key: Convert, value: Convert, mapping: Mapping[Any, Any]) -> dict[Any, Any]:
    return {key(name): value(one) for name, one in mapping.items()}


def _each(kind: Callable[[list[Any]], Any], convert: Convert, values: Any) -> Any:
    return kind([convert(value) for value in values])


def _in_turn(kind: Callable[[list[Any]], Any], converts: list[Convert], values: Any) -> Any:
    return kind([convert(value) for convert, value in zip(converts, values, strict=True)])


def _zone_name(zone: tzinfo) -> str:
    return zone.key if isinstance(zone, ZoneInfo) else _UTC


def _zone(name: str) -> tzinfo:
    return UTC if name == _UTC else ZoneInfo(name)
