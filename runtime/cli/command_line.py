"""The command line: which command, with which words, and how its errors are shown."""

import argparse
import importlib
import io
import json
import os
import sys
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from pydantic import ValidationError

from ebpf.errors import EbpfError
from memory_store.errors import StoreError
from runtime.cli.commands import COMMANDS
from runtime.cli.words import HelpText, TopParser, WordParser, WrongWordsError
from runtime.collector import loading
from runtime.errors import ConfigError, RuntimeFaultError, leaves_of
from runtime.settings import Settings, keep_to_one_thread
from runtime.version import VERSION

EXIT_FAULT = 2
EXIT_INTERRUPTED = 130
# What a shell shows for a program that SIGPIPE ended.
EXIT_BROKEN_PIPE = 141

_SHOWN = (RuntimeFaultError, StoreError, EbpfError)


def run(words: Sequence[str]) -> int:
    """Run one command and return its status; what stops it is told in a sentence."""
    if words[:1] == ["eval"]:
        keep_to_one_thread()
    _spell_out()
    # What follows `--` is another program's.
    as_json = "--json" in takewhile(lambda word: word != "--", words)
    try:
        with loading():
            parser = parser_of(words)
        parsed = parser.parse_args(words)
        as_json = parsed.json
        status: int = parsed.run(parsed, _settings(parsed))
        sys.stdout.flush()
    except BaseException as error:
        known = _status_of(error, as_json=as_json)
        if known is None:
            raise
        return known
    return status


def _spell_out() -> None:
    """Let what the output's encoding lacks be spelt out: it is no reason to fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _settings(parsed: argparse.Namespace) -> Settings:
    """Return the settings; the command line goes before the environment.

    Raises:
        ConfigError: a variable has a value that cannot be used.
    """
    try:
        settings = Settings()
    except ValidationError as error:
        lines = [
            f"FLYBALL_{'_'.join(map(str, fault['loc'])).upper()} = {fault['input']!r:.80}: "
            + fault["msg"].replace("Input should", "should", 1)
            for fault in error.errors()
        ]
        raise ConfigError("\n".join(lines)) from error
    if parsed.config is not None:
        settings = settings.model_copy(update={"config": parsed.config})
    if parsed.state is not None:
        settings = settings.model_copy(update={"state": parsed.state.absolute()})
    return settings


def _status_of(error: BaseException, *, as_json: bool) -> int | None:
    """Tell what stopped a command and return its status; None for a fault of ours.

    Task groups wrap what ends them, so it is the leaves that count; one error often ends
    several tasks, so each sentence is told once.
    """
    leaves = list(leaves_of(error))
    if all(isinstance(leaf, KeyboardInterrupt) for leaf in leaves):
        return EXIT_INTERRUPTED
    if all(isinstance(leaf, BrokenPipeError) for leaf in leaves):
        _forget_output()
        return EXIT_BROKEN_PIPE
    if len(leaves) == 1 and isinstance(leaves[0], WrongWordsError) and not as_json:
        sys.stderr.write(leaves[0].usage)
    if all(isinstance(leaf, _SHOWN) for leaf in leaves):
        _complain("\n".join(dict.fromkeys(map(str, leaves))), as_json=as_json)
        return EXIT_FAULT
    return None


def _forget_output() -> None:
    """Let what nobody reads any more go nowhere, or the interpreter would fail at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())


def parser_of(words: Sequence[str]) -> argparse.ArgumentParser:
    """Return what reads `words`: it knows the one command that they begin with.

    A command that asks the sidecar needs little of what one that serves does, which takes
    seconds to load; who asks for the version, or which commands there are, needs nothing.
    """
    return parser_with([name for name in words[:1] if name in COMMANDS])


def parser_with(names: Sequence[str]) -> argparse.ArgumentParser:
    """Return a parser of the commands of these names, whose modules are loaded."""
    shared = WordParser(add_help=False)
    shared.add_argument("--config", type=Path, metavar="FILE", help="default: flyball.toml")
    shared.add_argument("--state", type=Path, metavar="DIR", help="default: .flyball")
    shared.add_argument("--json", action="store_true", help="answer in JSON")
    parser = TopParser(
        prog="flyball",
        description="A governor between AI agents and everything they spend.",
        epilog="New here? `flyball init` writes a commented flyball.toml; `flyball up` serves it.",
    )
    parser.add_argument("--version", action="version", version=f"flyball {VERSION}")
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", required=True, parser_class=WordParser
    )
    for name in names:
        known = COMMANDS[name]
        module = importlib.import_module(known.path)
        command = commands.add_parser(
            name,
            parents=[shared],
            help=known.about,
            description=known.about,
            formatter_class=HelpText,
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser


def _complain(message: str, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps({"ok": False, "error": message}) + "\n")
    else:
        sys.stderr.write(f"flyball: {message}\n")
