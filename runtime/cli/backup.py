"""`flyball backup`: copy all that is durable into a folder, while the sidecar serves."""

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from memory_store.backups.taking import Source, take_backup
from runtime.clock import SystemClock
from runtime.configuration.load import load_config
from runtime.configuration.model import Config
from runtime.configuration.store_url import store_url_of
from runtime.keepsakes import KEPT
from runtime.settings import Settings
from runtime.version import VERSION


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add where to."""
    parser.add_argument(
        "target",
        nargs="?",
        type=Path,
        metavar="FOLDER",
        help="where to; it must not be there yet (default: flyball-backup-TIME)",
    )


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Make it and say what it holds; return 1 if the store had lost something before."""
    config = load_config(settings.config) if settings.config.exists() else Config()
    url = store_url_of(config, settings.store_url)
    now_ms = SystemClock().now_ms()
    source = Source(
        state_dir=settings.state,
        url=None if url is None else url.get_secret_value(),
        keeps=KEPT,
        config=settings.config.absolute(),
    )
    target = (arguments.target or Path(f"flyball-backup-{_stamp(now_ms)}")).absolute()
    made = take_backup(source, target, made_by=f"flyball {VERSION}", now_ms=now_ms)
    answer = {
        "ok": not made.damaged,
        "folder": str(target),
        "backup_id": made.backup_id,
        "store": made.kind.value,
        "revision": made.revision,
        "files": len(made.pieces),
        "bytes": made.size_bytes,
        "damaged": list(made.damaged),
    }
    if arguments.json:
        sys.stdout.write(json.dumps(answer) + "\n")
    else:
        sys.stdout.write(
            f"{target}: {len(made.pieces)} files, {made.size_bytes:,} bytes, "
            f"schema {made.revision}; it holds keys and tokens, so keep it as safe as these\n"
        )
        for path in made.damaged:
            sys.stderr.write(f"flyball: {path} was damaged or lost in the store already\n")
    return 1 if made.damaged else 0


def _stamp(now_ms: int) -> str:
    return datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
