"""Reading `flyball.toml`, with errors that name the key, the value and the fix."""

import tomllib
from collections.abc import Sequence
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from runtime.configuration.model import Config, LoopTable, PricesFile
from runtime.errors import ConfigError

T = TypeVar("T", bound=BaseModel)

# What a value should be, where the model's own words are about Python.
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
    "dict_type": "should be a table",
    "model_type": "should be a table",
    "model_attributes_type": "should be a table",
}
_FIXES = {
    "missing": "add it",
    "model_type": "write a table: { key = value }",
    "model_attributes_type": "write a table: { key = value }",
    "string_type": "put it in quotes",
    "int_type": "write a whole number without quotes",
    "int_from_float": "write a whole number",
    "int_parsing": "write a whole number without quotes",
    "bool_type": "write true or false, without quotes",
    "bool_parsing": "write true or false, without quotes",
    "tuple_type": 'write a list: ["…", "…"]',
    "dict_type": "write a table: { key = value }",
    "greater_than": "write a larger number",
    "greater_than_equal": "write a number that is large enough",
    "less_than_equal": "write a smaller number",
}
# Keys that there were, and what stands in their place.
_MOVED = {"metrics": "metrics.cpu_watts is energy.watts_per_core now"}
_NO_CONFIG = "`flyball init` writes one, --config names another."
_NO_PRICES = "pricing.file names it; write it, or remove the key."
# What pydantic adds to a path that nobody wrote into the file.
_NO_KEYS = ("[key]", LoopTable.__name__)


def load_config(path: Path) -> Config:
    """Return the configuration in `path`.

    Raises:
        ConfigError: the file cannot be read or is not usable; every fault is listed.
    """
    config = parse_config(_text_of(path, remedy=_NO_CONFIG), source=str(path))
    if config.pricing.file is None:
        return config
    # A path in the file is meant from where the file is, not from where somebody stands.
    prices = str((path.parent / config.pricing.file).absolute())
    pricing = config.pricing.model_copy(update={"file": prices})
    return config.model_copy(update={"pricing": pricing})


def load_prices(path: Path) -> PricesFile:
    """Return the prices in `path`.

    Raises:
        ConfigError: the file cannot be read or is not usable; every fault is listed.
    """
    return _parsed(PricesFile, _text_of(path, remedy=_NO_PRICES), source=str(path))


def _text_of(path: Path, *, remedy: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file. {remedy}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error


def parse_config(text: str, *, source: str) -> Config:
    """Return the configuration in `text`; `source` names it in errors.

    Raises:
        ConfigError: it is not TOML, or not usable; every fault is listed.
    """
    return _parsed(Config, text, source=source)


def _parsed(kind: type[T], text: str, *, source: str) -> T:
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source}: not valid TOML: {error}") from error
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        faults = [fault for fault in error.errors() if not _is_about_another_choice(fault)]
        raise ConfigError("\n".join(f"{source}: {_explained(fault)}" for fault in faults)) from (
            error
        )


def config_version(config: Config) -> str:
    """Return a short name of exactly this configuration, for records."""
    return sha256(config.model_dump_json().encode()).hexdigest()[:12]


def _explained(fault: ErrorDetails) -> str:
    keys = [part for part in fault["loc"] if part not in _NO_KEYS]
    where = _path(keys) or "the file"
    kind = fault["type"]
    message = _KINDS.get(kind) or (
        fault["msg"].removeprefix("Value error, ").replace("Input should", "should", 1)
    )
    if kind == "extra_forbidden":
        return f"{where}: there is no such key; {_MOVED.get(where) or _nearest(keys)}"
    if kind == "missing":
        return f"{where}: is required; {_FIXES[kind]}"
    value = "" if isinstance(fault["input"], (dict, BaseModel)) else f" = {fault['input']!r:.80}"
    fix = _FIXES.get(kind)
    if kind == "tuple_type" and isinstance(fault["input"], dict):
        fix = f"write [[{where}]], with two brackets: there can be several"
    return f"{where}{value}: {message}" + (f"; {fix}" if fix else "")


def _is_about_another_choice(fault: ErrorDetails) -> bool:
    """Tell whether the fault is only that a table is not the word that could stand there too."""
    return any(str(part).startswith("literal[") for part in fault["loc"])


def _path(parts: Sequence[int | str]) -> str:
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _nearest(parts: Sequence[int | str]) -> str:
    """Return a hint at the key that was probably meant."""
    tables: list[type[BaseModel]] = [Config]
    for part in parts[:-1]:
        if isinstance(part, str):
            tables = [found for table in tables for found in _tables_of(table, part)]
    known = list(dict.fromkeys(key for table in tables for key in table.model_fields))
    close = get_close_matches(str(parts[-1]), known, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"remove it, or use one of: {', '.join(known)}" if known else "remove it"


def _tables_of(table: type[BaseModel], key: str) -> list[type[BaseModel]]:
    """Return the tables that may stand under `key`."""
    field = table.model_fields.get(key)
    if field is None:
        return []
    candidates = [field.annotation, *getattr(field.annotation, "__args__", ())]
    return [one for one in candidates if isinstance(one, type) and issubclass(one, BaseModel)]
