"""The sessions API as the command line asks it in an agent's name."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import quote

import httpx

from runtime.cli.admin_api import asked, listen_of
from runtime.errors import RuntimeFaultError
from runtime.settings import Settings
from runtime.token_files import read_token, token_files

_SECONDS_MAX = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSessions:
    """The sessions of one agent at the sidecar that the settings name."""

    client: httpx.Client
    base_url: str
    token: str

    def spawn(self, name: str, *, parent: str, limits: Mapping[str, int | float]) -> None:
        """Make a session with an allowance of its own.

        Raises:
            RuntimeFaultError: no sidecar answers, or it refuses.
        """
        body = {"parent": parent, "name": name, "limits": dict(limits)}
        asked(self.client, "POST", "/sessions/v1", json=body)

    def say_task(self, name: str, task: str) -> None:
        """Say in the user's own words what a session is for.

        Raises:
            RuntimeFaultError: no sidecar answers, or it refuses.
        """
        path = f"/sessions/v1/{quote(name, safe='')}/task"
        asked(self.client, "POST", path, json={"task": task})

    def close(self, name: str) -> None:
        """Close a session; one that nothing happened in does not exist."""
        try:
            asked(self.client, "DELETE", f"/sessions/v1/{quote(name, safe='')}")
        except RuntimeFaultError:
            return


@contextmanager
def agent_sessions_of(settings: Settings) -> Iterator[AgentSessions]:
    """Yield the sessions of the first agent, whose token is in the state directory.

    Raises:
        RuntimeFaultError: there is no token to ask with.
        ConfigError: the file is not usable.
    """
    listen = listen_of(settings.config)
    token_file = token_files(settings.state).agent
    token = read_token(token_file)
    if token is None:
        raise RuntimeFaultError(
            f"{token_file} cannot be read; `flyball up` writes it at its first start"
        )
    scheme = "http" if listen.tls_cert is None else "https"
    base_url = f"{scheme}://{listen.agents}"
    with httpx.Client(
        base_url=base_url,
        headers={"Authorization": f"Bearer {token}"},
        timeout=_SECONDS_MAX,
        trust_env=False,
    ) as client:
        yield AgentSessions(client=client, base_url=base_url, token=token)
