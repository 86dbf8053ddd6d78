"""How the words of a command line are read, and what is said where they cannot be."""

import argparse
import shutil
import textwrap
from collections.abc import Iterable
from enum import Enum
from typing import Any, NoReturn

from runtime.cli.commands import COMMANDS, listed, meant_by
from runtime.errors import RuntimeFaultError

_COLUMNS_MAX = 100
_SHARED = ("--config", "--state", "--json")
_NOTHING = "the following arguments are required: COMMAND"


class WrongWordsError(RuntimeFaultError):
    """The words of the command line cannot be read."""

    def __init__(self, message: str, *, usage: str) -> None:
        """Keep the usage, which a terminal is shown before the message."""
        super().__init__(message)
        self.usage = usage


class HelpText(argparse.HelpFormatter):
    """Help in which a line of an epilog that begins with two spaces stays as it is written."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        parts: list[str] = []
        for line in text.splitlines():
            if line.startswith("  ") or not line:
                parts.append(f"{indent}{line}")
            else:
                parts.append(
                    textwrap.fill(line, width, initial_indent=indent, subsequent_indent=indent)
                )
        return "\n".join(parts)


class WordParser(argparse.ArgumentParser):
    """A parser whose errors are raised, and name what may have been meant."""

    def add_subparsers(self, **more: Any) -> Any:
        """Return what deeds are added to; the help of each begins with what it is for."""
        deeds = super().add_subparsers(**more)
        make = deeds.add_parser

        def add_parser(name: str, **words: Any) -> argparse.ArgumentParser:
            about = words.get("help", "")
            words.setdefault("description", f"{about[:1].upper()}{about[1:]}." if about else None)
            words.setdefault("formatter_class", HelpText)
            made: argparse.ArgumentParser = make(name, **words)
            return made

        deeds.add_parser = add_parser  # type: ignore[method-assign]  # no class of it is public
        return deeds

    def add_argument(self, *names: str, **more: Any) -> argparse.Action:
        """Return an argument; one without a dash is shown in capitals: it is to be filled in."""
        if not names[0].startswith("-") and "choices" not in more:
            more.setdefault("metavar", names[0].upper())
        return super().add_argument(*names, **more)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return what was read; a word too many is told by the deed that it stands behind."""
        parsed, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"there is no place for {' '.join(map(repr, rest))}")
        return parsed, rest

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError as error:
            if action.type is int:
                message = f"{arg_string!r} is no whole number"
                raise argparse.ArgumentError(action, message) from error
            if isinstance(action.type, type) and issubclass(action.type, Enum):
                self._check_value(action, arg_string)
            raise

    def error(self, message: str) -> NoReturn:
        """Raise what is wrong, with the usage.

        Raises:
            WrongWordsError: always.
        """
        message = message.replace(_NOTHING, "name a command")
        raise WrongWordsError(
            f"{message}; `{self.prog} --help` shows what there is", usage=self.format_usage()
        )

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in _few(action.choices)]
        near = meant_by(str(value), known)
        hint = f" (did you mean {near}?)" if near else ""
        message = f"{value!r} is none of {', '.join(known)}{hint}"
        raise argparse.ArgumentError(action, message)


class TopParser(WordParser):
    """The parser of `flyball` itself, which shows every command without loading any."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return what was read; options that every command has stand behind its name."""
        first = args[0].partition("=")[0] if args else ""
        if first in _SHARED:
            command = next((word for word in args if word in COMMANDS), "COMMAND")
            self.error(f"{first} stands behind the command: {self.prog} {command} {first} …")
        return super().parse_known_args(args, namespace)

    def format_help(self) -> str:
        """Return what there is, a line for each command."""
        columns = min(shutil.get_terminal_size().columns, _COLUMNS_MAX)
        return "\n".join(
            (
                f"usage: {self.prog} COMMAND [--json] [--config FILE] [--state DIR] …",
                "",
                textwrap.fill(self.description or "", columns),
                "",
                listed(columns),
                "options:",
                "  -h, --help  what a command takes: flyball COMMAND --help",
                "  --version   which version this is",
                "",
                *textwrap.wrap(self.epilog or "", columns),
                "",
            )
        )

    def format_usage(self) -> str:
        """Return the usage in one line."""
        return f"usage: {self.prog} COMMAND [--json] [--config FILE] [--state DIR] …\n"

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if value in COMMANDS:
            return
        near = meant_by(str(value))
        hint = f"did you mean `{self.prog} {near}`? There" if near else "there"
        raise argparse.ArgumentError(
            None, f"no command is called {value!r}; {hint} are {', '.join(COMMANDS)}"
        )


def _few(choices: Iterable[Any]) -> Iterable[Any]:
    """Return choices that can be listed; those of a range are its ends."""
    if isinstance(choices, range):
        return (f"{choices.start} to {choices.stop - 1}",)
    return choices
