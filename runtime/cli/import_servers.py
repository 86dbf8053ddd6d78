"""`flyball import`: take the MCP servers of another program's configuration."""

import argparse
import json
import os
import sys
from pathlib import Path

from runtime.configuration.load import load_config, parse_config
from runtime.configuration.model import Config
from runtime.errors import ConfigError
from runtime.mcp_servers import Imported, NotAListError, imported_of
from runtime.settings import Settings

_BUILT_IN = ("builtin", "local")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add which file to read."""
    parser.add_argument("file", type=Path, metavar="FILE", help="JSON with `mcpServers`")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Add the servers to the file and say what was taken; return 1 if none was taken.

    Raises:
        ConfigError: one of the files cannot be read or written, or they contradict each other.
    """
    path = settings.config
    config = load_config(path) if path.exists() else Config()
    names = {upstream.name for upstream in config.upstream}
    imported = _read(arguments.file, names)
    if imported.taken:
        _write(path, "".join(f"\n{taken.table}" for taken in imported.taken))
    if arguments.json:
        sys.stdout.write(json.dumps(_shape(imported, path)) + "\n")
    else:
        sys.stdout.write(_text(imported, path))
    return 0 if imported.taken else 1


def _read(path: Path, names: set[str]) -> Imported:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{path}: is no JSON: {error}") from error
    try:
        return imported_of(document, names_taken={*names, *_BUILT_IN})
    except NotAListError as error:
        raise ConfigError(f"{path}: {error}") from error


def _write(path: Path, tables: str) -> None:
    """Put `tables` at the end of the file, once the whole is known to be valid."""
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    text = (before if before.endswith("\n") or not before else f"{before}\n") + tables
    text = text.lstrip("\n")
    parse_config(text, source=str(path))
    try:
        # There may be keys in it: a new file is its owner's alone, an old one keeps its mode.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from error


def _shape(imported: Imported, path: Path) -> dict[str, object]:
    return {
        "ok": bool(imported.taken),
        "config": str(path),
        "taken": [
            {"listed_as": one.listed_as, "name": one.name, "notes": list(one.notes)}
            for one in imported.taken
        ],
        "left": [{"listed_as": one.listed_as, "why": one.why} for one in imported.left],
    }


def _text(imported: Imported, path: Path) -> str:
    lines = []
    for taken in imported.taken:
        lines.append(f"taken  {taken.listed_as}")
        lines.extend(f"       {note}" for note in taken.notes)
    lines.extend(f"left   {left.listed_as}: {left.why}" for left in imported.left)
    if imported.taken:
        lines.append(f"{path} has them. Next: `flyball doctor` checks it.")
    return "\n".join(lines or ["no servers are listed"]) + "\n"
