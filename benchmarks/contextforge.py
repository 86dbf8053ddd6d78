"""ContextForge as it is started for the comparison: throw-away secrets, one upstream registered.

Rate limits and plugins are off and the cache is in memory, so that what is measured is its path.
"""

import json
import os
import secrets
import subprocess
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# It refuses what looks made up, and lives for one run.
SECRET = secrets.token_urlsafe(48)
PASSWORD = f"Bench-{secrets.token_urlsafe(12)}-1"
ADMIN = "admin@example.com"
_SECONDS_MAX = 120


def environment(folder: Path) -> Mapping[str, str]:
    """Return its settings, with its database in `folder`."""
    return {
        "DATABASE_URL": f"sqlite:///{folder}/mcp.db",
        "CACHE_TYPE": "memory",
        "AUTH_REQUIRED": "true",
        "JWT_SECRET_KEY": SECRET,
        "AUTH_ENCRYPTION_SECRET": SECRET,
        "BASIC_AUTH_PASSWORD": PASSWORD,
        "PLATFORM_ADMIN_PASSWORD": PASSWORD,
        "PLATFORM_ADMIN_EMAIL": ADMIN,
        "DEFAULT_USER_PASSWORD": PASSWORD,
        "SSRF_ALLOW_LOCALHOST": "true",
        "SSRF_ALLOW_PRIVATE_NETWORKS": "true",
        "RATE_LIMITING_ENABLED": "false",
        "PLUGINS_ENABLED": "false",
        "TOOL_RATE_LIMIT": "1000000",
        "LOG_LEVEL": "ERROR",
        "MCPGATEWAY_UI_ENABLED": "false",
        "MCPGATEWAY_ADMIN_API_ENABLED": "true",
        "REQUIRE_STRONG_SECRETS": "false",
        "JSON_RESPONSE_ENABLED": "true",
        "USE_STATEFUL_SESSIONS": "false",
        "OBSERVABILITY_ENABLED": "false",
    }


def registered(peers: Path, port: int, folder: Path, upstream: str) -> tuple[str, str]:
    """Register the upstream; return the path of its virtual server and the header to call with."""
    python = str(peers / "contextforge/bin/python")
    command = [python, "-m", "mcpgateway.utils.create_jwt_token", "--username", ADMIN]
    command += ["--exp", "10080", "--secret", SECRET, "--admin"]
    made = subprocess.run(
        command,
        env={**os.environ, **environment(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    token = made.stdout.split()[-1]
    base = f"http://127.0.0.1:{port}"
    gateway = {
        "name": "echo",
        "url": upstream,
        "transport": "STREAMABLEHTTP",
        "visibility": "public",
    }
    _until_it_takes(f"{base}/gateways", token, gateway)
    tools = _tools(f"{base}/tools", token)
    server = {"name": "bench", "description": "b", "associated_tools": tools}
    made_server = _asked(f"{base}/servers", token, {"server": server, "visibility": "public"})
    return f"/servers/{made_server['id']}/mcp", f"authorization: Bearer {token}"


def _until_it_takes(url: str, token: str, wanted: object) -> None:
    """Post until it is taken: it listens before its database is ready."""
    deadline = time.monotonic() + _SECONDS_MAX
    while True:
        try:
            _asked(url, token, wanted)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(1)
        else:
            return


def _tools(url: str, token: str) -> list[str]:
    deadline = time.monotonic() + _SECONDS_MAX
    while time.monotonic() < deadline:
        listed = _asked(url, token)
        if isinstance(listed, dict):
            listed = listed.get("data", listed.get("tools", []))
        if listed:
            return [tool["id"] for tool in listed]
        time.sleep(1)
    raise TimeoutError("ContextForge lists no tools")


def _asked(url: str, token: str, wanted: object = None) -> Any:
    body = None if wanted is None else json.dumps(wanted).encode()
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    request = urllib.request.Request(url, body, headers)  # noqa: S310 - our own loopback
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        return json.load(answer)
