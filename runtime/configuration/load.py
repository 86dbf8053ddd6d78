"""Reading `flyball.toml`, with errors that name the key, the value and the fix."""

import re
import tomllib
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from runtime.configuration.care import BreakerTable
from runtime.configuration.model import Config, LoopTable
from runtime.configuration.models import PricesFile
from runtime.errors import ConfigError
from runtime.fault_words import field_at, nearest, plain_words

T = TypeVar("T", bound=BaseModel)

# How it is written instead; a bound says by itself where a number should be.
_FIXES = {
    "model_type": "write a table: { key = value }",
    "model_attributes_type": "write a table: { key = value }",
    "string_type": "put it in quotes",
    "bool_type": "write true or false, without quotes",
    "dict_type": "write a table: { key = value }",
}
# Keys that there were, and what stands in their place.
_MOVED = {"metrics": "metrics.cpu_watts is energy.watts_per_core now"}
_NO_CONFIG = "`flyball init` writes one, --config names another."
_NO_PRICES = "pricing.file names it; write it, or remove the key."
# A password may have any sign in it, unescaped ones too.
_USER = re.compile(r"//\S*@")
# Of a file with faults: how often what depends on a dropped table is dropped in turn.
_ROUNDS_MAX = 4
_NAMING_OTHERS = ("tier", "tier_rule", "turn_rule", "commons", "contention", "router", "strategy")
# What pydantic adds to a path that nobody wrote into the file.
_NO_KEYS = (
    "[key]",
    LoopTable.__name__,
    f"function-after[_is_in_order(), {BreakerTable.__name__}]",
)


def load_config(path: Path) -> Config:
    """Return the configuration in `path`.

    Raises:
        ConfigError: the file cannot be read or is not usable; every fault is listed.
    """
    return _placed(parse_config(_text_of(path, remedy=_NO_CONFIG), source=str(path)), path)


def load_sound_part(path: Path) -> tuple[Config | None, str]:
    """Return the configuration without the tables that have faults, and the faults in words.

    It is None where nothing of the file can be made sense of.
    """
    try:
        return load_config(path), ""
    except ConfigError as error:
        faults = str(error)
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None, faults
    for _ in range(_ROUNDS_MAX):
        try:
            return _placed(Config.model_validate(raw), path), faults
        except ValidationError as error:
            _drop_faulty(raw, [fault["loc"] for fault in error.errors()])
    return None, faults


def _drop_faulty(raw: dict[str, Any], places: Sequence[tuple[int | str, ...]]) -> None:
    """Take the tables that have faults out of a file, of lists of tables only those."""
    of_lists: dict[str, set[int]] = {}
    for place in places:
        match place:
            case (str(table), int(at), *_) if isinstance(raw.get(table), list):
                of_lists.setdefault(table, set()).add(at)
            case (str(table), *_):
                raw.pop(table, None)
            case _:
                # The tables contradict one another: those go that name others.
                for table in _NAMING_OTHERS:
                    raw.pop(table, None)
    for table, faulty in of_lists.items():
        listed = raw.get(table, ())
        raw[table] = [one for at, one in enumerate(listed) if at not in faulty]


def _placed(config: Config, path: Path) -> Config:
    # A path in the file is meant from where the file is, not from where somebody stands.
    tiers = tuple(
        tier
        if tier.tokenizer is None
        else tier.model_copy(update={"tokenizer": str((path.parent / tier.tokenizer).absolute())})
        for tier in config.tier
    )
    config = config.model_copy(update={"tier": tiers})
    if config.pricing.file is not None:
        prices = str((path.parent / config.pricing.file).absolute())
        pricing = config.pricing.model_copy(update={"file": prices})
        config = config.model_copy(update={"pricing": pricing})
    return config.model_copy(update={"strategy": config.strategy.beside(path.parent)})


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
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"{path}: cannot be read: {why}") from error


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
        raise ConfigError(
            "\n".join(f"{source}: {_explained(fault, kind)}" for fault in faults)
        ) from (error)


def config_version(config: Config) -> str:
    """Return a short name of exactly this configuration, for records."""
    return sha256(config.model_dump_json().encode()).hexdigest()[:12]


def _explained(fault: ErrorDetails, table: type[BaseModel]) -> str:
    keys = [part for part in fault["loc"] if part not in _NO_KEYS]
    where = _path(keys) or "the file"
    kind = fault["type"]
    if kind == "extra_forbidden":
        moved = _MOVED.get(where)
        return f"{where}: " + (
            f"there is no such key; {moved}" if moved else nearest([table], keys, noun="key")
        )
    if kind == "missing":
        return f"{where}: is required; add it"
    value = "" if isinstance(fault["input"], (dict, BaseModel)) else f" = {_shown(fault['input'])}"
    fix = _fix_of(fault, keys, table)
    return f"{where}{value}: {plain_words(fault)}" + (f"; {fix}" if fix else "")


def _shown(value: object) -> str:
    """Return the beginning of a value, without the user and password of a URL in it."""
    return f"{_USER.sub('//…@', repr(value)):.80}"


def _fix_of(fault: ErrorDetails, keys: Sequence[int | str], table: type[BaseModel]) -> str | None:
    given = fault["input"]
    match fault["type"]:
        case "tuple_type" if isinstance(given, dict):
            return f"write [[{_path(keys)}]], with two brackets: there can be several"
        case "tuple_type":
            is_numbers = int in _leaves(field_at(table, keys))
            return "write a list: " + ("[500, 900]" if is_numbers else '["…", "…"]')
        case "int_type" if isinstance(given, str):
            return "write a whole number without quotes"
        case "int_type":
            return "write a whole number"
        case kind:
            return _FIXES.get(kind)


def _leaves(annotation: Any) -> Iterator[object]:
    """Yield the types that an annotation is made of."""
    yield annotation
    for part in get_args(annotation):
        yield from _leaves(part)


def _is_about_another_choice(fault: ErrorDetails) -> bool:
    """Tell whether the fault is only that a table is not the word that could stand there too."""
    return any(str(part).startswith("literal[") for part in fault["loc"])


def _path(parts: Sequence[int | str]) -> str:
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text
