"""`flyball restore`: put a backup in the place of what is there, or prove that it could be."""

import argparse
import json
import sys
from pathlib import Path

from memory_store.backups.manifest import CONFIG, Manifest
from memory_store.backups.restoring import check_backup, restore_backup
from runtime.clock import SystemClock
from runtime.configuration.load import load_config
from runtime.configuration.model import Config
from runtime.configuration.store_url import store_url_of
from runtime.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add which backup, and how far to go."""
    parser.add_argument("backup", type=Path, metavar="FOLDER", help="what `flyball backup` made")
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--force",
        action="store_true",
        help="replace what is there: a state directory's is set aside in it, a server's is lost",
    )
    how.add_argument("--check", action="store_true", help="change nothing; prove it is intact")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Do it and say what is there now."""
    backup: Path = arguments.backup.absolute()
    if arguments.check:
        done = check_backup(backup)
    else:
        config = load_config(settings.config) if settings.config.exists() else Config()
        url = store_url_of(config, settings.store_url)
        done = restore_backup(
            backup,
            settings.state,
            url=None if url is None else url.get_secret_value(),
            now_ms=SystemClock().now_ms(),
            replaces=arguments.force,
        )
    if arguments.json:
        sys.stdout.write(json.dumps(_answer(done, restored=not arguments.check)) + "\n")
    else:
        sys.stdout.write(_text(done, backup, settings, restored=not arguments.check))
    return 0


def _answer(done: Manifest, *, restored: bool) -> dict[str, object]:
    return {
        "ok": True,
        "restored": restored,
        "backup_id": done.backup_id,
        "store": done.kind.value,
        "revision": done.revision,
        "made_at_ms": done.made_at_ms,
        "made_by": done.made_by,
        "files": len(done.pieces),
        "bytes": done.size_bytes,
        "damaged": list(done.damaged),
    }


def _text(done: Manifest, backup: Path, settings: Settings, *, restored: bool) -> str:
    what = f"{len(done.pieces)} files, {done.size_bytes:,} bytes, schema {done.revision}"
    if not restored:
        return f"{backup} is intact: {what}, by {done.made_by}\n"
    lines = [f"restored into {settings.state}: {what}"]
    config = [piece.path for piece in done.under(CONFIG)]
    if config:
        lines.append(f"the configuration of then is {backup / config[0]}; it was left there")
    lines.append("`flyball doctor` looks it over, `flyball up` serves it")
    return "".join(f"{line}\n" for line in lines)
