"""What pydantic finds wrong with a value, in words that need no knowledge of Python."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from runtime.naming import ID_PATTERN, ID_RULE

_KINDS = {
    "string_type": "should be a text",
    "int_type": "should be a whole number",
    "int_from_float": "should be a whole number",
    "int_parsing": "should be a whole number",
    "float_type": "should be a number",
    "float_parsing": "should be a number",
    "decimal_type": "should be a number",
    "decimal_parsing": "should be a number",
    "bool_type": "should be true or false",
    "bool_parsing": "should be true or false",
    "tuple_type": "should be a list",
    "list_type": "should be a list",
    "dict_type": "should be a table",
    "model_type": "should be a table",
    "model_attributes_type": "should be a table",
}


def plain_words(fault: ErrorDetails) -> str:
    """Return what is wrong with a value, without the value."""
    kind = fault["type"]
    bounds: dict[str, Any] = fault.get("ctx", {})
    match kind:
        case "too_short" | "string_too_short" if bounds["min_length"] == 1:
            return "should not be empty"
        case "string_pattern_mismatch" if bounds["pattern"] == ID_PATTERN:
            return ID_RULE
        case _:
            words = fault["msg"].removeprefix("Value error, ")
            return _KINDS.get(kind) or words.replace("Input should", "should", 1)


def nearest(tables: Sequence[type[BaseModel]], path: Sequence[int | str], *, noun: str) -> str:
    """Return that the last of `path` is unknown, with a hint at the one that was meant."""
    for part in path[:-1]:
        if isinstance(part, str):
            tables = [found for table in tables for found in _tables_of(table, part)]
    known = list(dict.fromkeys(key for table in tables for key in table.model_fields))
    close = get_close_matches(str(path[-1]), known, n=1)
    if close:
        hint = f"did you mean {close[0]!r}?"
    else:
        hint = f"remove it, or use one of: {', '.join(known)}" if known else "remove it"
    return f"there is no such {noun}; {hint}"


def field_at(table: type[BaseModel], path: Sequence[int | str]) -> Any:
    """Return the annotation of what stands at `path`, None where nothing is known of it."""
    *above, last = path
    tables = [table]
    for part in above:
        if isinstance(part, str):
            tables = [found for each in tables for found in _tables_of(each, part)]
    fields = (each.model_fields.get(str(last)) for each in tables)
    return next((field.annotation for field in fields if field is not None), None)


def tables_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the tables that an annotation allows, alone, among others or in a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from tables_in(part)


def _tables_of(table: type[BaseModel], key: str) -> list[type[BaseModel]]:
    """Return the tables that may stand under `key`."""
    field = table.model_fields.get(key)
    return [] if field is None else list(tables_in(field.annotation))
