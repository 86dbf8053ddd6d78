"""The model front and its providers over real connections on loopback."""

import json
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from governor.amounts import Unit
from governor.call import CallRecord, CallStatus
from governor.events import Settled
from governor.ids import ReservationId
from governor.usage import Usage
from runtime.tour.scripted_model import create_app
from tests.runtime.model_gateway.bench import CHAT, KEY, open_house, tier

pytestmark = pytest.mark.anyio

SCRIPTED = (tier(model="scripted-small"),)


@asynccontextmanager
async def served(app: ASGIApp) -> AsyncIterator[int]:
    """Serve `app` on loopback and yield the port; connections wait until the server runs."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app, lifespan="off", ws="none", log_config=None, timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve, [listener])
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True


def address(port: int) -> str:
    return f"http://127.0.0.1:{port}/v1"


async def test_a_chat_with_a_real_server_is_charged_what_it_reports(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    # A proxy of the environment would see the key; it must not be asked.
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with anyio.fail_after(60):
        async with (
            served(create_app()) as port,
            open_house(tiers=SCRIPTED, base_url=address(port)) as house,
        ):
            house.budget(cost_microusd=1_000_000)
            response = await house.chat("What is a flyball governor?")

            usage = response.json()["usage"]
            cost = usage["prompt_tokens"] + 2 * usage["completion_tokens"]
            assert await house.ledger.spent() == (cost, 0)

    assert response.status_code == 200
    assert "scripted" in response.json()["choices"][0]["message"]["content"]
    assert "127.0.0.1" in caplog.text
    assert KEY not in caplog.text


async def test_a_port_that_nobody_listens_on_costs_nothing() -> None:
    # Held, so that nobody else is given it meanwhile.
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        async with open_house(base_url=address(held.getsockname()[1])) as house:
            house.budget(cost_microusd=1_000_000)
            with anyio.fail_after(60):
                response = await house.chat()

            assert response.status_code == 502
            assert house.record.status is CallStatus.RELEASED
            assert await house.ledger.spent() == (0, 0)


async def test_an_answer_that_trickles_is_given_up_at_the_providers_timeout() -> None:
    async def trickle(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        # Each byte comes sooner than a read may take; only the whole takes too long.
        while True:
            await send({"type": "http.response.body", "body": b" ", "more_body": True})
            await anyio.lowlevel.checkpoint()
            if (await _soon(receive)) == "http.disconnect":
                return

    async def _soon(receive: Receive) -> str:
        with anyio.move_on_after(0.01):
            return str((await receive())["type"])
        return ""

    with anyio.fail_after(60):
        async with (
            served(trickle) as port,
            open_house(base_url=address(port), timeout_ms=1_000) as house,
        ):
            response = await house.chat()

    assert response.status_code == 504
    assert house.record.status is CallStatus.TIMED_OUT


async def test_an_answer_that_is_cut_off_is_charged_as_held() -> None:
    async def cut(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"choices": []')

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
            tasks.start_soon(listener.serve, cut)
            port = listener.extra(anyio.abc.SocketAttribute.local_port)
            async with open_house(base_url=address(port)) as house:
                house.budget(cost_microusd=1_000_000)
                response = await house.chat()
                used, reserved = await house.ledger.spent()
            tasks.cancel_scope.cancel()
        await listener.aclose()

    assert response.status_code == 502
    assert house.record.status is CallStatus.UPSTREAM_FAILED
    assert (used, reserved) == (house.record.estimate.of(Unit.COST_MICROUSD), 0)


@pytest.mark.requirement("model.reader-stands-still")
async def test_a_client_that_stops_reading_keeps_nothing_beyond_the_calls_time() -> None:
    settled = anyio.Event()
    event = b'data: {"choices": [{"index": 0, "delta": {"content": "%b"}}]}\n\n' % (b"x" * 20_000)

    async def provider(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for _ in range(4_000):
            await send({"type": "http.response.body", "body": event, "more_body": True})

    with anyio.fail_after(60):
        async with (
            served(provider) as provider_port,
            open_house(
                base_url=address(provider_port),
                timeout_ms=1_500,
                tiers=(tier(output_tokens_max=50_000_000),),
            ) as house,
            served(house.app) as port,
        ):
            house.budget(cost_microusd=1_000_000_000)
            settle = house.ledger.settle

            async def noted(
                reservation_id: ReservationId, usage: Usage, record: CallRecord
            ) -> Settled:
                result = await settle(reservation_id, usage, record)
                settled.set()
                return result

            house.ledger.settle = noted  # type: ignore[method-assign]  # so that it can be awaited
            message = {"role": "user", "content": "hi"}
            body = json.dumps({"model": "low", "stream": True, "messages": [message]})
            head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
            async with await anyio.connect_tcp("127.0.0.1", port) as client:
                await client.send((head + body).encode())
                await settled.wait()
                assert len(house.running) == 0
                got = b""
                with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                    while True:
                        got = (got + await client.receive())[-100:]
            _, held = await house.ledger.spent()

    assert house.record.status is CallStatus.CANCELLED
    assert "did not read on" in house.record.detail
    assert held == 0
    # It is no stream that has ended well.
    assert not got.endswith(b"0\r\n\r\n")


async def test_a_client_that_hangs_up_stops_the_provider_and_is_charged_what_was_held() -> None:
    arrived, left, settled = anyio.Event(), anyio.Event(), anyio.Event()

    async def provider(_scope: Scope, receive: Receive, _send: Send) -> None:
        await receive()
        arrived.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        left.set()

    with anyio.fail_after(60):
        async with (
            served(provider) as provider_port,
            open_house(base_url=address(provider_port)) as house,
            served(house.app) as port,
        ):
            house.budget(cost_microusd=1_000_000)
            settle = house.ledger.settle

            async def noted(
                reservation_id: ReservationId, usage: Usage, record: CallRecord
            ) -> Settled:
                result = await settle(reservation_id, usage, record)
                settled.set()
                return result

            house.ledger.settle = noted  # type: ignore[method-assign]  # so that it can be awaited
            body = json.dumps({"model": "low", "messages": [{"role": "user", "content": "hi"}]})
            head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
            async with await anyio.connect_tcp("127.0.0.1", port) as client:
                await client.send((head + body).encode())
                await arrived.wait()
            await left.wait()
            await settled.wait()
            spent = await house.ledger.spent()

    assert house.record.status is CallStatus.CANCELLED
    assert spent == (house.record.estimate.of(Unit.COST_MICROUSD), 0)
    assert len(house.running) == 0
