"""The page of every command with its words, from the parser that reads them."""

import argparse
from collections.abc import Iterator

from docs.tools.markdown import code, page, table
from runtime.cli.command_line import parser_with
from runtime.cli.commands import COMMANDS, Group

_SHARED = ("--config", "--state", "--json")
_SHOWN_DEFAULTS = (str, int, float)


def commands_page() -> str:
    """Return the page."""
    parser = parser_with(list(COMMANDS))
    intro = (
        "Every command takes `--config FILE` (`flyball.toml` unless said), `--state DIR` "
        "(`.flyball` unless said) and `--json`, which prints one JSON document in place of a text; "
        'an error is then `{"ok": false, "error": "…"}`. The status is 0 when it went well, 1 when '
        "something was refused or is not as it should be, 2 when the command could not be done "
        "(and when its words are wrong), 130 after Ctrl-C; `up`, once it serves, and `top` "
        "end with 0 then, because it is how they are meant to end."
    )
    parts = [intro]
    for group in Group:
        parts.append(f"## {group.value.capitalize()}")
        names = {f"{parser.prog} {each.name}" for each in COMMANDS.values() if each.group is group}
        parts.extend(
            _written(name, command)
            for name, command in _commands(parser)
            if " ".join(name.split()[:2]) in names
        )
    return page("Commands", "the parsers of `runtime/cli`", *parts)


def _commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:  # noqa: SLF001 - argparse shows its parsers nowhere else
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for name, command in action.choices.items():
                yield f"{parser.prog} {name}", command
                yield from (
                    (inner, found) for inner, found in _commands(command) if inner != command.prog
                )


def _written(name: str, command: argparse.ArgumentParser) -> str:
    level = "###" if name.count(" ") == 1 else "####"
    rows = [
        (_words_of(action), _said(action, command))
        for action in command._actions  # noqa: SLF001
        if not isinstance(action, argparse._SubParsersAction | argparse._HelpAction)  # noqa: SLF001
        and not set(action.option_strings) & set(_SHARED)
        and action.help != argparse.SUPPRESS
    ]
    parts = [f"{level} `{name}`", (command.description or "").strip()]
    if rows:
        parts.append(table(("words", "what they do"), rows))
    parts.extend(map(_paragraph, (command.epilog or "").strip("\n").split("\n\n")))
    return "\n\n".join(filter(None, parts))


def _paragraph(text: str) -> str:
    """Return a paragraph of what stands below the words; lines that are set in are examples."""
    lines = text.split("\n")
    if text.startswith("  "):
        shown = "\n".join(line.removeprefix("  ") for line in lines)
        return f"```text parse\n{shown}\n```"
    return " ".join(text.split())


def _words_of(action: argparse.Action) -> str:
    value = _value_of(action)
    if not action.option_strings:
        is_optional = action.nargs in ("?", "*", argparse.REMAINDER)
        return code(f"[{value}]" if is_optional else value)
    shown = ", ".join(action.option_strings)
    return code(shown if action.nargs == 0 else f"{shown} {value}")


def _value_of(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    if action.choices:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return action.dest.upper()


def _said(action: argparse.Action, command: argparse.ArgumentParser) -> str:
    words = (action.help or "") % {"prog": command.prog, "default": action.default}
    is_shown = isinstance(action.default, _SHOWN_DEFAULTS) and not isinstance(action.default, bool)
    if is_shown and "default" not in words and action.default not in ("", argparse.SUPPRESS):
        words = f"{words} (default: {action.default})" if words else f"default: {action.default}"
    must = " *Required.*" if action.required and action.option_strings else ""
    return words + must
