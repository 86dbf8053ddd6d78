"""What the tests in a browser share: a sidecar with a past, a browser, the finder of barriers."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.browsing import Console, axe_source, chromium, console_with, window


@pytest.fixture(scope="session")
def axe() -> str:
    """The program that looks for barriers."""
    return axe_source()


# Not for the whole session: while it lives, no other event loop can run in this thread.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless browser; each test opens windows of its own."""
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """The console of a sidecar on which an agent has done some work."""
    with console_with(tmp_path_factory.mktemp("console")) as opened:
        _work(opened)
        yield opened


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A window that nobody has signed in with."""
    with window(browser) as opened:
        yield opened


def _work(console: Console) -> None:
    for number in range(6):
        console.call("worker__echo", text=f"line {number}")
    console.call("worker__burn", cpu_ms=5)
    console.call("worker__burn", session="review", cpu_ms=3)
    console.call("worker__die")
    console.call("worker__big", lines=3)
    console.call("worker__burn", session="review", cpu_ms=2)
    console.call("worker__burn", session="review", cpu_ms=2)
