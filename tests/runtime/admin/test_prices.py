"""The price list through the admin API: read, replaced, returned to the file's."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import httpx
import pytest

from governor.pricing import PRICE_MAX, ModelPrice
from tests.runtime.admin.admin_world import ADMIN, PRICES_OF_FILE, World

pytestmark = pytest.mark.anyio

OF_FILE = {
    "version": PRICES_OF_FILE.version,
    "source": "file",
    "prices": [
        {
            "provider": "openai",
            "model": "gpt-*",
            "input_microusd_per_mtok": 30,
            "output_microusd_per_mtok": 60,
            "cached_input_microusd_per_mtok": None,
            "cache_write_microusd_per_mtok": None,
            "cache_write_1h_microusd_per_mtok": None,
        }
    ],
    "unknown": None,
    "put_at_ms": None,
    "put_by": None,
    "warnings": [],
}


_IN, _OUT = "input_microusd_per_mtok", "output_microusd_per_mtok"
_CACHED = "cached_input_microusd_per_mtok"


def entry(model: str = "small", **more: Any) -> dict[str, Any]:
    return {"model": model, "input_microusd_per_mtok": 3, "output_microusd_per_mtok": 4, **more}


def charged(world: World, model: str = "small", provider: str = "any") -> ModelPrice | None:
    """Return what the next call of a model is charged by."""
    return world.parts.prices.prices().price_for(provider=provider, model=model)


async def put(world: World, *entries: dict[str, Any], **more: Any) -> httpx.Response:
    headers = {"If-Match": f'"{more.pop("over")}"'} if "over" in more else {}
    return await world.put("/prices", {"prices": list(entries), **more}, headers=headers)


async def test_the_list_of_the_file_is_shown_until_another_is_put(world: World) -> None:
    answer = await world.get("/prices")

    assert answer.json() == OF_FILE
    assert answer.headers["ETag"] == f'"{PRICES_OF_FILE.version}"'


@pytest.mark.requirement("price.list-replaced-live")
async def test_a_list_that_is_put_prices_the_next_call(world: World) -> None:
    ceiling = {"input_microusd_per_mtok": 9, "output_microusd_per_mtok": 10}
    more = {_CACHED: 1, "cache_write_microusd_per_mtok": 5, "cache_write_1h_microusd_per_mtok": 6}
    answer = await put(world, entry(**more), unknown=ceiling)

    # Looked at before the list is read again, which would fetch it from the store.
    assert charged(world) == ModelPrice(
        input_microusd_per_mtok=3, output_microusd_per_mtok=4, **more
    )
    assert answer.status_code == 200
    shown = answer.json()
    assert (shown["source"], shown["put_by"], shown["unknown"]) == ("admin", ADMIN, ceiling)
    assert shown == (await world.get("/prices")).json()
    assert shown["version"] == world.parts.prices.prices().version != OF_FILE["version"]
    assert charged(world, "gpt-4o", "openai") == ModelPrice(
        input_microusd_per_mtok=9, output_microusd_per_mtok=10
    )


async def test_a_list_can_be_put_back_as_it_was_read(world: World) -> None:
    read = (await world.get("/prices")).json()

    answer = await world.put("/prices", read)

    assert answer.status_code == 200, answer.text
    assert answer.json()["version"] == read["version"]
    assert answer.json()["source"] == "admin"


@pytest.mark.requirement("price.list-survives")
async def test_a_list_that_was_put_outlives_a_restart_and_wins_over_the_file(
    open_world: Callable[[], AbstractAsyncContextManager[World]],
) -> None:
    async with open_world() as world:
        put_list = (await put(world, entry())).json()

    async with open_world() as world:
        assert (await world.get("/prices")).json() == put_list
        assert charged(world) is not None


async def test_without_the_list_that_was_put_the_files_counts_again(world: World) -> None:
    version = (await put(world, entry())).json()["version"]

    answer = await world.delete("/prices", headers={"If-Match": f'"{version}"'})

    assert (answer.status_code, answer.content) == (204, b"")
    assert (await world.get("/prices")).json() == OF_FILE
    assert charged(world) is None


async def test_to_go_by_the_file_twice_is_no_error_and_no_change(world: World) -> None:
    await put(world, entry())
    await world.delete("/prices")

    again = await world.delete("/prices")

    assert again.status_code == 204
    noted = (await world.get("/audit", params={"limit": 2})).json()["items"]
    assert [each["action"] for each in noted] == ["prices.delete", "prices.put"]


async def test_a_list_made_for_another_version_is_refused_and_changes_nothing(
    world: World,
) -> None:
    first = (await put(world, entry(), over=OF_FILE["version"])).json()

    stale = await put(world, entry("other"), over=OF_FILE["version"])
    gone = await world.delete("/prices", headers={"If-Match": '"other"'})

    assert (stale.status_code, gone.status_code) == (412, 412)
    assert stale.json()["actual"] == first["version"]
    assert (await world.get("/prices")).json() == first


async def test_of_two_that_replace_the_same_version_one_does(world: World) -> None:
    statuses: list[int] = []

    async def replace(model: str) -> None:
        answer = await put(world, entry(model), over=OF_FILE["version"])
        statuses.append(answer.status_code)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in range(4):
                tasks.start_soon(replace, f"model-{number}")

    assert sorted(statuses) == [200, 412, 412, 412]


@pytest.mark.requirement("price.list-audited")
async def test_each_change_is_audited_with_the_version_before_and_after(world: World) -> None:
    first = (await put(world, entry())).json()["version"]
    second = (await put(world, entry("a"), entry("b"))).json()["version"]
    await world.delete("/prices")

    noted = (await world.get("/audit", params={"limit": 3})).json()["items"][::-1]

    assert [(each["action"], each["actor"], each["target"]) for each in noted] == [
        ("prices.put", ADMIN, "prices"),
        ("prices.put", ADMIN, "prices"),
        ("prices.delete", ADMIN, "prices"),
    ]
    of_file = {"version": OF_FILE["version"], "source": "file", "prices": 1}
    one = {"version": first, "source": "admin", "prices": 1}
    two = {"version": second, "source": "admin", "prices": 2}
    assert [(each["before"], each["after"]) for each in noted] == [
        (of_file, one),
        (one, two),
        (two, of_file),
    ]


@pytest.mark.requirement("price.version-is-kept")
async def test_the_version_on_a_record_can_be_looked_up_after_it_was_replaced(
    world: World,
) -> None:
    first = (await put(world, entry())).json()
    await put(world, entry("other"))
    await world.delete("/prices")

    assert (await world.get(f"/prices/{first['version']}")).json() == first
    assert (await world.get(f"/prices/{OF_FILE['version']}")).json() == OF_FILE
    unknown = await world.get("/prices/0123456789ab")
    assert (unknown.status_code, unknown.json()["type"]) == (404, "urn:flyball:problem:not-found")


@pytest.mark.parametrize("version", ["%00", "ABCDEF012345", "x" * 3000, "0123456789ab%0A"])
async def test_what_is_no_version_is_refused_before_the_store_is_asked(
    world: World, version: str
) -> None:
    answer = await world.get(f"/prices/{version}")

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "version"


@pytest.mark.requirement("price.list-checked")
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"prices": [entry(**{_IN: -1})]}, f"prices.0.{_IN}"),
        ({"prices": [entry(**{_OUT: PRICE_MAX + 1})]}, f"prices.0.{_OUT}"),
        (
            {"prices": [entry(cache_write_microusd_per_mtok=-1)]},
            "prices.0.cache_write_microusd_per_mtok",
        ),
        (
            {"prices": [entry(cache_write_1h_microusd_per_mtok=True)]},
            "prices.0.cache_write_1h_microusd_per_mtok",
        ),
        ({"prices": [entry(**{_OUT: 10**400})]}, f"prices.0.{_OUT}"),
        ({"prices": [entry(**{_IN: 1.0})]}, f"prices.0.{_IN}"),
        ({"prices": [entry(**{_IN: "1"})]}, f"prices.0.{_IN}"),
        ({"prices": [entry(**{_IN: True})]}, f"prices.0.{_IN}"),
        ({"prices": [entry(**{_IN: None})]}, f"prices.0.{_IN}"),
        ({"prices": [entry(), entry("b", **{_CACHED: -1})]}, f"prices.1.{_CACHED}"),
        ({"prices": [entry(), entry("b", **{_CACHED: 4})]}, f"prices.1.{_CACHED}"),
        ({"prices": [entry(pice=1)]}, "prices.0.pice"),
        ({"prices": [entry(), entry("b"), entry(provider="*")]}, "prices.2"),
        ({"prices": [entry("")]}, "prices.0.model"),
        ({"prices": [entry("a\x00b")]}, "prices.0.model"),
        ({"prices": [entry("x" * 201)]}, "prices.0.model"),
        ({"prices": [entry(provider="")]}, "prices.0.provider"),
        ({"prices": [{"model": "m", _IN: 1}]}, f"prices.0.{_OUT}"),
        ({"prices": {}}, "prices"),
        ({}, "prices"),
        ({"prices": [], "unknown": {_IN: 1}}, f"unknown.{_OUT}"),
        ({"prices": [], "unknown": {_IN: -1, _OUT: 1}}, f"unknown.{_IN}"),
        ({"prices": [], "unknown": {_IN: 1, _OUT: 1, _CACHED: 1}}, f"unknown.{_CACHED}"),
        ({"prices": [], "ceiling": None}, "ceiling"),
    ],
)
async def test_what_is_no_price_list_is_refused_with_its_field(
    world: World, body: dict[str, Any], field: str
) -> None:
    answer = await world.put("/prices", body)

    assert answer.status_code == 422
    assert field in [fault["field"] for fault in answer.json()["errors"]]
    assert (await world.get("/prices")).json() == OF_FILE


async def test_half_of_a_surrogate_pair_is_refused_with_its_field(world: World) -> None:
    content = rb'{"prices": [{"model": "\ud800", "%b": 1, "%b": 1}]}' % (
        _IN.encode(),
        _OUT.encode(),
    )

    answer = await world.put(
        "/prices", content=content, headers={"Content-Type": "application/json"}
    )

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "prices.0.model"


async def test_a_price_of_a_provider_that_there_is_not_is_put_with_a_warning(
    world: World,
) -> None:
    price = {"model": "m", "input_microusd_per_mtok": 1, "output_microusd_per_mtok": 1}
    listed = [{"provider": name, **price} for name in ("opanai", "openai", "*")]

    put = await world.put("/prices", {"prices": listed})

    assert put.status_code == 200
    (warning,) = put.json()["warnings"]
    assert "'opanai'" in warning
