"""Experiences as files: exported, imported, looked through, their bytes written out."""

import argparse
import codecs
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from runtime.cli import showing
from runtime.cli.admin_api import answered, asked, refused
from runtime.cli.whole_files import written_whole
from runtime.errors import RuntimeFaultError

_PATH = "/admin/v1/memory"
# So much is sent at once: whole lines, of which one may be larger.
_PART_BYTES = 8 * 1024 * 1024
_SECONDS_MAX = 600.0
# So much of a content is shown at a terminal.
_SHOWN_BYTES_MAX = 16 * 1024
_COUNTS = ("new", "known", "renamed", "refused", "demoted", "quarantined")
_FAULTS_SHOWN = 20
# Nobody vouches by a file for what instructs: experiences are promoted one by one.
_VOUCHED = ("agent", "tool")


def add_arguments(deeds: Any) -> None:
    """Add what is done with files."""
    out = deeds.add_parser("export", help="write every experience with its content, as JSON lines")
    out.add_argument("file", type=Path, help='the file to write; "-" is standard output')
    out.add_argument("--namespace", action="append", default=[], metavar="NAMESPACE")
    taken = deeds.add_parser("import", help="take in what was exported")
    taken.add_argument("file", type=Path)
    taken.add_argument(
        "--as-lane",
        choices=_VOUCHED,
        help="vouch for a file of another house: its lines stand where they say, at best there; "
        "without it they are taken for strangers' (web)",
    )
    looked = deeds.add_parser("fsck", help="look through the log, the rows and the contents")
    looked.add_argument(
        "--rebuild", action="store_true", help="first make the indexes anew, out of what is kept"
    )


def content_of(client: httpx.Client, arguments: argparse.Namespace) -> bytes:
    """Return the bytes of an experience.

    Raises:
        RuntimeFaultError: they cannot be had.
    """
    path, content, total = f"{_PATH}/experiences/{arguments.index}/content", b"", 1
    while len(content) < total:
        answer = answered(
            client, "GET", path, params={"tenant": arguments.tenant, "offset": len(content)}
        )
        content += answer.content
        total = int(answer.headers["Flyball-Total-Bytes"])
    return content


