"""The site builds without a warning, leads nowhere wrong, and asks nobody else for anything."""

import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import sync_playwright

from docs.tools.hooks import ELSEWHERE
from docs.tools.snippets import DOCS, ROOT
from tests.docs.front_page import anchors_of, links_of

BUILD_SECONDS_MAX = 240
PAGE_MS_MAX = 60_000
CHROMIUM = shutil.which("chromium")
# As root it has no sandbox; nothing of its own may look for other hosts.
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run")
FLAGS += ("--disable-background-networking", "--disable-component-update", "--disable-sync")
FETCHED = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src"}
PHONE = {"width": 390, "height": 800}
LINES_MAX = 200
LOOKED_AT = {
    "light": ("index.html", "how-to/set-budgets.html"),
    "dark": ("concepts.html", "reference/commands.html"),
}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site, strictly; any warning ends it."""
    folder = tmp_path_factory.mktemp("site")
    done = built(ROOT / "mkdocs.yml", folder)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def built(config: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    # With --quiet no warning would be counted, and none would end it.
    mkdocs = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    return subprocess.run(
        [*mkdocs, "--config-file", str(config), "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS_MAX,
        check=False,
    )


class Fetches(HTMLParser):
    """Collects what a browser fetches of itself when it shows a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "link" and given.get("rel") in {"canonical", "prev", "next", "edit"}:
            return
        address = given.get(FETCHED.get(tag, ""))
        if address is not None:
            self.addresses.append(address)


@pytest.mark.timeout(300)
@pytest.mark.requirement("docs.site-builds")
def test_the_site_builds_without_a_warning_and_has_every_page(site: Path) -> None:
    written = {path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md")}
    wanted = {path.as_posix() for path in written} | {
        page.removesuffix(".md") + ".html" for page in ELSEWHERE.values()
    }

    found = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    assert wanted <= found
    assert (site / "reference" / "openapi.json").is_file()
    assert not list(site.rglob("*.py"))


@pytest.mark.requirement("docs.site-is-offline")
def test_no_page_fetches_anything_from_elsewhere(site: Path) -> None:
    strange = []
    for path in site.rglob("*.html"):
        page = Fetches()
        page.feed(path.read_text(encoding="utf-8"))
        strange += [f"{path.name}: {found}" for found in page.addresses if urlsplit(found).netloc]
    for path in (*site.rglob("*.css"), *site.rglob("*.svg")):
        urls = re.findall(r"url\(\s*['\"]?(https?:[^)]*)", path.read_text(encoding="utf-8"))
        strange += [f"{path.name}: {found}" for found in urls]

    assert not strange, strange


class QuietServer(http.server.SimpleHTTPRequestHandler):
    """Serves the site without a line for each request."""

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    handler = partial(QuietServer, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
@pytest.mark.timeout(300)
@pytest.mark.requirement("docs.site-is-offline")
def test_a_browser_shows_the_site_by_itself(address: str, tmp_path: Path) -> None:
    asked: set[str] = set()
    complaints: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        for scheme, names in LOOKED_AT.items():
            page = browser.new_page(color_scheme=scheme, viewport=PHONE)
            page.on("request", lambda request: asked.add(urlsplit(request.url).netloc))
            page.on("pageerror", lambda error: complaints.append(str(error)))
            for name in names:
                page.goto(f"{address}/{name}", timeout=PAGE_MS_MAX)
                page.screenshot(path=picture_of(f"{name}-{scheme}", tmp_path))
                wide = page.evaluate("document.documentElement.scrollWidth")
                assert wide <= PHONE["width"], f"{name} is {wide} wide"
        browser.close()

    assert asked == {urlsplit(address).netloc}
    assert not complaints


def picture_of(name: str, otherwise: Path) -> Path:
    folder = Path(os.environ.get("FLYBALL_PICTURES", otherwise))
    return folder / f"docs-{name.replace('/', '-').replace('.html', '')}.png"


def leads_off(target: str) -> bool:
    path, _, anchor = target.partition("#")
    found = ROOT / unquote(path)
    if not found.exists():
        return True
    return bool(anchor) and anchor not in anchors_of(found.read_text(encoding="utf-8"))


@pytest.mark.requirement("docs.front-page")
def test_the_readme_is_a_front_page_whose_links_lead_somewhere() -> None:
    readme = ROOT / "README.md"
    lost = [target for target in links_of(readme.read_text(encoding="utf-8")) if leads_off(target)]

    assert len(readme.read_text(encoding="utf-8").splitlines()) <= LINES_MAX
    assert not lost, lost


@pytest.mark.requirement("docs.front-page")
def test_every_link_of_a_page_leads_to_a_file_where_it_lies() -> None:
    lost = [
        f"{path.relative_to(ROOT)}: {target}"
        for path in DOCS.rglob("*.md")
        for target in links_of(path.read_text(encoding="utf-8"))
        if not (path.parent / unquote(target.partition("#")[0])).exists()
    ]

    assert not lost, lost


@pytest.mark.requirement("docs.front-page")
def test_every_how_to_is_reached_from_the_navigation_and_the_front_page_from_there() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")

    missing = [
        path.relative_to(DOCS).as_posix()
        for path in DOCS.rglob("*.md")
        if f"- {path.relative_to(DOCS).as_posix()}\n" not in navigation
    ]
    assert not missing, f"name them in mkdocs.yml: {missing}"


@pytest.mark.timeout(300)
@pytest.mark.requirement("docs.site-builds")
def test_a_link_that_leads_nowhere_ends_the_build(tmp_path: Path) -> None:
    """The configuration of the site itself, around one page with two wrong links."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    without = re.sub(r"(?m)^(nav|hooks|extra_css):\n(?:[ ]+.*\n|\n)*", "", text)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(
        "# One\n\n[gone](gone.md) [also](#gone)\n", encoding="utf-8"
    )
    (tmp_path / "docs" / "assets").mkdir()
    shutil.copy(DOCS / "assets" / "mark.svg", tmp_path / "docs" / "assets")
    (tmp_path / "mkdocs.yml").write_text(without, encoding="utf-8")

    done = built(tmp_path / "mkdocs.yml", tmp_path / "site")

    assert done.returncode != 0
    assert "gone.md" in done.stderr
    assert "#gone" in done.stderr
