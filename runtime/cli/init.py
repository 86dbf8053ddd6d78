"""`flyball init`: write a commented flyball.toml."""

import argparse
import json
import sys
from importlib.resources import files

from runtime.errors import ConfigError
from runtime.settings import Settings

_OVERWRITES = "exists already; --force overwrites it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what only this command has."""
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Write the file; return 0.

    Raises:
        ConfigError: the file exists, or cannot be written.
    """
    path = settings.config
    text = template()
    try:
        with path.open("w" if arguments.force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        remedy = "is a directory; name a file" if path.is_dir() else _OVERWRITES
        raise ConfigError(f"{path}: {remedy}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from error
    if arguments.json:
        sys.stdout.write(json.dumps({"ok": True, "config": str(path)}) + "\n")
    else:
        sys.stdout.write(
            f"{path} is written. Next: `flyball doctor` checks it, `flyball up` serves it.\n"
        )
    return 0


def template() -> str:
    """Return the commented configuration that `init` writes."""
    return (files("runtime.configuration") / "template.toml").read_text(encoding="utf-8")
