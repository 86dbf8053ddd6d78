"""How the words of a command line are read, and what is said where they cannot be."""

import argparse
import shutil
import textwrap
from collections.abc import Iterable
from typing import Any, NoReturn

from runtime.cli.commands import COMMANDS, listed, meant_by
from runtime.errors import RuntimeFaultError

_COLUMNS_MAX = 100
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
        hint = f", did you mean `{self.prog} {near}`?" if near else ";"
        raise argparse.ArgumentError(
            None, f"there is no command {value!r}{hint} There are {', '.join(COMMANDS)}"
        )


def _few(choices: Iterable[Any]) -> Iterable[Any]:
    """Return choices that can be listed; those of a range are its ends."""
    if isinstance(choices, range):
        return (f"{choices.start} to {choices.stop - 1}",)
    return choices
