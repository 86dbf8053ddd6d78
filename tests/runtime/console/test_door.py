"""Who is let into the console, and which forms are believed."""

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from governor.ids import PrincipalId
from memory_store import visits as kept_visits
from memory_store.audit import Actor
from memory_store.errors import StoreUnavailableError
from runtime.console import visits as visiting
from runtime.console.own_name import OwnName
from runtime.console.throttle import OF_ADDRESS, OF_ADDRESS_EVERY_MS
from tests.runtime.admin.admin_world import ADMIN, TENANT
from tests.runtime.console.conftest import IDLE_MS, Desk

pytestmark = pytest.mark.anyio

BY = Actor(name="root")


@pytest.mark.requirement("console.sign-in")
async def test_every_page_asks_who_has_not_signed_in_to_do_so_and_leads_back(desk: Desk) -> None:
    answer = await desk.get("/calls?status=denied")

    assert answer.status_code == 303
    assert answer.headers["location"] == "/console/login?next=%2Fconsole%2Fcalls%3Fstatus%3Ddenied"
    assert "html" not in (await desk.get("/approvals")).text


async def test_who_signs_in_goes_where_they_wanted_and_nowhere_outside(desk: Desk) -> None:
    for asked, target in (
        ("/console/calls", "/console/calls"),
        ("https://elsewhere.example/", "/console"),
        ("//elsewhere.example/", "/console"),
        ("/console/../admin/v1/tenants//x", "/console"),
        ("/admin/v1/tenants", "/console"),
    ):
        fields = {"token": desk.world.admin_secret, "next": asked}
        answer = await desk.post("/login", fields)

        assert (answer.status_code, answer.headers["location"]) == (303, target)


@pytest.mark.requirement("console.cookie")
async def test_the_cookie_is_for_this_site_alone_and_no_script_reads_it(desk: Desk) -> None:
    answer = await desk.sign_in()

    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Path=/console" in cookie
    assert desk.world.admin_secret not in cookie


@pytest.mark.requirement("console.own-name")
async def test_whoever_comes_by_a_loopback_name_is_led_to_the_consoles_own() -> None:
    async def answered(_: Request) -> Response:
        return Response("here")

    app = OwnName(Starlette(routes=[Route("/console/calls", answered)]), host="flyball.localhost")
    there = "http://flyball.localhost:8701/console/calls"
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as browser:
        for name in ("127.0.0.1", "localhost", "[::1]"):
            by_name = f"http://{name}:8701/console/calls?a=1"
            led, sent = await browser.get(by_name), await browser.post(by_name)

            assert (led.status_code, led.headers["location"]) == (307, f"{there}?a=1")
            assert sent.status_code == 421
        assert (await browser.get(there)).text == "here"


async def test_an_agents_token_and_a_wrong_one_are_refused_in_the_same_words(desk: Desk) -> None:
    agents = await desk.sign_in(desk.world.agent_secret)
    wrong = await desk.sign_in("flb_nothing")

    assert agents.status_code == wrong.status_code == 401
    assert agents.text == wrong.text
    assert desk.cookie is None


@pytest.mark.requirement("console.throttled")
async def test_too_many_tries_wait_and_a_right_token_is_no_way_around(desk: Desk) -> None:
    tries = [await desk.sign_in("flb_wrong") for _ in range(OF_ADDRESS)]
    more = await desk.sign_in()
    desk.world.clock.at_ms += OF_ADDRESS_EVERY_MS
    later = await desk.sign_in()

    assert {answer.status_code for answer in tries} == {401}
    assert more.status_code == 429
    assert int(more.headers["retry-after"]) == OF_ADDRESS_EVERY_MS // 1000
    assert later.status_code == 303


@pytest.mark.requirement("console.revoked")
async def test_a_visit_ends_with_its_token_at_the_next_request(desk: Desk) -> None:
    token = await desk.world.parts.store.principals.issue_token(
        ADMIN, expires_at_ms=None, by=BY, now_ms=desk.world.clock.now_ms()
    )
    await desk.sign_in(token.secret)
    assert (await desk.get()).status_code == 200

    await desk.world.parts.store.principals.revoke_token(
        token.token_id, by=BY, now_ms=desk.world.clock.now_ms()
    )

    assert (await desk.get()).status_code == 303


async def test_a_visit_ends_when_its_token_expires_or_its_administrator_is_none(
    desk: Desk,
) -> None:
    store, now_ms = desk.world.parts.store, desk.world.clock.now_ms()
    token = await store.principals.issue_token(
        ADMIN, expires_at_ms=now_ms + 10_000, by=BY, now_ms=now_ms
    )
    await desk.sign_in(token.secret)
    assert (await desk.get()).status_code == 200
    desk.world.clock.at_ms += 10_000
    assert (await desk.get()).status_code == 303

    await desk.sign_in()
    assert (await desk.get()).status_code == 200
    answer = await desk.world.put(
        f"/principals/{ADMIN}", {"name": "root", "role": "agent", "tenant": TENANT}
    )
    assert answer.status_code == 200, answer.text
    assert (await desk.get()).status_code == 303


