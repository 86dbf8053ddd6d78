"""The console of two sidecars on one PostgreSQL, as a browser behind a load balancer meets it."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from pydantic import SecretStr

from runtime.configuration.load import load_config
from runtime.serving import serving

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

# Where browsers find the console: the name of the balancer, which is no sidecar's own.
HOST = "console.example"
CONFIG = f"""
[listen]
agents = "127.0.0.1:0"
admin = "127.0.0.1:0"
allowed_hosts = ["{HOST}"]
"""

BUDGET = {
    "id": "shared",
    "tenant": "default",
    "scope": "agent",
    "kind": "allowance",
    "window": "lifetime",
    "mode": "enforce",
    "overdraft": "deny",
    "limit.tool_calls": "5",
}


@dataclass(frozen=True, kw_only=True)
class Browser:
    """A browser, each of whose requests goes to the sidecar that it is said to go to."""

    http: httpx.AsyncClient

    async def get(self, sidecar: str, path: str) -> httpx.Response:
        return await self._sent("GET", sidecar, path)

    async def post(self, sidecar: str, path: str, **fields: str) -> httpx.Response:
        return await self._sent("POST", sidecar, path, data=fields)

    async def _sent(self, method: str, sidecar: str, path: str, **more: Any) -> httpx.Response:
        kept = "; ".join(f"{one.name}={one.value}" for one in self.http.cookies.jar)
        headers = {"Host": HOST, "Origin": f"http://{HOST}", "Cookie": kept}
        return await self.http.request(method, f"{sidecar}/console{path}", headers=headers, **more)


def configured(folder: Path) -> Path:
    folder.mkdir()
    path = folder / "flyball.toml"
    path.write_text(CONFIG)
    return path


@pytest.mark.requirement("console.replicas")
async def test_a_browser_is_known_to_whichever_sidecar_it_reaches_and_signs_out_of_all(
    tmp_path: Path, database: str
) -> None:
    url = SecretStr(database)
    first, second = (load_config(configured(tmp_path / name)) for name in ("one", "two"))
    with anyio.fail_after(120):
        async with (
            serving(first, state_dir=tmp_path / "one" / "state", store_url=url) as (one, at_one),
            serving(second, state_dir=tmp_path / "two" / "state", store_url=url) as (_, at_two),
            httpx.AsyncClient(trust_env=False, timeout=60) as http,
        ):
            browser, token = Browser(http=http), one.tokens.admin.read_text().strip()
            here, there = at_one.admin_url, at_two.admin_url
            signed_in = await browser.post(here, "/login", token=token, next="/console/budgets")
            form = await browser.get(there, "/budgets/~new")
            csrf = re.findall(r'name="csrf" value="([^"]+)"', form.text)[0]
            made = await browser.post(here, "/budgets", csrf=csrf, **BUDGET)
            seen = await browser.get(there, "/budgets")
            forged = await browser.post(there, "/logout", csrf="guessed")
            shown = await browser.post(there, "/tenant", csrf=csrf, tenant="default")
            narrowed = await browser.get(here, "/budgets")
            out = await browser.post(here, "/logout", csrf=csrf)
            stale = {"Cookie": signed_in.headers["set-cookie"].partition(";")[0], "Host": HOST}
            after = [
                await http.get(f"{sidecar}/console/budgets", headers=stale)
                for sidecar in (there, here)
            ]

    assert [one.status_code for one in (signed_in, form, made, seen)] == [303, 200, 303, 200]
    assert "/console/budgets/shared" in seen.text
    assert [one.status_code for one in (forged, shown, out)] == [403, 303, 303]
    assert '<option value="default" selected>' in narrowed.text
    assert [one.status_code for one in after] == [303, 303]
    assert {one.headers["location"].partition("?")[0] for one in after} == {"/console/login"}
