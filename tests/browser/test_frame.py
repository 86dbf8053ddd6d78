"""The frame of the console in a real browser: signing in, the menu, keyboard, what goes wrong."""

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.browsing import (
    PHONE,
    Console,
    look_at,
    picture,
    sign_in,
    signed_in,
    window,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TABS_MAX = 60


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


@pytest.mark.requirement("console.accessible")
def test_who_has_not_signed_in_meets_no_barriers_either(
    console: Console, browser: Browser, axe: str
) -> None:
    faults = look_at(browser, console, "/login", "login", axe, as_stranger=True)

    assert not faults, "\n".join(faults)


@pytest.mark.requirement("console.keyboard")
def test_the_keyboard_alone_leads_to_the_page_and_into_a_call(
    console: Console, browser: Browser
) -> None:
    with window(browser) as page:
        sign_in(page, console, "/calls")
        page.keyboard.press("Tab")
        expect(page.locator(":focus")).to_have_text("Skip to the page")
        page.keyboard.press("Enter")
        expect(page.locator(":focus")).to_have_attribute("id", "main")

        for _ in range(TABS_MAX):
            page.keyboard.press("Tab")
            if page.locator("td a.name:focus").count():
                break
        outline = page.locator(":focus").evaluate("node => getComputedStyle(node).outlineStyle")
        name = page.locator(":focus").inner_text()
        page.keyboard.press("Enter")

        expect(page.get_by_role("heading", level=1)).to_have_text(name)
        assert outline == "solid", "where the focus is can be seen"


def test_on_a_phone_the_menu_opens_and_says_so(console: Console, browser: Browser) -> None:
    with window(browser, size=PHONE) as page:
        signed_in(page.context, console)
        page.goto(console.url)
        menu = page.get_by_role("button", name="Menu")
        expect(menu).to_have_attribute("aria-expanded", "false")
        expect(page.get_by_role("link", name="Audit log")).not_to_be_visible()

        menu.focus()
        page.keyboard.press("Enter")
        picture(page, "menu-phone", whole=False)

        expect(menu).to_have_attribute("aria-expanded", "true")
        page.get_by_role("link", name="Audit log").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Audit log")


@pytest.mark.requirement("console.stale")
def test_a_page_that_cannot_renew_itself_says_since_when_it_is_old(
    console: Console, page: Page
) -> None:
    signed_in(page.context, console)
    page.goto(console.url)
    page.route("**/console/live", lambda route: route.abort())

    stale = page.get_by_role("status").filter(has_text="The sidecar does not answer")
    expect(stale).to_be_visible()
    page.unroute("**/console/live")

    expect(stale).not_to_be_visible()


def test_colours_are_chosen_against_those_of_the_system(console: Console, page: Page) -> None:
    signed_in(page.context, console)
    page.goto(f"{console.url}/calls")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")

    page.get_by_role("button", name="Dark").click()

    expect(page.get_by_role("button", name="Dark")).to_have_attribute("aria-pressed", "true")
    expect(page).to_have_url(re.compile(r"/console/calls$"))
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light


@pytest.mark.requirement("console.tenant")
def test_of_several_tenants_one_is_chosen_and_its_things_alone_are_shown(
    console: Console, browser: Browser, page: Page, axe: str
) -> None:
    with console.admin() as admin:
        made = admin.post("tenants", json={"id": "acme", "name": "Acme"})
        assert made.status_code == 201, made.text
    faults = look_at(browser, console, "", "tenants", axe)
    signed_in(page.context, console)
    page.goto(f"{console.url}/calls")
    expect(page.get_by_role("link", name="worker__echo").first).to_be_visible()

    page.get_by_label("Tenant").select_option("Acme")

    expect(page.get_by_text("No calls yet")).to_be_visible()
    assert not faults, "\n".join(faults)
