"""The admin API as the command line asks it."""

from datetime import UTC, datetime
from typing import Any

import httpx

from runtime.configuration.load import load_config
from runtime.configuration.model import Config
from runtime.errors import RuntimeFaultError
from runtime.first_start import token_files
from runtime.settings import Settings

_SECONDS_MAX = 30.0


def client_of(settings: Settings) -> httpx.Client:
    """Return a client of the sidecar that the settings name, as its administrator.

    Raises:
        RuntimeFaultError: there is no token to ask with.
    """
    config = load_config(settings.config) if settings.config.exists() else Config()
    token_file = token_files(settings.state).admin
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


def asked(client: httpx.Client, method: str, path: str, **arguments: Any) -> dict[str, Any]:
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
    try:
        body: dict[str, Any] = answer.json() if answer.content else {}
    except ValueError as error:
        raise RuntimeFaultError(f"what answers at {client.base_url} is no Flyball") from error
    if answer.is_error:
        raise RuntimeFaultError(str(body.get("detail") or body.get("title") or answer.text))
    return body


def date_of(epoch_ms: int) -> str:
    """Return a moment in ISO 8601, in UTC; what is further away than its years is never."""
    try:
        moment = datetime.fromtimestamp(epoch_ms // 1000, tz=UTC)
    except (OverflowError, ValueError, OSError):
        return "after the year 9999"
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
