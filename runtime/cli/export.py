"""`flyball export`: calls as JSON lines or CSV, and what they cost as FOCUS rows."""

import argparse
import csv
import io
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import httpx

from governor.amounts import Unit
from memory_store.paging import PAGE_LIMIT_MAX
from runtime.cli import showing
from runtime.cli.admin_api import asked, client_of
from runtime.cli.call_pages import add_filters, filters_of, pages
from runtime.cli.focus import COLUMNS, FOCUS_VERSION, Grain, focus_rows
from runtime.cli.whole_files import written_whole
from runtime.errors import RuntimeFaultError
from runtime.settings import Settings

_TENANTS = "/admin/v1/tenants"
_PLAIN = (
    "id", "kind", "name", "tenant", "agent", "session", "turn", "status", "denial",
    "started_at_ms", "ended_at_ms", "backend", "rule", "policy_version", "price_version",
    "usage_source", "unified_cost_microusd", "result_bytes", "archive",
)  # fmt: skip
# What a spreadsheet takes for a formula when a cell begins with it; a stranger may have named it.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"^-?\d+(\.\d+)?$")
_UNITS = tuple(unit.value for unit in Unit)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what is written, where to, and which calls."""
    parser.add_argument(
        "file",
        nargs="?",
        type=Path,
        default=Path("-"),
        help='the file, whose name does not choose the form; default: "-", the output',
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--jsonl", action="store_true", help="a call a line, in JSON (the default)")
    form.add_argument("--csv", action="store_true", help="a call a line, with what it was charged")
    form.add_argument("--focus", action="store_true", help=f"costs as CSV by FOCUS {FOCUS_VERSION}")
    parser.add_argument(
        "--by",
        type=Grain,
        choices=list(Grain),
        metavar="GRAIN",
        help="with --focus, what a row is: a call, or what an agent used of one tool or model in "
        "an hour or a day; default: day",
    )
    add_filters(parser)
    parser.epilog = (
        "With --json standard output tells what was written, so a file has to be named. "
        "Examples:\n\n"
        "  flyball export --focus --since last-month --until this-month costs.csv\n"
        "  flyball export --tenant acme --since 7d | jq .charged\n"
    )


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Write them; return 0.

    Raises:
        RuntimeFaultError: they cannot be had, or not be written.
    """
    is_output = str(arguments.file) == "-"
    if arguments.json and is_output:
        raise RuntimeFaultError("export --json tells what was written: name a FILE to write to")
    if arguments.by is not None and not arguments.focus:
        raise RuntimeFaultError("--by goes with --focus")
    is_shown = is_output and sys.stdout.isatty()
    with (
        client_of(settings) as client,
        showing.progress("Exporting", is_on=not is_shown) as exported,
    ):
        calls = _calls(client, filters_of(arguments), exported)
        try:
            with _opened(arguments.file) as file:
                rows = _write(file, calls, client, arguments)
        except BrokenPipeError:
            raise
        except OSError as error:
            message = f"{arguments.file}: cannot be written: {error.strerror}"
            raise RuntimeFaultError(message) from error
    shape = {"ok": True, "file": str(arguments.file), "format": _format(arguments), "rows": rows}
    if arguments.json:
        sys.stdout.write(json.dumps(shape) + "\n")
    elif not is_output:
        sys.stderr.write(f"{arguments.file}: {rows} rows, readable by you alone.\n")
    return 0


def _format(arguments: argparse.Namespace) -> str:
    if arguments.focus:
        return f"focus-{FOCUS_VERSION}"
    return "csv" if arguments.csv else "jsonl"


def _calls(
    client: httpx.Client, filters: Mapping[str, Any], exported: showing.Progress
) -> Iterator[dict[str, Any]]:
    for page, _ in pages(client, filters):
        yield from page
        exported.advance(len(page))


def _write(
    file: TextIO, calls: Iterator[dict[str, Any]], client: httpx.Client, arguments: Any
) -> int:
    """Write one call, or one group of calls, after the other; return how many rows."""
    if arguments.focus:
        grain = arguments.by or Grain.DAY
        return _write_csv(file, COLUMNS, focus_rows(calls, grain=grain, names=_tenants(client)))
    if arguments.csv:
        names = (*_PLAIN, *(f"charged_{unit}" for unit in _UNITS))
        return _write_csv(file, names, map(_flat, calls))
    rows = 0
    for item in calls:
        file.write(json.dumps(item) + "\n")
        rows += 1
    return rows


def _write_csv(file: TextIO, names: Sequence[str], rows: Iterator[Mapping[str, str]]) -> int:
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow(names)
    count = 0
    for row in rows:
        writer.writerow([spreadsheet_safe(row[name]) for name in names])
        count += 1
    return count


def _flat(item: Mapping[str, Any]) -> dict[str, str]:
    plain = {name: "" if item[name] is None else str(item[name]) for name in _PLAIN}
    charged = {f"charged_{unit}": str(item["charged"].get(unit, 0)) for unit in _UNITS}
    return {**plain, **charged}


def spreadsheet_safe(text: str) -> str:
    """Return a cell that no spreadsheet runs."""
    return f"'{text}" if text.startswith(_FORMULA) and not _NUMBER.match(text) else text


def _tenants(client: httpx.Client) -> dict[str, str]:
    """Return what tenants are called, by their ids."""
    names: dict[str, str] = {}
    params: dict[str, Any] = {"limit": PAGE_LIMIT_MAX}
    while True:
        page = asked(client, "GET", _TENANTS, params=params)
        names |= {tenant["id"]: tenant["name"] for tenant in page["items"]}
        if page["next"] is None:
            return names
        params["cursor"] = page["next"]


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    """Yield what is written to; a file is whole in the end, or it is not there.

    Raises:
        OSError: it cannot be written.
    """
    if str(path) == "-":
        yield sys.stdout
        return
    # Who used what is nobody else's to read.
    with (
        written_whole(path) as raw,
        io.TextIOWrapper(raw, encoding="utf-8", newline="") as file,
    ):
        yield file
