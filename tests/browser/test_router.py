"""The pages of the router and of model providers in a real browser, over a log of real calls."""

import base64
from collections.abc import Iterator
from typing import Any

import anyio.from_thread
import httpx
import pytest
from playwright.sync_api import Browser, Page, expect
from scenarios.model import TWO_TIERS, a_model
from scenarios.process import SidecarProcess

from runtime.router.model_file import packed
from runtime.router.predictor import fit
from runtime.word_vectors import vectors_if_any
from tests.browser.browsing import (
    SECONDS_MAX,
    Console,
    comes_true,
    look_at,
    signed_in,
    window,
)
from tests.runtime.router.outcome_rows import rows

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

# Half of the calls are tried out, so few of them tell of both tiers.
ROUTER = """
[router]
mode = "learned"
explore_percent = 50.0
trusted_reporters = ["agent"]
"""
RATED = 80
SCORES = {"low": 0.4, "high": 0.9}


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """The console of a sidecar whose agent has said what some answers of `auto` were worth."""
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(a_model()) as port,
    ):
        extra = TWO_TIERS.format(port=port) + ROUTER
        sidecar = SidecarProcess(folder=tmp_path_factory.mktemp("router"), extra=extra)
        sidecar.start()
        try:
            yield Console(sidecar=sidecar)
        finally:
            sidecar.stop()


@pytest.fixture
def inside(browser: Browser, console: Console) -> Iterator[Page]:
    """A window in which somebody has signed in."""
    with window(browser) as opened:
        signed_in(opened.context, console)
        yield opened


def rate(console: Console, count: int) -> None:
    """Have the agent ask for `auto` so often, and say what each answer was worth."""
    base = console.sidecar.urls["agents"].removesuffix("/mcp") + "/v1"
    headers = {"Authorization": f"Bearer {console.sidecar.token('agent')}"}
    before = chosen(console)
    with httpx.Client(headers=headers, timeout=SECONDS_MAX, trust_env=False) as agent:
        for number in range(count):
            asked = {
                "model": "auto",
                "messages": [{"role": "user", "content": f"greeting river {number}"}],
            }
            session = {"Flyball-Session": f"ses-{before + number}"}
            answer = agent.post(f"{base}/chat/completions", json=asked, headers=session)
            assert answer.status_code == 200, answer.text
            told = answer.json()["flyball"]
            score = SCORES[told["tier"]] + (0.1 if number % 2 else -0.1)
            said = {"call_id": told["call_id"], "score": score, "source": "tests"}
            kept = agent.post(f"{base}/outcomes", json=said)
            assert kept.status_code == 200, kept.text
    comes_true(lambda: chosen(console) == before + count)


def chosen(console: Console) -> int:
    """Return how many choices are on record and rated."""
    return sum(tier["rated"] for tier in read(console, "router")["tiers"])


def read(console: Console, path: str) -> dict[str, Any]:
    with console.admin() as admin:
        found: dict[str, Any] = admin.get(path).raise_for_status().json()
    return found


def add_model(console: Console) -> str:
    """Add a model that is better by what was recorded elsewhere; return its version."""
    model = fit(rows(160), tiers=["low", "high"], vectors=vectors_if_any(), seed=0)
    recorded = {"outcomes": {"value": 0.1, "ci95": [0.05, 0.15], "n": 500}}
    sent = {
        "content_base64": base64.b64encode(packed(model)).decode(),
        "learned_until_ms": 1,
        "evidence": recorded,
    }
    with console.admin() as admin:
        answer = admin.post("router/models", json=sent)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["version"])


@pytest.mark.requirement("router-page.empty")
def test_before_anything_is_rated_the_page_says_what_to_do(
    console: Console, browser: Browser, axe: str, inside: Page
) -> None:
    faults = look_at(browser, console, "/router", "router-empty", axe)

    inside.goto(f"{console.url}/router")

    expect(inside.get_by_text("Nothing is rated yet")).to_be_visible()
    expect(inside.get_by_text("flyball router train makes one")).to_be_visible()
    expect(inside.get_by_text("Nothing was chosen yet")).to_be_visible()
    assert not faults, "\n".join(faults)