def shown_content(
    client: httpx.Client, arguments: argparse.Namespace, one: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the text of an experience, as much as is shown; None where it is no text."""
    path = f"{_PATH}/experiences/{one['index']}/content"
    content = answered(client, "GET", path, params={"tenant": arguments.tenant}).content
    part = content[:_SHOWN_BYTES_MAX]
    try:
        text: str | None = codecs.getincrementaldecoder("utf-8")().decode(part)
    except UnicodeDecodeError:
        text = None
    return {"content": text, "is_whole": len(part) >= one["size_bytes"]}


def exported(client: httpx.Client, arguments: argparse.Namespace) -> int:
    """Write the lines; return 0.

    A file is complete, or it is not there.

    Raises:
        RuntimeFaultError: they cannot be had, or not be written.
    """
    if arguments.json and str(arguments.file) == "-":
        raise RuntimeFaultError("memory export --json tells what was written: name a FILE")
    params = {"tenant": arguments.tenant, "namespace": arguments.namespace}
    try:
        with client.stream("GET", f"{_PATH}/export", params=params, timeout=_SECONDS_MAX) as answer:
            if answer.is_error:
                answer.read()
                raise refused(client, answer)
            is_shown = str(arguments.file) == "-" and sys.stdout.isatty()
            with showing.progress("Exporting", is_bytes=True, is_on=not is_shown) as written:
                _write(_counted(answer.iter_bytes(), written), arguments.file)
    except httpx.HTTPError as error:
        raise RuntimeFaultError(
            f"the export broke off, and nothing of it is kept: {error}"
        ) from error
    except OSError as error:
        message = f"{arguments.file}: cannot be written: {error.strerror}"
        raise RuntimeFaultError(message) from error
    if str(arguments.file) == "-":
        return 0
    size = arguments.file.stat().st_size
    if arguments.json:
        told = {"ok": True, "file": str(arguments.file), "bytes": size}
        sys.stdout.write(json.dumps(told) + "\n")
    else:
        sys.stderr.write(f"{arguments.file}: {size} bytes, readable by you alone.\n")
    return 0


def imported(client: httpx.Client, arguments: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Return what became of the lines of a file.

    Raises:
        RuntimeFaultError: the file cannot be read, or nobody takes its lines.
    """
    total: dict[str, Any] = {**dict.fromkeys(_COUNTS, 0), "faults": []}
    params = {"tenant": arguments.tenant}
    if arguments.as_lane is not None:
        params["as_lane"] = arguments.as_lane
    try:
        size = arguments.file.stat().st_size
        with (
            arguments.file.open("rb") as file,
            showing.progress("Importing", total=size, is_bytes=True) as sent,
        ):
            for first, part in _parts(file, arguments.file):
                answer = asked(
                    client,
                    "POST",
                    f"{_PATH}/import",
                    params=params,
                    content=part,
                    headers={"Content-Type": "application/x-ndjson"},
                    timeout=_SECONDS_MAX,
                )
                _add(total, answer, first=first)
                sent.advance(len(part))
    except OSError as error:
        message = f"{arguments.file}: cannot be read: {error.strerror}"
        raise RuntimeFaultError(message) from error
    total["ok"] = total["refused"] == 0
    return total, _taken_text(total)


def checked(client: httpx.Client, arguments: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Return what does not add up."""
    params = {"tenant": arguments.tenant}
    method, path = ("POST", "rebuild") if arguments.rebuild else ("GET", "check")
    with showing.stages("Looking through the log, the rows and the contents"):
        answer = asked(client, method, f"{_PATH}/{path}", params=params, timeout=_SECONDS_MAX)
    looked = f"{answer['experiences']} experiences and {answer['entries']} entries of the log"
    if answer["ok"]:
        return answer, f"{looked}: everything adds up.\n"
    lines = [f"{one['index'] or '-'}: {one['what']}" for one in answer["problems"]]
    more = ["There is more."] if answer["is_cut"] else []
    return answer, "\n".join([f"{looked}:", *lines, *more]) + "\n"


def _counted(parts: Iterator[bytes], progress: showing.Progress) -> Iterator[bytes]:
    for part in parts:
        yield part
        progress.advance(len(part))


def _write(parts: Iterator[bytes], path: Path) -> None:
    if str(path) == "-":
        for part in parts:
            sys.stdout.buffer.write(part)
        return
    # What agents remember is nobody else's to read.
    with written_whole(path) as file:
        for part in parts:
            file.write(part)


def _parts(file: Any, path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file, some at a time, with the number of the first of them."""
    # Only here: what reads the lines at the other end takes a second to load.
    from runtime.memory.administration.carrying import LINE_BYTES_MAX  # noqa: PLC0415

    number, first, lines, size = 0, 1, list[bytes](), 0
    while line := file.readline(LINE_BYTES_MAX + 1):
        number += 1
        if len(line) > LINE_BYTES_MAX:
            raise RuntimeFaultError(f"{path}: line {number} is longer than {LINE_BYTES_MAX} bytes")
        if lines and size + len(line) > _PART_BYTES:
            yield first, b"".join(lines)
            first, lines, size = number, [], 0
        lines.append(line)
        size += len(line)
    if lines:
        yield first, b"".join(lines)


def _add(total: dict[str, Any], answer: dict[str, Any], *, first: int) -> None:
    for name in _COUNTS:
        total[name] += answer[name]
    total["faults"] += [
        {"line": first + fault["line"] - 1, "why": fault["why"]} for fault in answer["faults"]
    ]


def _taken_text(total: dict[str, Any]) -> str:
    told = (
        f"{total['new']} taken ({total['renamed']} of them under another index), "
        f"{total['known']} were here already, {total['refused']} refused.\n"
    )
    if total["demoted"] or total["quarantined"]:
        told += (
            f"{total['demoted']} stand in a lane that is trusted less than the file says, because "
            "this house did not sign them (where you know the file, `--as-lane agent` vouches for "
            f"it); {total['quarantined']} wait in quarantine (flyball memory ls --standing "
            "quarantined).\n"
        )
    lines = [f"line {one['line']}: {one['why']}\n" for one in total["faults"][:_FAULTS_SHOWN]]
    return told + "".join(lines)
