"""`flyball probe`: operators' own programs, which count what commands do in the kernel."""

import argparse
import json
import re
import sys
from pathlib import Path
from urllib.parse import quote

import anyio

from ebpf.custom.running import start_probe
from ebpf.custom.shelf import Probe, Shelf, checked
from ebpf.errors import ProbeError
from governor.amounts import Unit
from governor.usage import OF_PROBES
from memory_store.lock import holder_of
from runtime.cli.admin_api import RefusedError, add_options, asked, client_of
from runtime.cli.showing import table, words
from runtime.errors import RuntimeFaultError
from runtime.probes import shelf_of
from runtime.settings import Settings

_NOT_FOUND = 404
_NO_LETTER = re.compile(r"[^a-z0-9_]+")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what is to be done with which probe."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add = actions.add_parser("add", help="compile a program, and count with it from now on")
    add.add_argument("file", type=Path, help="C for bcc, with flyball_count(AMOUNT) in it")
    add.add_argument("--name", help="default: the file's name")
    add.add_argument("--session", help="count for this session alone (`ses_…`)")
    add.add_argument(
        "--unit",
        choices=[unit.value for unit in OF_PROBES],
        help="let budgets limit what it counts, as this unit; not with --session",
    )
    add.add_argument(
        "--headers", type=Path, metavar="DIR", help="the running kernel's headers, if elsewhere"
    )
    actions.add_parser("list", help="list the probes")
    remove = actions.add_parser("remove", help="count with it no longer")
    remove.add_argument("name")
    add_options(actions.choices.values())


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Do it; return 0.

    Raises:
        ProbeError: a program cannot be used, or there is no such probe.
        RuntimeFaultError: there is no such session.
    """
    shelf = shelf_of(settings.state)
    if arguments.action == "add":
        if arguments.session is not None:
            _check_session(arguments.session, settings)
        return _add(arguments, shelf)
    if arguments.action == "remove":
        if not shelf.remove(arguments.name):
            known = ", ".join(one.name for one in shelf.probes()) or "none"
            raise ProbeError(f"{arguments.name} is no probe here; there are: {known}")
        _say(arguments, {"removed": True}, f"{arguments.name} is removed")
        return 0
    probes = [
        {"name": one.name, "session": one.session, "headers": one.headers, "unit": one.unit}
        for one in shelf.probes()
    ]
    rows = [
        (str(one["name"]), one["session"] or "every session", one["unit"] or "no unit")
        for one in probes
    ]
    told = table(words("probe", "counts for", "as"), rows, none="There is no probe here.")
    _say(arguments, {"probes": probes}, told.rstrip("\n"))
    return 0


def _check_session(session: str, settings: Settings) -> None:
    """Refuse a session that never was; warn where no sidecar runs that could tell.

    Raises:
        RuntimeFaultError: there is no such session, or the sidecar refuses to say.
    """
    if holder_of(settings.state) is None:
        sys.stderr.write(
            f"flyball: no sidecar runs here, so whether there is a session {session} is not known\n"
        )
        return
    with client_of(settings) as client:
        try:
            asked(client, "GET", f"/admin/v1/sessions/{quote(session, safe='')}")
        except RefusedError as error:
            if error.status != _NOT_FOUND:
                raise
            raise RuntimeFaultError(
                f"there is no session {session}; `flyball sessions` lists them by id (ses_…)"
            ) from error


def _add(arguments: argparse.Namespace, shelf: Shelf) -> int:
    try:
        source = arguments.file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ProbeError(f"{arguments.file} cannot be read: {why}") from error
    if "flyball_count" not in source:
        raise ProbeError(
            f"{arguments.file} counts nothing: call flyball_count(AMOUNT), or "
            "flyball_count_packet(skb, AMOUNT) in `int egress(struct __sk_buff *skb)`"
        )
    headers = arguments.headers
    probe = checked(
        Probe(
            name=arguments.name or _NO_LETTER.sub("_", arguments.file.stem.lower()),
            source=source,
            session=arguments.session,
            headers=None if headers is None else str(headers.absolute()),
            unit=None if arguments.unit is None else Unit(arguments.unit),
        )
    )
    shelf.check_room(probe)
    compiled_with = anyio.run(_tried, probe)
    shelf.add(probe)
    told = (
        f"{probe.name} compiles (with the headers {compiled_with}) and counts for the calls that "
        f"start from now on; probe_limits = {{ {probe.name} = N }} in a rule stops one above N"
    ) + ("" if probe.unit is None else f", and budgets can limit {probe.unit}")
    shape: dict[str, object] = {"name": probe.name, "headers": compiled_with, "unit": probe.unit}
    _say(arguments, shape, told)
    return 0


async def _tried(probe: Probe) -> str:
    """Return which headers it compiles with, after it was in the kernel for a moment.

    Raises:
        ProbeError: it does not compile, or the kernel refuses it.
    """
    running = await start_probe(probe)
    await running.stop()
    return running.headers


def _say(arguments: argparse.Namespace, shape: dict[str, object], told: str) -> None:
    sys.stdout.write((json.dumps(shape) if arguments.json else told) + "\n")
