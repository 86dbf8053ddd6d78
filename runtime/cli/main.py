"""The command line: which command, with which words, and how its errors are shown."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from ebpf.errors import EbpfError
from memory_store.errors import StoreError
from runtime.cli import doctor, init, token, tour, up
from runtime.errors import RuntimeFaultError
from runtime.settings import Settings
from runtime.version import VERSION

EXIT_FAULT = 2


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit with its status."""
    parsed = _parser().parse_args(arguments)
    if sys.platform == "win32":
        _complain("Windows is not supported; run Flyball inside WSL2.", as_json=parsed.json)
        sys.exit(EXIT_FAULT)
    settings = Settings()
    if parsed.config is not None:
        settings = settings.model_copy(update={"config": parsed.config})
    if parsed.state is not None:
        settings = settings.model_copy(update={"state": parsed.state.absolute()})
    try:
        status = parsed.run(parsed, settings)
    except (RuntimeFaultError, StoreError, EbpfError) as error:
        _complain(str(error), as_json=parsed.json)
        status = EXIT_FAULT
    except KeyboardInterrupt:
        status = 130
    sys.exit(status)


def _parser() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--config", type=Path, metavar="FILE", help="default: flyball.toml")
    shared.add_argument("--state", type=Path, metavar="DIR", help="default: .flyball")
    shared.add_argument("--json", action="store_true", help="answer in JSON")
    parser = argparse.ArgumentParser(
        prog="flyball",
        description="A governor between AI agents and everything they spend.",
        epilog="New here? `flyball init` writes a commented flyball.toml; `flyball up` serves it.",
    )
    parser.add_argument("--version", action="version", version=f"flyball {VERSION}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in (up, init, doctor, token, tour):
        command = commands.add_parser(
            module.NAME, parents=[shared], help=module.HELP, description=module.HELP
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser


def _complain(message: str, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps({"ok": False, "error": message}) + "\n")
    else:
        sys.stderr.write(f"flyball: {message}\n")