@pytest.mark.requirement("router-page.story")
def test_tiers_are_judged_a_model_is_promoted_and_what_it_expects_is_held_against_what_comes(
    console: Console, browser: Browser, axe: str, inside: Page
) -> None:
    rate(console, RATED)
    version = add_model(console)
    inside.goto(f"{console.url}/router")
    tiers = inside.get_by_role("region", name="Tiers")
    low = tiers.get_by_role("row").filter(has_text="scripted-small")
    expect(low).to_contain_text("$1.00 / $1.00")
    expect(low).to_contain_text("worth having")
    expect(inside.locator("svg.scatter circle").first).to_be_attached()

    inside.get_by_role("button", name="Promote").click()
    inside.get_by_role("dialog").get_by_role("button", name="Promote").click()
    expect(inside.get_by_role("status").filter(has_text=f"{version} is in force")).to_be_visible()
    rate(console, 20)
    faults = look_at(browser, console, "/router", "router", axe)
    faults += look_at(browser, console, "/router/decisions?rated=yes", "decisions", axe)

    found = read(console, "router/calibration")
    assert (found["n"], found["unforetold"]) == (20, RATED)
    inside.goto(f"{console.url}/router")
    expected = inside.get_by_role("region", name="Expected and observed quality").last
    expect(expected.get_by_role("row")).to_have_count(1 + len(found["bins"]))
    ways = inside.get_by_role("region", name="Other ways to choose")
    expect(ways.get_by_role("row").filter(has_text="Always low")).to_contain_text("answers")
    latest = inside.get_by_role("region", name="Latest choices").last.get_by_role("row").nth(1)
    expect(latest).to_contain_text(version)
    latest.locator("summary").click()
    expect(latest).to_contain_text("of the time")
    inside.get_by_role("link", name="All choices").click()
    inside.get_by_role("link", name="Next page").click()
    expect(inside.get_by_role("row")).to_have_count(51)
    inside.goto(f"{console.url}/router")
    inside.get_by_role("button", name="Roll back").click()
    inside.get_by_role("dialog").get_by_role("button", name="Roll back").click()
    told = inside.get_by_role("status").filter(has_text="The tier rules choose again")
    expect(told).to_be_visible()
    assert read(console, "router")["incumbent"] is None
    assert not faults, "\n".join(faults)


@pytest.mark.requirement("router-page.refused")
def test_a_model_that_nobody_can_judge_is_not_promoted_and_the_page_says_why(
    console: Console, inside: Page
) -> None:
    model = fit(rows(120, seed=1), tiers=["low", "high"], vectors=vectors_if_any(), seed=1)
    sent = {
        "content_base64": base64.b64encode(packed(model)).decode(),
        "learned_until_ms": 253_402_300_799_999,
    }
    with console.admin() as admin:
        admin.post("router/models", json=sent).raise_for_status()
    inside.goto(f"{console.url}/router")

    inside.get_by_role("button", name="Promote").first.click()
    inside.get_by_role("dialog").get_by_role("button", name="Promote").click()

    expect(inside.get_by_role("alert")).to_contain_text("more rated calls are needed")


@pytest.mark.requirement("router-page.providers")
def test_providers_show_their_breakers_and_keys_without_barriers(
    console: Console, browser: Browser, axe: str, inside: Page
) -> None:
    faults = look_at(browser, console, "/providers", "providers", axe)

    inside.goto(f"{console.url}/providers")

    card = inside.get_by_role("region", name="scripted")
    expect(card).to_contain_text("closed")
    expect(card.get_by_role("link", name="low")).to_be_visible()
    assert not faults, "\n".join(faults)
