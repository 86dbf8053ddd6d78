"""The admin API as the command line asks it."""

import argparse
import tomllib
from collections.abc import Iterable
from datetime import UTC, datetime
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
        raise RuntimeFaultError(
            f"{token_file}: {error.strerror}; `flyball up` writes it at its first start"
        ) from error
    scheme = "http" if listen.tls_cert is None else "https"
    return httpx.Client(
        base_url=f"{scheme}://{listen.admin}",
        headers={"Authorization": f"Bearer {token}"},
        timeout=_SECONDS_MAX,
        trust_env=False,
    )


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
    try:
        answer = client.request(method, path, **arguments)
    except httpx.TransportError as error:
        raise RuntimeFaultError(
            f"no sidecar answers at {client.base_url}: start one with `flyball up`"
        ) from error
    try:
        body: dict[str, Any] = answer.json() if answer.content else {}
    except ValueError as error:
        raise RuntimeFaultError(f"what answers at {client.base_url} is no Flyball") from error
    if answer.is_error:
        told = str(body.get("detail") or body.get("title") or answer.text)
        raise RefusedError(told, status=answer.status_code)
    return body


def date_of(epoch_ms: int) -> str:
    """Return a moment in ISO 8601, in UTC; what is further away than its years is never."""
    try:
        moment = datetime.fromtimestamp(epoch_ms // 1000, tz=UTC)
    except (OverflowError, ValueError, OSError):
        return "after the year 9999"
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
