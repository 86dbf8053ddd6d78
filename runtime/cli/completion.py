"""`flyball completion`: what a shell needs to complete commands, options and values."""

import argparse
import json
import sys

from runtime.cli.commands import COMMANDS
from runtime.settings import Settings

# Each with where its users put what is written; that of others is in their own manuals.
_SHELLS = {
    "bash": "flyball completion bash > ~/.local/share/bash-completion/completions/flyball",
    "zsh": 'flyball completion zsh > "${fpath[1]}/_flyball"',
    "fish": "flyball completion fish > ~/.config/fish/completions/flyball.fish",
    "tcsh": "flyball completion tcsh > ~/.flyball.tcsh; source ~/.flyball.tcsh",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add for which shell."""
    parser.add_argument("shell", choices=list(_SHELLS))
    lines = (f"  {shell:<5} {line}" for shell, line in _SHELLS.items())
    parser.epilog = "\n".join(("Put it where your shell looks, once:\n", *lines))


def run(arguments: argparse.Namespace, _: Settings) -> int:
    """Write the script; return 0."""
    # Only here: it reads the words of every command, so each of their modules is loaded.
    import shtab  # noqa: PLC0415

    from runtime.cli.command_line import parser_with  # noqa: PLC0415

    script = shtab.complete(parser_with(list(COMMANDS)), arguments.shell)
    if arguments.json:
        sys.stdout.write(json.dumps({"shell": arguments.shell, "script": script}) + "\n")
    else:
        sys.stdout.write(script.rstrip("\n") + "\n")
    return 0
