"""The admin API as the command line asks it."""

import argparse
import tomllib
from collections.abc import Iterable
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx

from runtime.configuration.listen import Listen
from runtime.errors import RuntimeFaultError
from runtime.settings import Settings
from runtime.token_files import token_files

_SECONDS_MAX = 30.0


class RefusedError(RuntimeFaultError):
    """The sidecar refuses."""

    def __init__(self, message: str, *, status: int) -> None:
        """Keep the status, by which one refusal is told from another."""
        super().__init__(message)
        self.status = status


# By the part of a path that an id stands behind.
_LISTED = {
    "calls": "flyball calls",
    "sessions": "flyball sessions",
    "budgets": "flyball budgets",
    "approvals": "flyball approve",
    "experiences": "flyball memory ls",
    "namespaces": "flyball memory namespaces",
    "models": "flyball router list",
}


class SidecarClient(httpx.Client):
    """A client of the admin API, which knows where its token is from."""

    token_file: Path


def add_options(deeds: Iterable[argparse.ArgumentParser]) -> None:
    """Let the options that every command has stand after the deed as well."""
    for deed in deeds:
        # Suppressed, or their defaults would undo what stands before the deed.
        nothing = argparse.SUPPRESS
        deed.add_argument("--json", action="store_true", default=nothing, help="answer in JSON")
        for name, metavar in (("--config", "FILE"), ("--state", "DIR")):
            deed.add_argument(name, type=Path, metavar=metavar, default=nothing)


def client_of(settings: Settings) -> httpx.Client:
    """Return a client of the sidecar that the settings name, as its administrator.

    Raises:
        RuntimeFaultError: there is no token to ask with.
        ConfigError: the file is not usable.
    """
    listen = listen_of(settings.config)
    token_file = token_files(settings.state).admin
    try:
        token = token_file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise RuntimeFaultError(_no_token(token_file, error)) from error
    scheme = "http" if listen.tls_cert is None else "https"
    client = SidecarClient(
        base_url=f"{scheme}://{listen.admin}",
        headers={"Authorization": f"Bearer {token}"},
        timeout=_SECONDS_MAX,
        trust_env=False,
    )
    client.token_file = token_file
    return client


def _no_token(file: Path, error: OSError) -> str:
    """Return why there is no token to ask with, and what to do."""
    if isinstance(error, PermissionError):
        return f"{file} is another user's: run this as who runs the sidecar"
    if not file.parent.is_dir():
        return (
            f"{file.parent}: there is no such state directory; name the sidecar's with --state DIR "
            "or FLYBALL_STATE, or start a sidecar here with `flyball up`"
        )
    return f"{file}: {error.strerror}; `flyball up` writes it at its first start"


def listen_of(config: Path) -> Listen:
    """Return where the sidecar is.

    Raises:
        ConfigError: the file is not usable.
    """
    if not config.exists():
        return Listen()
    try:
        return Listen.model_validate(tomllib.loads(config.read_text(encoding="utf-8"))["listen"])
    except (OSError, ValueError, KeyError):
        # What does not say it plainly is read as a whole, which finds and names a misspelt key.
        # Only then: it takes as long as everything else that a command does.
        from runtime.configuration.load import load_config  # noqa: PLC0415

        return load_config(config).listen


def asked(client: httpx.Client, method: str, path: str, **arguments: Any) -> dict[str, Any]:
    """Return what the admin API answers.

    Raises:
        RuntimeFaultError: no sidecar answers.
        RefusedError: it refuses.
    """
    answer = answered(client, method, path, **arguments)
    try:
        body: dict[str, Any] = answer.json() if answer.content else {}
    except ValueError as error:
        raise RuntimeFaultError(no_flyball(client)) from error
    return body


def no_flyball(client: httpx.Client) -> str:
    """Return that what answers is another program, and what to do."""
    return (
        f"what answers at {client.base_url} is no Flyball: [listen] admin in flyball.toml says "
        "where the sidecar is; --config FILE names another file"
    )


def answered(client: httpx.Client, method: str, path: str, **arguments: Any) -> httpx.Response:
    """Return the answer as it came, which is no error.

    Raises:
        RuntimeFaultError: no sidecar answers.
        RefusedError: it refuses.
    """
    try:
        answer = client.request(method, path, **arguments)
    except httpx.TransportError as error:
        raise RuntimeFaultError(unreached(client, error)) from error
    if answer.is_error:
        raise refused(client, answer)
    return answer


def unreached(client: httpx.Client, error: httpx.TransportError) -> str:
    """Return why no sidecar answered, and what to do."""
    where = client.base_url
    told = str(error)
    if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout):
        return f"nothing at {where} takes a connection: is the sidecar's host reachable from here?"
    if isinstance(error, httpx.TimeoutException):
        return (
            f"the sidecar at {where} does not answer within {_SECONDS_MAX:.0f} s: it is busy or "
            "stands still; its log and `flyball doctor` say more"
        )
    if "CERTIFICATE" in told:
        return (
            f"the certificate of {where} is not trusted here ({told}): let SSL_CERT_FILE name the "
            "authority that signed it"
        )
    if isinstance(error, httpx.RemoteProtocolError | httpx.ReadError) or "SSL" in told:
        return (
            f"what answers at {where} does not speak {where.scheme.upper()}: [listen] in "
            "flyball.toml has to be as the sidecar was started with (tls_cert, admin)"
        )
    return (
        f"no sidecar answers at {where}: start one with `flyball up`, or name its flyball.toml "
        "with --config FILE"
    )


def refused(client: httpx.Client, answer: httpx.Response) -> RefusedError:
    """Return what the sidecar refuses, and what to do where it is the token that it refuses."""
    try:
        body = answer.json()
        told = str(body.get("detail") or body.get("title") or answer.reason_phrase)
    except (ValueError, AttributeError):
        told = answer.reason_phrase or f"status {answer.status_code}"
    if answer.status_code == HTTPStatus.UNAUTHORIZED and isinstance(client, SidecarClient):
        told = (
            f"the sidecar at {client.base_url} does not know the token in {client.token_file}: "
            "--state DIR or FLYBALL_STATE has to name the state directory that it was started "
            "with; where the token was revoked, `flyball up` writes a new one when it starts again"
        )
    if answer.status_code == HTTPStatus.NOT_FOUND:
        told = _with_where_to_look(told, answer.request.url.path)
    return RefusedError(told, status=answer.status_code)


def _with_where_to_look(told: str, path: str) -> str:
    """Return what is not there, with what lists those that are."""
    command = next((_LISTED[part] for part in path.split("/")[:-1] if part in _LISTED), None)
    said = f"{told[:1].lower()}{told[1:]}".rstrip(".")
    return said if command is None else f"{said}; `{command}` lists what there is"


def date_of(epoch_ms: int) -> str:
    """Return a moment in ISO 8601, in UTC; what is further away than its years is never."""
    try:
        moment = datetime.fromtimestamp(epoch_ms // 1000, tz=UTC)
    except (OverflowError, ValueError, OSError):
        return "after the year 9999"
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
