import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from governor.amounts import AMOUNT_MAX
from memory_store.paging import cursor_of
from runtime.naming import ID_RULE
from tests.runtime.admin.admin_world import AGENT, BODY_BYTES_MAX, TENANT, World

pytestmark = pytest.mark.anyio

PROBLEM = "application/problem+json"
JSON = {"Content-Type": "application/json"}


def budget(**changed: Any) -> dict[str, Any]:
    fields = {"id": "b", "tenant": TENANT, "scope": "agent", "limits": {"tool_calls": 1}}
    return {name: value for name, value in (fields | changed).items() if value is not ...}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (budget(limits={"tool_calls": -1}), "limits.tool_calls"),
        (budget(limits={"tool_calls": AMOUNT_MAX + 1}), "limits.tool_calls"),
        (budget(limits={"tool_calls": 10**40}), "limits.tool_calls"),
        (budget(limits={"tool_calls": True}), "limits.tool_calls"),
        (budget(limits={"tool_calls": 1.5}), "limits.tool_calls"),
        (budget(limits={"tool_calls": 1.0}), "limits.tool_calls"),
        (budget(limits={"tool_calls": "1"}), "limits.tool_calls"),
        (budget(limits={"tool_calls": None}), "limits.tool_calls"),
        (budget(limits={"tool_calls": float("nan")}), "limits.tool_calls"),
        (budget(limits={"bananas": 1}), "limits.bananas"),
        (budget(limits={}), "limits"),
        (budget(limits=[]), "limits"),
        (budget(limits=...), "limits"),
        (budget(scope="planet"), "scope"),
        (budget(scope=...), "scope"),
        (budget(tenant=...), "tenant"),
        (budget(tenant=7), "tenant"),
        (budget(id="../etc"), "id"),
        (budget(id=""), "id"),
        (budget(id="quota:acme"), "id"),
        (budget(id="x" * 65), "id"),
        (budget(subject="a\nb"), "subject"),
        (budget(subject=""), "subject"),
        (budget(subject="\ud800"), "subject"),
        (budget(scope="tenant", subject=AGENT), "subject"),
        (budget(window="weekly"), "window"),
        (budget(window={"every_s": 0}), "window.every_s"),
        (budget(window={"every_s": -5}), "window.every_s"),
        (budget(window={"every_s": True}), "window.every_s"),
        (budget(window={"every_s": 1.5}), "window.every_s"),
        (budget(window={"every_s": 10 * 366 * 24 * 3600 + 1}), "window.every_s"),
        (budget(window={"every_s": 2**62}), "window.every_s"),
        (budget(window={"every_s": 10**40}), "window.every_s"),
        (budget(window={"every_s": 60, "from": 0}), "window.from"),
        (budget(window={}), "window"),
        (budget(window=None), "window"),
        (budget(limit={"tool_calls": 1}), "limit"),
        (budget(**{"\ud800": 1}), "body"),
        (budget(limits={"\ud800": 1}), "limits.\ufffd\ufffd\ufffd"),
        ([], "body"),
        ("budget", "body"),
        (None, "body"),
    ],
)
async def test_a_field_that_is_wrong_is_named(world: World, body: Any, field: str) -> None:
    response = await world.post("/budgets", content=json.dumps(body), headers=JSON)

    problem = response.json()
    assert response.status_code == 422
    assert response.headers["Content-Type"] == PROBLEM
    assert [fault["field"] for fault in problem["errors"]] == [field]
    assert (await world.get("/budgets")).json()["items"] == []


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (budget(match={"tols": "x"}), "there is no such field; did you mean 'tool'?"),
        (budget(limit={"turns": 1}), "there is no such field; did you mean 'limits'?"),
        (budget(window={"every_s": 1, "last_s": 1}), "use only one of every_s, last_s, calendar"),
        (budget(window={"every_s": 1, "time_zone": "UTC"}), "goes only with calendar"),
        (budget(limits={}), "should not be empty"),
        (budget(match={"tool": ""}), "should not be empty"),
        (budget(scope=...), "is required"),
        (budget(limits={"turns": "1"}), "should be a whole number"),
        (budget(id="-x"), ID_RULE),
    ],
)
async def test_a_field_that_is_wrong_is_told_in_the_files_words(
    world: World, body: Any, detail: str
) -> None:
    response = await world.post("/budgets", body)

    assert [fault["detail"] for fault in response.json()["errors"]] == [detail]


async def test_a_field_that_is_like_none_is_told_the_fields_there_are(world: World) -> None:
    response = await world.post("/budgets", budget(foo=1))

    (fault,) = response.json()["errors"]
    assert fault["detail"].startswith("there is no such field; remove it, or use one of: id, ")


async def test_a_misspelt_filter_is_told_the_nearest(world: World) -> None:
    response = await world.get("/calls?stat=denied")

    (fault,) = response.json()["errors"]
    assert fault == {"field": "stat", "detail": "there is no such field; did you mean 'status'?"}


async def test_every_wrong_field_is_named_at_once(world: World) -> None:
    response = await world.post("/budgets", {"scope": "planet", "limits": {"turns": -1}})

    named = {fault["field"] for fault in response.json()["errors"]}
    assert named == {"tenant", "scope", "limits.turns"}


async def test_a_request_that_is_wrong_everywhere_gets_a_short_answer(world: World) -> None:
    body = budget(limits={f"unit-{number}": 1 for number in range(150)})

    response = await world.post("/budgets", body)

    assert response.status_code == 422
    assert len(response.json()["errors"]) == 20


