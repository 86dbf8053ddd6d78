"""A real sidecar, a real browser before its console, and what tests ask of both."""

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from scenarios.process import SidecarProcess

from tests.conformance.installed import CACHE, made_once, npm_install

HERE = Path(__file__).resolve().parent
CHROMIUM = "/usr/bin/chromium"
SECONDS_MAX = 60
# Without these the browser asks its maker's hosts for this and that at every start.
_FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
WIDE = (1280, 860)
TABLET = (820, 1000)
PHONE = (390, 844)

expect.set_options(timeout=SECONDS_MAX * 1000)

RULES = """
[[budget]]
id = "everything"
scope = "tenant"
limits = { tool_calls = 60, cost_microusd = 2000000 }
window = { every_s = 316224000 }

[[budget]]
id = "each-agent"
scope = "agent"
limits = { cost_microusd = 1500000 }

[[rule]]
name = "ask-first"
tool = "worker__big"
approve = true
approval_wait_s = 0

[[rule]]
name = "no-crash"
tool = "worker__die"
allow = false

[[rule]]
name = "dear"
tool = "worker__burn"
cost_microusd = 480000

[default]
cost_microusd = 12500
"""
CHANGING = Path(__file__).parent / "changing_server.py"
HARMLESS = "Return the page at an address."


@dataclass
class Console:
    """A sidecar whose console is looked at, and the agent that gives it something to show."""

    sidecar: SidecarProcess

    @property
    def url(self) -> str:
        return self.sidecar.urls["console"]

    @property
    def token(self) -> str:
        return self.sidecar.token("admin")

    def is_ready(self) -> bool:
        """Tell whether every tool is offered: until then calls of it are of none."""
        with self.admin() as admin:
            upstreams = admin.get("upstreams").json()["items"]
        return {one["state"] for one in upstreams} == {"ready"}

    @property
    def described(self) -> Path:
        """What the server `pages` reads the description of its tool from, when it starts."""
        return self.sidecar.folder / "described.txt"

    def admin(self) -> httpx.Client:
        return httpx.Client(
            base_url=self.sidecar.urls["admin"],
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=SECONDS_MAX,
            trust_env=False,
        )

    def call(self, tool: str, session: str = "fix-the-parser", **arguments: Any) -> dict[str, Any]:
        """Return the result of one tool call of the agent."""
        asked = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {
                "name": tool,
                "arguments": arguments,
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
                    "io.modelcontextprotocol/clientCapabilities": {},
                },
            },
        }
        answer = httpx.post(
            self.sidecar.urls["agents"],
            json=asked,
            headers={
                "Authorization": f"Bearer {self.sidecar.token('agent')}",
                "Accept": "application/json, text/event-stream",
                "MCP-Protocol-Version": "2026-07-28",
                "Mcp-Method": "tools/call",
                "Mcp-Name": tool,
                "Flyball-Session": session,
            },
            timeout=SECONDS_MAX,
            trust_env=False,
        )
        assert answer.status_code == 200, answer.text
        result: dict[str, Any] = answer.json()["result"]
        return result


def comes_true(is_so: Callable[[], bool]) -> None:
    """Wait for another process; it shares no event with us."""
    end = time.monotonic() + SECONDS_MAX
    while not is_so():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.05)


@contextmanager
def console_with(folder: Path, extra: str = RULES) -> Iterator[Console]:
    """Yield the console of a sidecar of its own."""
    described = folder / "described.txt"
    described.write_text(HARMLESS, encoding="utf-8")
    command = json.dumps([sys.executable, str(CHANGING), str(described)])
    pages = f'\n[[upstream]]\nname = "pages"\ncommand = {command}\n'
    sidecar = SidecarProcess(folder=folder, extra=extra + pages)
    sidecar.start()
    try:
        console = Console(sidecar=sidecar)
        comes_true(console.is_ready)
        yield console
    finally:
        sidecar.stop()


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yield a headless browser with nothing remembered."""
    if not Path(CHROMIUM).exists():
        pytest.skip(f"no browser here: {CHROMIUM} (Debian package chromium)")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(_FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def window(
    browser: Browser,
    *,
    size: tuple[int, int] = WIDE,
    scheme: str = "light",
    **more: Any,
) -> Iterator[Page]:
    """Yield a page of a browser that nobody has signed in with; it may not err."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",
        **more,
    )
    context.set_default_timeout(SECONDS_MAX * 1000)
    context.set_default_navigation_timeout(SECONDS_MAX * 1000)
    try:
        yield context.new_page()
    finally:
        context.close()


