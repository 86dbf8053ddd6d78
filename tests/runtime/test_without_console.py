"""A sidecar whose operator wants no console."""

from pathlib import Path

import anyio
import httpx
import pytest

from runtime.configuration.console import ConsoleTable
from runtime.configuration.listen import Listen
from runtime.configuration.model import Config
from runtime.serving import serving


@pytest.mark.anyio
async def test_without_the_console_its_pages_are_not_there_and_the_api_is(tmp_path: Path) -> None:
    config = Config(
        listen=Listen(agents="127.0.0.1:0", admin="127.0.0.1:0"),
        console=ConsoleTable(enabled=False),
    )
    with anyio.fail_after(60):
        async with (
            serving(config, state_dir=tmp_path) as (sidecar, listeners),
            httpx.AsyncClient(base_url=listeners.admin_url, trust_env=False, timeout=60) as browser,
        ):
            secret = await anyio.Path(sidecar.tokens.admin).read_text(encoding="utf-8")
            stranger = await browser.get("/console/login")
            browser.headers["Authorization"] = f"Bearer {secret.strip()}"
            pages = [await browser.get(path) for path in ("/console", "/console/login")]
            api = await browser.get("/admin/v1/overview")

    assert stranger.status_code == 401
    assert [page.status_code for page in pages] == [404, 404]
    assert api.status_code == 200