async def test_an_answer_never_repeats_what_was_sent(world: World) -> None:
    secret = "fbt_" + "s" * 43

    response = await world.post(f"/principals/{AGENT}/tokens", {"expires_at_ms": secret})

    assert response.status_code == 422
    assert secret not in response.text


@pytest.mark.parametrize(
    "body",
    [b"{", b"", b"{'id': 1}", b'{"id": "b"', b"\xff\xfe\x00", b"[" * 2000, b'{"n": ' + b"9" * 5000],
)
async def test_malformed_json_is_an_error_of_the_sender(world: World, body: bytes) -> None:
    response = await world.post("/budgets", content=body, headers=JSON)

    assert response.status_code in {400, 422}
    assert response.headers["Content-Type"] == PROBLEM
    assert "Traceback" not in response.text


async def test_malformed_json_is_told_where_it_breaks(world: World) -> None:
    response = await world.post("/budgets", content=b'{"id": }', headers=JSON)

    assert response.status_code == 400
    assert response.json()["detail"] == "The body is not JSON: Expecting value (at character 7)."


async def test_a_number_with_more_digits_than_anything_counts_is_refused(world: World) -> None:
    digits = b'{"expires_at_ms": ' + b"9" * 4000 + b"}"

    response = await world.post(f"/principals/{AGENT}/tokens", content=digits, headers=JSON)

    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "expires_at_ms"


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_a_body_that_does_not_say_it_is_json_is_told_so(
    world: World, media_type: str
) -> None:
    headers = {"Content-Type": media_type} if media_type else {}

    response = await world.post("/budgets", content=json.dumps(budget()), headers=headers)

    assert response.status_code == 422
    assert "Content-Type: application/json" in response.json()["errors"][0]["detail"]


async def test_a_body_of_the_largest_size_is_read(world: World) -> None:
    body = json.dumps({"id": "t", "name": "x"}).encode().ljust(BODY_BYTES_MAX)

    response = await world.post("/tenants", content=body, headers=JSON)

    assert response.status_code == 201


async def test_a_larger_body_is_413_whether_or_not_it_says_its_length(world: World) -> None:
    body = json.dumps({"id": "t", "name": "x"}).encode().ljust(BODY_BYTES_MAX + 1)

    async def in_pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 1000):
            yield body[start : start + 1000]

    answers = [
        await world.post("/tenants", content=body, headers=JSON),
        await world.post("/tenants", content=in_pieces(), headers=JSON),
    ]

    for answer in answers:
        assert answer.status_code == 413
        assert answer.headers["Content-Type"] == PROBLEM
        assert str(BODY_BYTES_MAX) in answer.json()["detail"]
    assert (await world.get("/tenants/t")).status_code == 404


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 201}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"cursor": "made-up"}, "cursor"),
        ({"cursor": "W10"}, "cursor"),
        ({"cursor": cursor_of((2**70, "x"))}, "cursor"),
        ({"cursor": "x" * 2000}, "cursor"),
        ({"tennant": "acme"}, "tennant"),
    ],
)
async def test_a_page_that_cannot_be_is_refused(
    world: World, params: dict[str, str | int], field: str
) -> None:
    for path in ("/tenants", "/budgets", "/principals", "/sessions", "/calls", "/audit"):
        response = await world.get(path, params=params)

        assert response.status_code == 422
        assert [fault["field"] for fault in response.json()["errors"]] == [field]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/tenants/", 404),
        ("GET", "/tenants/a%2Fb", 404),
        ("GET", "/budgets/unknown", 404),
        ("GET", "/budgets/%00", 404),
        ("GET", "/budgets/%ff", 404),
        ("PUT", "/budgets/unknown", 404),
        ("DELETE", "/budgets/unknown", 404),
        ("GET", "/tenants/unknown", 404),
        ("PUT", "/tenants/unknown", 404),
        ("GET", "/principals/unknown", 404),
        ("PUT", "/principals/unknown", 404),
        ("PATCH", "/tenants", 405),
        ("DELETE", "/tenants/acme", 405),
        ("POST", "/policies", 405),
    ],
)
async def test_what_is_not_there_is_a_problem_document(
    world: World, method: str, path: str, status: int
) -> None:
    response = await world.ask(method, path, {} if method == "PUT" else None)

    problem = response.json()
    assert response.status_code == problem["status"] == status
    assert response.headers["Content-Type"] == PROBLEM
    assert problem.keys() >= {"type", "title", "detail", "instance"}
    if status == 405:
        assert response.headers["Allow"]


async def test_a_store_that_does_not_answer_is_503(world: World) -> None:
    # The token is proven while the store still answers, and remembered.
    await world.get("/tenants")
    world.parts.store.writer.stop_taking()

    response = await world.post("/tenants", {"id": "t"})

    assert response.status_code == 503
    assert response.json()["title"] == "Store unavailable"


async def test_an_error_that_nobody_foresaw_tells_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_args: object, **_kwargs: object) -> None:
        raise RuntimeError("the password is swordfish")

    monkeypatch.setattr(type(world.parts.store.tenants), "page", fail)

    response = await world.get("/tenants")

    assert response.status_code == 500
    assert response.headers["Content-Type"] == PROBLEM
    assert "swordfish" not in response.text
    assert "Traceback" not in response.text
