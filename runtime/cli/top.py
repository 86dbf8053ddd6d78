"""`flyball top`: what is running and how fast budgets are used up, live at a terminal."""

import argparse
import json
import sys
from typing import Any

import httpx

from runtime.cli.admin_api import RefusedError, asked, client_of
from runtime.cli.overview_text import overview_screen, overview_text
from runtime.cli.pressed_keys import pressed_keys
from runtime.errors import RuntimeFaultError
from runtime.settings import Settings

_PATH = "/admin/v1/overview"
_ENDING = frozenset("qQ\x04")
_EVERY_S = 2.0
_EVERY_S_MIN, _EVERY_S_MAX = 0.2, 3600.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add whose overview is wanted, and how often."""
    parser.add_argument("--tenant", help="only of this tenant")
    parser.add_argument("--agent", help="only of this agent")
    parser.add_argument("--once", action="store_true", help="show it once, and end")
    parser.add_argument(
        "--every", type=_seconds, default=_EVERY_S, metavar="S", help="seconds; default: 2"
    )
    parser.epilog = (
        "Budgets are listed by how much of them is used. `last hour` is what was charged in it, "
        "and `empty in` how long the rest lasts at the pace of the last hour (of at least five "
        "minutes); `-` where a window begins anew before. Keys: q ends it, as Ctrl-C does, any "
        "other looks at once. What is no terminal, and --json, get it once."
    )


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Show it, again and again at a terminal; return 0.

    Raises:
        RuntimeFaultError: no sidecar answers, or it refuses.
    """
    wanted = {"tenant": arguments.tenant, "agent": arguments.agent}
    params = {name: value for name, value in wanted.items() if value is not None}
    with client_of(settings) as client:
        answer = asked(client, "GET", _PATH, params=params)
        if arguments.json:
            sys.stdout.write(json.dumps(answer) + "\n")
        elif arguments.once or not sys.stdout.isatty():
            sys.stdout.write(overview_text(answer))
        else:
            _watch(client, params, answer, every_s=arguments.every)
    return 0


def _watch(
    client: httpx.Client, params: dict[str, Any], answer: dict[str, Any], *, every_s: float
) -> None:
    """Show it until Ctrl-C; a sidecar that goes away is waited for, with the last that it said."""
    # Only for a terminal.
    from rich.console import Console  # noqa: PLC0415
    from rich.live import Live  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(file=sys.stdout, highlight=False)
    if console.is_dumb_terminal:
        sys.stdout.write(overview_text(answer))
        return
    below, trouble = f"every {every_s:g} s; q or Ctrl-C ends it", ""

    def screen() -> Text:
        # The screen's last line stays free, or it would scroll.
        told = overview_screen(
            answer,
            trouble=trouble,
            below=below,
            lines_max=console.height - 1,
            chars_max=console.width,
        )
        return Text.from_ansi(told, no_wrap=True, overflow="crop")

    try:
        with (
            pressed_keys() as key_within,
            Live(screen(), console=console, screen=True, auto_refresh=False) as live,
        ):
            while key_within(every_s) not in _ENDING:
                try:
                    answer, trouble = asked(client, "GET", _PATH, params=params), ""
                except RefusedError:
                    raise
                except RuntimeFaultError as error:
                    trouble = f"{error}; trying again"
                live.update(screen(), refresh=True)
    except KeyboardInterrupt:
        return


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not _EVERY_S_MIN <= seconds <= _EVERY_S_MAX:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number of seconds from {_EVERY_S_MIN} to {_EVERY_S_MAX:.0f}"
        )
    return seconds
