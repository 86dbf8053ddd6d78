"""`flyball token`: make, list, rotate and revoke tokens through the admin API."""

import argparse
import json
import re
import sys
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx

from governor.ids import PrincipalId
from runtime.cli.admin_api import RefusedError, asked, client_of, date_of
from runtime.cli.showing import Cell, Tone, folding, table, words
from runtime.clock import SystemClock
from runtime.errors import RuntimeFaultError
from runtime.naming import ID_PATTERN, ID_RULE
from runtime.settings import Settings
from runtime.token_files import ADMIN, AGENT, TENANT, read_token, token_files, write_token

_ID = re.compile(ID_PATTERN)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action and whom it is for."""
    parser.add_argument("action", choices=("make", "list", "rotate", "revoke"))
    parser.add_argument("principal", help="whose token, for example: agent")
    parser.add_argument("token_id", nargs="?", help="which one, to rotate or revoke")
    parser.add_argument(
        "--new-agent", action="store_true", help="with make: make an agent of that name first"
    )
    parser.add_argument(
        "--tenant", default=TENANT, help=f"whose agent the new one is; default: {TENANT}"
    )


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Do it and show the outcome; a new secret is shown this once."""
    if arguments.action in {"rotate", "revoke"} and arguments.token_id is None:
        raise RuntimeFaultError(
            f"which token? `flyball token list {arguments.principal}` shows their ids"
        )
    if not _ID.match(arguments.principal):
        raise RuntimeFaultError(f"{arguments.principal} is no principal's name: {ID_RULE}")
    if arguments.new_agent and arguments.action != "make":
        raise RuntimeFaultError("--new-agent goes with make")
    answer = _done(arguments, settings)
    if arguments.json:
        sys.stdout.write(json.dumps(answer) + "\n")
    else:
        sys.stdout.write(_text(arguments, answer))
    return 0


def _done(arguments: argparse.Namespace, settings: Settings) -> dict[str, Any]:
    path = f"/admin/v1/principals/{arguments.principal}/tokens"
    with client_of(settings) as client:
        match arguments.action:
            case "make":
                if arguments.new_agent:
                    new = {"id": arguments.principal, "tenant": arguments.tenant, "role": "agent"}
                    asked(client, "POST", "/admin/v1/principals", json=new)
                answer = _made(client, path, arguments.principal)
            case "list":
                answer = {"items": _tokens(client, path), "next": None}
            case "rotate":
                # Looked for before: afterwards the administrator's own token may be the old one.
                file = _file_of(client, path, arguments, settings)
                answer = asked(client, "POST", f"{path}/{arguments.token_id}/rotate")
                if file is not None:
                    answer |= _rewritten(file, answer["secret"])
            case _:
                file = _file_of(client, path, arguments, settings)
                answer = asked(client, "DELETE", f"{path}/{arguments.token_id}")
                if file is not None:
                    answer["stale_file"] = str(file)
    return answer


def _made(client: httpx.Client, path: str, principal: str) -> dict[str, Any]:
    """Return a new token, or say how there can be one."""
    try:
        return asked(client, "POST", path, json={})
    except RefusedError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        raise RuntimeFaultError(
            f"{error}; `flyball token make {principal} --new-agent` makes an agent of that name"
        ) from error


def _file_of(
    client: httpx.Client, path: str, arguments: argparse.Namespace, settings: Settings
) -> Path | None:
    """Return the token file in which the named token stands, None where it stands in none.

    The file holds a secret and the API shows the end of one: they are compared by that.
    """
    files = token_files(settings.state)
    file = {AGENT: files.agent, ADMIN: files.admin}.get(PrincipalId(arguments.principal))
    secret = None if file is None else read_token(file)
    if secret is None:
        return None
    for item in _tokens(client, path):
        if item["id"] == arguments.token_id and secret.endswith(item["last_four"]):
            return file
    return None


def _tokens(client: httpx.Client, path: str) -> list[dict[str, Any]]:
    """Return all tokens of a principal, page by page."""
    page = asked(client, "GET", path)
    items = list(page["items"])
    while page["next"] is not None:
        page = asked(client, "GET", path, params={"cursor": page["next"]})
        items.extend(page["items"])
    return items


def _rewritten(file: Path, secret: str) -> dict[str, Any]:
    """Put a new secret in its file and return what became of that."""
    try:
        write_token(file, secret)
    except OSError as error:
        # The secret is shown this once: a file that cannot be written must not lose it.
        return {"stale_file": str(file), "problem": f"it cannot be written: {error.strerror}"}
    return {"token_file": str(file)}


def _text(arguments: argparse.Namespace, answer: dict[str, Any]) -> str:
    if arguments.action == "list":
        now_ms = SystemClock().now_ms()
        rows = [_row(item, now_ms=now_ms) for item in answer["items"]]
        head = (*words("token", "ends in", "state", "made"), folding("until"))
        return table(head, rows, none=f"{arguments.principal} has no tokens.")
    if "secret" in answer:
        shown = f"{answer['secret']}\n(token {answer['id']}; the secret is not shown again)\n"
    else:
        shown = f"{arguments.token_id} is revoked.\n"
    if "token_file" in answer:
        shown += f"{answer['token_file']} holds the new secret.\n"
    if "stale_file" in answer:
        shown += (
            f"{answer['stale_file']} still holds the old secret, which works no more"
            f"{': ' + answer['problem'] if 'problem' in answer else ''}. "
            "`flyball up` puts a new one there when it starts again.\n"
        )
    return shown


def _row(item: dict[str, Any], *, now_ms: int) -> list[str | Cell]:
    """Return a token as a row: which, whether it is accepted, since when, until when."""
    expires, revoked = item["expires_at_ms"], item["revoked_at_ms"]
    if revoked is not None:
        state, dates = Cell(text="revoked", tone=Tone.BAD), f"revoked {date_of(revoked)}"
    elif expires is None:
        state, dates = Cell(text="valid", tone=Tone.GOOD), "never expires"
    elif expires <= now_ms:
        state, dates = Cell(text="expired", tone=Tone.WARN), f"expired {date_of(expires)}"
    else:
        state, dates = Cell(text="valid", tone=Tone.GOOD), f"expires {date_of(expires)}"
    return [item["id"], f"…{item['last_four']}", state, date_of(item["created_at_ms"]), dates]