async def test_a_page_that_is_left_open_and_renews_itself_keeps_no_visit(desk: Desk) -> None:
    await desk.sign_in()
    polling = {"HX-Request": "true"}
    for _ in range(2):
        desk.world.clock.at_ms += IDLE_MS // 2
        assert (await desk.get("/live", headers=polling)).status_code == 200

    desk.world.clock.at_ms += 1
    assert (await desk.get("/live", headers=polling)).status_code == 401
    assert (await desk.get()).status_code == 303


async def test_a_visit_ends_after_a_pause_and_after_a_working_day(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visiting, "LASTS_MS", 3 * IDLE_MS)
    await desk.sign_in()
    desk.world.clock.at_ms += IDLE_MS
    assert (await desk.get()).status_code == 200
    desk.world.clock.at_ms += IDLE_MS + 1
    assert (await desk.get()).status_code == 303

    await desk.sign_in()
    for _ in range(3):
        desk.world.clock.at_ms += IDLE_MS
        assert (await desk.get()).status_code == 200
    desk.world.clock.at_ms += 1
    assert (await desk.get()).status_code == 303


async def test_the_oldest_of_too_many_visits_makes_room(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_visits, "VISITS_MAX", 2)
    cookies = []
    for _ in range(3):
        desk.browser.cookies.clear()
        await desk.sign_in()
        cookies.append(desk.cookie)

    statuses = []
    for cookie in cookies:
        desk.browser.cookies.clear()
        answer = await desk.get(headers={"Cookie": f"flyball_console={cookie}"})
        statuses.append(answer.status_code)

    assert statuses == [303, 200, 200]


async def test_who_signed_out_is_out_even_with_the_cookie_kept(desk: Desk) -> None:
    await desk.sign_in()
    cookie = desk.cookie
    await desk.post("/logout", {"csrf": await desk.csrf()})

    answer = await desk.get(headers={"Cookie": f"flyball_console={cookie}"})

    assert answer.status_code == 303


