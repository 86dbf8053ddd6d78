"""Secrets that the file names by the variable of the environment that holds them."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from runtime.errors import ConfigError
from runtime.settings import secret_from_environment, unset
from runtime.withheld import withhold


def secret_named(variable: str, where: str) -> str:
    """Return what the variable holds that stands in the file at `where`.

    Raises:
        ConfigError: it is not set.
    """
    value = secret_from_environment(variable)
    if value is None:
        raise ConfigError(f"{where}: {unset(variable)}")
    return withhold(value)


def secret_variables_in(config: Path) -> frozenset[str]:
    """Return the variables that hold the secrets of a file, none where there is no file.

    It is read as it stands: what only starts an agent need not understand the whole of it.

    Raises:
        ConfigError: it cannot be read.
    """
    if not config.exists():
        return frozenset()
    try:
        return frozenset(_named_in(tomllib.loads(config.read_text(encoding="utf-8"))))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{config}: {error}") from error


def _named_in(table: Mapping[str, object]) -> Iterator[str]:
    for key, value in table.items():
        for one in value if isinstance(value, list) else [value]:
            if key.endswith("_from"):
                yield from _texts_of(one)
            elif isinstance(one, Mapping):
                yield from _named_in(one)


def _texts_of(value: object) -> Iterator[str]:
    values = value.values() if isinstance(value, Mapping) else [value]
    yield from (one for one in values if isinstance(one, str))
