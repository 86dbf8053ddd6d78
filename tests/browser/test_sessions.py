"""The pages of sessions and of budgets in a real browser, before a sidecar of two workers."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.browsing import Console, look_at, picture, signed_in, window
from tests.browser.storied import HOSTILE, MIB, SESSION, session_id, storied, story_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


# Not a page of the console, whatever a budget is called.
NAME = "new"


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """The console of a sidecar on which an agent has had a session worth telling."""
    with storied(tmp_path_factory.mktemp("story")) as opened:
        yield opened


@pytest.fixture
def inside(browser: Browser, console: Console) -> Iterator[Page]:
    """A window in which somebody has signed in."""
    with window(browser) as opened:
        signed_in(opened.context, console)
        yield opened


@pytest.mark.requirement("curves.workers")
@pytest.mark.requirement("timeline.live")
def test_a_session_over_two_workers_is_told_with_turns_tiers_denials_and_curves(
    console: Console,
) -> None:
    story = story_of(console)

    calls = [item for item in story["items"] if item["kind"] == "call"]
    assert [one["call"]["status"] for one in calls] == ["ok", "ok", "ok", "denied", "ok", "ok"]
    assert [(turn["turn"], turn["calls"], turn["denied"]) for turn in story["turns"]] == [
        ("read", 4, 1),
        ("write", 2, 0),
    ]
    assert {one["model"]["tier"] for one in calls if one["model"]} <= {"low", "high"}
    assert all(one["model"]["why"] for one in calls if one["model"])
    curved = [one["call"]["id"] for one in calls if one["call"]["has_curve"]]
    assert len(curved) == 2
    with console.admin() as admin:
        for call_id in curved:
            curve = admin.get(f"calls/{call_id}/curve").json()
            assert curve["memory_peak_bytes"] > 32 * MIB
            assert curve["points"][-1]["at_ms"] > 350
            assert curve["points"][-1]["cpu_ms"] > 0


@pytest.mark.requirement("session-pages.accessible")
@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/sessions", "sessions"),
        ("/sessions/{session}", "session"),
        ("/budgets", "budgets"),
        ("/budgets/each-session", "budget"),
    ],
)
def test_a_page_has_no_barriers_in_either_scheme_and_fits_a_phone(
    console: Console, browser: Browser, axe: str, path: str, name: str
) -> None:
    faults = look_at(browser, console, path.format(session=session_id(console)), name, axe)

    assert not faults, "\n".join(faults)


@pytest.mark.requirement("session-pages.timeline")
def test_a_session_is_found_read_with_the_curve_of_a_command_frozen_and_resumed(
    console: Console, inside: Page
) -> None:
    inside.goto(f"{console.url}/sessions")
    inside.get_by_role("link", name=SESSION).click()

    expect(inside.get_by_role("heading", level=1)).to_have_text(SESSION)
    expect(inside.locator("section.turn h3")).to_contain_text(["Turn 1", "Turn 2"])
    expect(inside.locator("li.model .why").first).to_contain_text(re.compile("low|high"))
    curve = inside.locator("details.curve-of").first
    curve.locator("summary").first.focus()
    inside.keyboard.press("Enter")
    expect(curve.locator("figure.chart canvas")).to_be_visible()
    curve.get_by_text("Show as a table").click()
    expect(curve.locator("tbody tr").first).to_be_visible()
    picture(inside, "session-curve")

    inside.get_by_role("button", name="Freeze").click()
    expect(inside.locator(".actions .badge")).to_have_text("frozen")
    inside.get_by_role("button", name="Resume").click()
    expect(inside.locator(".actions .badge")).to_have_text("open")
    expect(inside.locator("li.change")).to_contain_text(["Freeze", "Resume"])


@pytest.mark.requirement("session-pages.timeline")
def test_what_was_archived_is_read_and_a_session_is_ended_only_when_asked_twice(
    console: Console, inside: Page
) -> None:
    inside.goto(f"{console.url}/sessions/{session_id(console)}")
    inside.get_by_role("link", name="Archived result").click()
    expect(inside.locator("pre")).to_contain_text("a long line")

    inside.goto(f"{console.url}/sessions/{session_id(console, HOSTILE)}")
    expect(inside.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    inside.get_by_role("button", name="End session").click()
    inside.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(inside.locator(".actions .badge")).to_have_text("open")
    inside.get_by_role("button", name="End session").click()
    inside.get_by_role("dialog").get_by_role("button", name="End session").click()
    expect(inside.locator(".actions .badge")).to_have_text("closed")


@pytest.mark.requirement("session-pages.budgets")
def test_a_budget_is_previewed_made_changed_and_retired(console: Console, inside: Page) -> None:
    inside.goto(f"{console.url}/budgets")
    inside.get_by_role("link", name="New budget").click()
    inside.get_by_label("Name", exact=True).fill(NAME)
    inside.get_by_label("Scope").select_option("session")
    inside.get_by_label("Tool calls").fill("2")
    inside.get_by_role("button", name="Preview").click()

    preview = inside.locator("#preview")
    expect(preview.get_by_text("Would have been denied", exact=True)).to_be_visible()
    expect(preview.get_by_role("heading", name="What this cannot know")).to_be_visible()
    expect(preview.locator(".figure").first).to_contain_text(re.compile(r"[1-9]\d*\s*of"))
    picture(inside, "budget-preview")

    inside.get_by_role("button", name="Make it").click()
    inside.get_by_role("link", name=NAME, exact=True).click()
    expect(inside.get_by_label("Tool calls")).to_have_value("2")
    with console.admin() as admin:
        changed = admin.put(f"budgets/{NAME}", json={"limits": {"tool_calls": 9}})
        assert changed.status_code == 200, changed.text
    inside.get_by_label("Tool calls").fill("5")
    inside.get_by_role("button", name="Save").click()
    expect(inside.get_by_role("alert")).to_contain_text("Version conflict")
    inside.goto(f"{console.url}/budgets/{NAME}")
    inside.get_by_label("Tool calls").fill("5")
    inside.get_by_role("button", name="Save").click()
    expect(inside.get_by_role("heading", level=1)).to_have_text("Budgets")
    inside.get_by_role("link", name=NAME, exact=True).click()
    expect(inside.get_by_label("Tool calls")).to_have_value("5")
    inside.get_by_role("button", name="Retire").click()
    inside.get_by_role("dialog").get_by_role("button", name="Retire").click()
    expect(inside.get_by_role("heading", level=1)).to_have_text("Budgets")
    expect(inside.get_by_role("link", name=NAME, exact=True)).to_have_count(0)


@pytest.mark.requirement("session-pages.budgets")
def test_a_form_that_cannot_be_read_says_at_each_field_how_it_is_written(
    console: Console, inside: Page
) -> None:
    inside.goto(f"{console.url}/budgets/~new")
    inside.get_by_label("Cost (US dollars)").fill("a lot")
    inside.get_by_label("Warn at").fill("most")
    inside.get_by_role("button", name="Make it").click()

    cost = inside.get_by_label("Cost (US dollars)")
    expect(cost).to_have_attribute("aria-invalid", "true")
    expect(cost).to_have_value("a lot")
    expect(inside.locator(".fault")).to_have_count(2)
    cost.fill("2.50")
    inside.get_by_label("Warn at").fill("")
    inside.get_by_role("button", name="Preview").click()
    expect(inside.locator("#preview .figure").first).to_be_visible()
    expect(inside.get_by_role("alert")).to_have_count(0)
    expect(inside.get_by_label("Cost (US dollars)")).to_have_value("2.50")
