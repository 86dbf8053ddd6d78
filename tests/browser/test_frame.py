"""The frame of the console in a real browser: signing in, what a page looks like to everybody."""

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.browsing import Console, sign_in, window

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.requirement("console.sign-in")
def test_an_administrator_signs_in_with_the_token_and_out_again(
    console: Console, page: Page
) -> None:
    page.goto(f"{console.url}/calls")
    page.get_by_label("Administrator's token").fill("flb_wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("not the token of an administrator")

    page.get_by_label("Administrator's token").fill(console.token)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Calls")
    page.get_by_role("button", name="Sign out").click()
    page.goto(console.url)

    expect(page.get_by_label("Administrator's token")).to_be_visible()


@pytest.mark.requirement("console.keyboard")
def test_the_keyboard_alone_leads_from_the_skip_link_to_a_call(
    console: Console, browser: Browser
) -> None:
    with window(browser) as page:
        sign_in(page, console)
        page.keyboard.press("Tab")
        expect(page.locator(":focus")).to_have_text("Skip to the page")
        page.keyboard.press("Enter")

        expect(page.locator(":focus")).to_have_attribute("id", "main")
