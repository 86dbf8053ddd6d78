import pytest

from tests.runtime.admin.admin_world import World

pytestmark = pytest.mark.anyio


async def test_the_process_says_that_it_is_alive_without_a_token(world: World) -> None:
    response = await world.client.get("/healthz")

    assert (response.status_code, response.json()) == (200, {"status": "alive"})


async def test_it_is_ready_when_the_store_answers(world: World) -> None:
    response = await world.client.get("/readyz")

    assert (response.status_code, response.json()) == (200, {"status": "ready"})


async def test_what_is_not_ready_is_listed(world: World) -> None:
    world.parts.store.writer.stop_taking()

    response = await world.client.get("/readyz")

    assert response.status_code == 503
    assert response.headers["Content-Type"] == "application/problem+json"
    assert response.json()["problems"] == ["store: the store is closing"]


async def test_a_store_that_fails_does_not_make_the_process_look_dead(world: World) -> None:
    world.parts.store.writer.stop_taking()

    response = await world.client.get("/healthz")

    assert response.status_code == 200


async def test_metrics_are_prometheus_text_without_a_token(world: World) -> None:
    response = await world.client.get("/metrics")

    assert response.text == "flyball_calls_total 3\n"
    assert response.headers["Content-Type"] == "text/plain; version=1.0.0; charset=utf-8"