def sign_in(page: Page, console: Console, path: str = "") -> None:
    """Sign in with the administrator's token, and go to a page."""
    page.goto(f"{console.url}{path}")
    page.get_by_label("Administrator's token").fill(console.token)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", level=1).wait_for()
    page.get_by_role("navigation", name="Pages").wait_for(state="attached")


def signed_in(context: BrowserContext, console: Console) -> None:
    """Give a browser the cookie of a visit, as signing in would."""
    origin = console.url.removesuffix("/console")
    answer = httpx.post(
        # By its address: not every resolver knows the name, as browsers do.
        console.sidecar.urls["admin"].replace("/admin/v1", "/console/login"),
        data={"token": console.token},
        headers={"Host": urlsplit(console.url).netloc, "Origin": origin},
        trust_env=False,
        timeout=SECONDS_MAX,
    )
    assert answer.status_code == 303, answer.text
    (name, value), *_ = answer.cookies.items()
    context.add_cookies([{"name": name, "value": value, "url": console.url}])


def axe_source() -> str:
    """Return the program that looks for barriers, or skip the test where it cannot be had."""
    lock = (HERE / "package-lock.json").read_bytes()
    folder = CACHE / f"axe-{hashlib.sha256(lock).hexdigest()[:16]}"
    with made_once(folder) as making:
        if making is not None:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(HERE / name, making)
            npm_install(making)
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


def picture(page: Page, name: str, *, whole: bool = True) -> None:
    """Keep a picture of a page in the folder that `FLYBALL_PICTURES` names, if it names one."""
    folder = os.environ.get("FLYBALL_PICTURES")
    if folder is not None:
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=whole)


def barriers(page: Page) -> list[str]:
    """Return what axe finds wrong with a page, each as its rule and the place."""
    found = page.evaluate("async () => (await axe.run(document, {resultTypes: ['violations']}))")
    return [
        f"{one['id']}: {node['html'][:120]}: {node['failureSummary']}"
        for one in found["violations"]
        for node in one["nodes"]
    ]


def look_at(
    browser: Browser,
    console: Console,
    path: str,
    name: str,
    axe: str,
    *,
    as_stranger: bool = False,
) -> list[str]:
    """Look at a page light, dark and as a phone shows it; return its barriers.

    A page that is wider than a phone is a barrier, too, and so is what the browser complains of.
    A stranger has not signed in.
    """
    faults: list[str] = []
    views: list[tuple[str, tuple[int, int], Literal["light", "dark"]]]
    views = [("light", WIDE, "light"), ("dark", WIDE, "dark"), ("phone", PHONE, "light")]
    with window(browser) as page:
        page.context.add_init_script(axe)
        if not as_stranger:
            signed_in(page.context, console)
        page.on("console", lambda said: faults.append(f"{said.type}: {said.text}"))
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        page.goto(f"{console.url}{path}")
        page.wait_for_load_state("networkidle")
        for view, (width, height), scheme in views:
            page.set_viewport_size({"width": width, "height": height})
            page.emulate_media(color_scheme=scheme)
            picture(page, f"{name}-{view}")
            faults += [f"{view}: {fault}" for fault in barriers(page)]
            faults += _too_wide(page, view, width)
        page.set_viewport_size({"width": TABLET[0], "height": TABLET[1]})
        faults += _too_wide(page, "tablet", TABLET[0])
        return list(faults)  # not what the browser says of a window that is closed


def _too_wide(page: Page, view: str, width: int) -> list[str]:
    needed = page.evaluate("document.documentElement.scrollWidth")
    return [f"{view}: the page is {needed} px wide, the window {width}"] if needed > width else []
