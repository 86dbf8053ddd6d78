"""`flyball migrate`: bring the store's schema up to date around a rollout."""

import argparse
import json
import sys

from memory_store.store import migrate_store
from runtime.cli.showing import stages
from runtime.configuration.load import load_config
from runtime.configuration.model import Config
from runtime.configuration.store_url import store_url_of
from runtime.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add when it is run, or that nothing is to be changed."""
    when = parser.add_mutually_exclusive_group()
    when.add_argument(
        "--post", action="store_true", help="also what may only run when no older version does"
    )
    when.add_argument(
        "--check",
        action="store_true",
        help="change nothing; status 1 if `up` would refuse to start",
    )


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Run the steps that are due and show them; return 0 if this version can start then."""
    config = load_config(settings.config) if settings.config.exists() else Config()
    url = store_url_of(config, settings.store_url)
    with stages("Looking at the schema" if arguments.check else "Changing the schema"):
        done = migrate_store(
            settings.state,
            url=None if url is None else url.get_secret_value(),
            with_post=arguments.post,
            only_look=arguments.check,
        )
    ran = [step.revision for step in done.ran]
    pending = [step.revision for step in done.pending]
    if arguments.json:
        answer = {"ok": done.can_start, "before": done.before, "ran": ran, "pending": pending}
        sys.stdout.write(json.dumps(answer) + "\n")
    else:
        sys.stdout.write(_text(ran, pending, can_start=done.can_start))
    return 0 if done.can_start else 1


def _text(ran: list[str], pending: list[str], *, can_start: bool) -> str:
    lines = [f"ran {', '.join(ran)}" if ran else "nothing was run"]
    if not pending:
        lines.append("the schema is up to date")
    elif can_start:
        lines.append(
            f"after the rollout: {', '.join(pending)}; run `flyball migrate --post` when no "
            "older version is left running"
        )
    else:
        lines.append(
            f"still to be run: {', '.join(pending)}; run `flyball migrate`, and with --post when "
            "no older version is left running"
        )
    return "".join(f"{line}\n" for line in lines)