@pytest.mark.requirement("console.replicas")
async def test_who_looks_at_pages_is_noted_once_in_a_while_and_a_poll_never(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[int] = []
    keeper = desk.world.parts.store.visits
    see = keeper.see

    async def counted(visit_key: str, *, at_ms: int) -> None:
        noted.append(at_ms)
        await see(visit_key, at_ms=at_ms)

    monkeypatch.setattr(keeper, "see", counted)
    await desk.sign_in()
    begun_ms = desk.world.clock.at_ms
    every_ms = IDLE_MS // 10
    for step_ms in (1, every_ms, every_ms + 1):
        desk.world.clock.at_ms = begun_ms + step_ms
        await desk.get("/live", headers={"HX-Request": "true"})
        await desk.get("/calls")

    assert noted == [begun_ms + every_ms]


@pytest.mark.requirement("console.replicas")
async def test_a_store_that_fails_is_told_in_words_and_pages_are_shown_though_it_takes_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.sign_in()
    keeper, failing = desk.world.parts.store.visits, _failing
    monkeypatch.setattr(keeper, "see", failing)
    desk.world.clock.at_ms += IDLE_MS // 2
    full = await desk.get("/calls")
    monkeypatch.setattr(keeper, "end", failing)
    signing_out = await desk.post("/logout", {"csrf": await desk.csrf()})
    monkeypatch.setattr(keeper, "find", failing)
    away = await desk.get("/calls")

    assert full.status_code == 200
    assert (signing_out.status_code, away.status_code) == (503, 503)
    assert "the disk is full" in away.text


async def _failing(*_: object, **__: object) -> None:
    message = "the disk is full"
    raise StoreUnavailableError(message)


@pytest.mark.requirement("console.csrf")
@pytest.mark.parametrize(
    ("fields", "headers"),
    [
        ({}, {"Origin": "http://admin"}),
        ({"csrf": "guessed"}, {"Origin": "http://admin"}),
        ({"csrf": "right"}, {"Origin": "http://elsewhere.example"}),
        ({"csrf": "right"}, {"Origin": "http://admin:3000"}),
        ({"csrf": "right"}, {}),
        ({"csrf": "right"}, {"Origin": "http://admin", "Sec-Fetch-Site": "same-site"}),
    ],
)
async def test_a_form_without_the_token_or_of_another_origin_changes_nothing(
    desk: Desk, fields: dict[str, str], headers: dict[str, str]
) -> None:
    await desk.sign_in()
    if fields.get("csrf") == "right":
        fields = {"csrf": await desk.csrf()}

    answer = await desk.browser.post("/console/logout", data=fields, headers=headers)

    assert answer.status_code == 403
    assert (await desk.get()).status_code == 200, "still signed in"


async def test_a_form_that_is_none_or_too_large_is_answered_in_words(desk: Desk) -> None:
    await desk.sign_in()
    own = {"Origin": "http://admin"}

    json = await desk.browser.post("/console/logout", json={"csrf": "x"}, headers=own)
    many = await desk.browser.post(
        "/console/logout", content="a=1&" * 600, headers=own | {"Content-Type": _FORM}
    )
    torn = await desk.browser.post(
        "/console/logout", content=b"a=%ff\xff", headers=own | {"Content-Type": _FORM}
    )
    large = await desk.browser.post(
        "/console/logout", content=b"a" * 300_000, headers=own | {"Content-Type": _FORM}
    )

    assert [one.status_code for one in (json, many, torn, large)] == [415, 400, 400, 413]


_FORM = "application/x-www-form-urlencoded"


@pytest.mark.requirement("console.policy")
async def test_every_answer_forbids_what_is_not_the_consoles_own(desk: Desk) -> None:
    answers = [await desk.get("/login"), await desk.get(), await desk.get("/nothing/here")]
    await desk.sign_in()
    answers += [await desk.get(), await desk.get("/nothing/here"), await desk.get("/static/x")]

    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert {answer.headers["cache-control"] for answer in answers} == {"no-store"}


async def test_no_page_has_script_or_style_in_its_text(desk: Desk) -> None:
    await desk.sign_in()

    for path in ("", "/calls", "/approvals", "/upstreams", "/audit"):
        text = (await desk.get(path)).text
        assert "<style" not in text
        assert " style=" not in text
        assert " onclick=" not in text
        assert text.count("<script") == text.count("<script src=")


@pytest.mark.requirement("console.escaped")
async def test_what_strangers_named_things_is_shown_as_text(desk: Desk) -> None:
    hostile = '<script>alert("x")</script>'
    await desk.world.post("/tenants", {"id": "evil", "name": hostile})
    await desk.sign_in()

    text = (await desk.get("/audit")).text

    assert hostile not in text
    assert "&lt;script&gt;" in text


@pytest.mark.requirement("console.escaped")
async def test_a_name_that_turns_its_order_around_is_shown_by_its_numbers(desk: Desk) -> None:
    await desk.world.post("/tenants", {"id": "evil", "name": "safe \u202etxt.exe"})
    await desk.sign_in()

    text = (await desk.get("/audit")).text

    assert "\u202e" not in text
    assert r"safe \u202etxt.exe" in text


async def test_the_api_goes_on_to_want_a_token_and_no_cookie(desk: Desk) -> None:
    await desk.sign_in()

    answer = await desk.browser.get("/admin/v1/tenants")

    assert answer.status_code == 401


@pytest.mark.requirement("console.by-whom")
async def test_what_is_done_in_the_console_is_recorded_of_who_signed_in(desk: Desk) -> None:
    eve = PrincipalId("eve")
    await desk.world.post(
        "/principals", {"id": eve, "tenant": TENANT, "name": "Eve", "role": "admin"}
    )
    issued = await desk.world.post(f"/principals/{eve}/tokens", {})
    await desk.sign_in(issued.json()["secret"])

    text = (await desk.get()).text
    await desk.world.admit("c1")

    assert 'title="Signed in as eve"' in text


async def test_the_choice_of_a_tenant_stays_until_another_is_made(desk: Desk) -> None:
    await desk.world.post("/tenants", {"id": "other", "name": "Other"})
    await desk.world.run_call("c1")
    await desk.sign_in()
    csrf = await desk.csrf()

    chosen = await desk.post("/tenant", {"csrf": csrf, "tenant": "other", "next": "/console/calls"})
    calls = (await desk.get("/calls")).text
    unknown = await desk.post("/tenant", {"csrf": csrf, "tenant": "nobody"})
    await desk.post("/tenant", {"csrf": csrf, "tenant": ""})

    assert chosen.headers["location"] == "/console/calls"
    assert "/console/calls/c1" not in calls
    assert unknown.status_code == 404
    assert "/console/calls/c1" in (await desk.get("/calls")).text


async def test_colours_are_kept_in_a_cookie_of_their_own(desk: Desk) -> None:
    await desk.sign_in()

    await desk.post("/theme", {"csrf": await desk.csrf(), "theme": "dark"})

    assert '<html lang="en" data-theme="dark">' in (await desk.get()).text


async def test_a_page_that_htmx_asks_for_is_loaded_whole_once_nobody_is_signed_in(
    desk: Desk,
) -> None:
    answer = await desk.get("/live", headers={"HX-Request": "true"})

    assert (answer.status_code, answer.headers["hx-refresh"]) == (401, "true")
