"""`flyball token`: make, list, rotate and revoke tokens through the admin API."""

import argparse
import json
import sys
from typing import Any

import httpx

from runtime.configuration.load import load_config
from runtime.configuration.model import Config
from runtime.errors import RuntimeFaultError
from runtime.settings import Settings

NAME = "token"
HELP = "Make, list, rotate or revoke a principal's tokens."
_SECONDS_MAX = 30.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action and whom it is for."""
    parser.add_argument("action", choices=("make", "list", "rotate", "revoke"))
    parser.add_argument("principal", help="whose token, for example: agent")
    parser.add_argument("token_id", nargs="?", help="which one, to rotate or revoke")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Do it and show the outcome; a new secret is shown this once."""
    if arguments.action in {"rotate", "revoke"} and arguments.token_id is None:
        raise RuntimeFaultError(
            f"which token? `flyball token list {arguments.principal}` shows their ids"
        )
    path = f"/admin/v1/principals/{arguments.principal}/tokens"
    with _client(settings) as client:
        match arguments.action:
            case "make":
                answer = _asked(client, "POST", path, json={})
            case "list":
                answer = _asked(client, "GET", path)
            case "rotate":
                answer = _asked(client, "POST", f"{path}/{arguments.token_id}/rotate")
            case _:
                answer = _asked(client, "DELETE", f"{path}/{arguments.token_id}")
    if arguments.json:
        sys.stdout.write(json.dumps(answer) + "\n")
    else:
        sys.stdout.write(_text(arguments, answer))
    return 0


def _client(settings: Settings) -> httpx.Client:
    config = load_config(settings.config) if settings.config.exists() else Config()
    token_file = settings.state / "admin.token"
    try:
        token = token_file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise RuntimeFaultError(
            f"{token_file}: {error.strerror}; `flyball up` writes it at its first start"
        ) from error
    scheme = "http" if config.listen.tls_cert is None else "https"
    return httpx.Client(
        base_url=f"{scheme}://{config.listen.admin}",
        headers={"Authorization": f"Bearer {token}"},
        timeout=_SECONDS_MAX,
        trust_env=False,
    )


def _asked(client: httpx.Client, method: str, path: str, **arguments: Any) -> dict[str, Any]:
    """Return what the admin API answers.

    Raises:
        RuntimeFaultError: no sidecar answers, or it refuses.
    """
    try:
        answer = client.request(method, path, **arguments)
    except httpx.TransportError as error:
        raise RuntimeFaultError(
            f"no sidecar answers at {client.base_url}: start one with `flyball up`"
        ) from error
    body: dict[str, Any] = answer.json() if answer.content else {}
    if answer.is_error:
        raise RuntimeFaultError(str(body.get("detail") or body.get("title") or answer.text))
    return body


def _text(arguments: argparse.Namespace, answer: dict[str, Any]) -> str:
    if arguments.action == "list":
        lines = [
            f"{item['id']}  …{item['last_four']}  {_state(item)}\n" for item in answer["items"]
        ]
        return "".join(lines) or f"{arguments.principal} has no tokens.\n"
    if "secret" in answer:
        return f"{answer['secret']}\n(token {answer['id']}; the secret is not shown again)\n"
    return f"{arguments.token_id} is revoked.\n"


def _state(item: dict[str, Any]) -> str:
    return "revoked" if item.get("revoked_at_ms") is not None else "valid"
