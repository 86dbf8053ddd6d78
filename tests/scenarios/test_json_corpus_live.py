"""Bytes that are no request, posted to everything that takes JSON, and a process that goes on."""

import json
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from scenarios.process import SidecarProcess
from scenarios.test_bad_input import MODERN, still_serves

from tests import json_corpus

pytestmark = pytest.mark.anyio
PROBLEM = "application/problem+json"
JSON = {"Content-Type": "application/json"}


def bodies(case: bytes) -> tuple[bytes, ...]:
    """Return a case as a whole body, as a value and as a name in an object."""
    key = case if case.startswith(b'"') else b'"k"'
    return case, b'{"model":"low","messages":%b}' % case, b"{%b:1}" % key


def fault_of(answer: httpx.Response, *, is_mcp: bool) -> str | None:
    """Return what is wrong with how a body was refused; None if nothing is."""
    if not 400 <= answer.status_code < 500:
        return f"HTTP {answer.status_code}"
    if "Traceback" in answer.text:
        return "a traceback"
    try:
        body: Mapping[str, Any] = answer.json()
    except ValueError:
        return f"no JSON: {answer.text:.80}"
    if answer.headers["content-type"] == PROBLEM:
        return None if body["status"] == answer.status_code else "another status inside"
    if is_mcp:
        good = body["jsonrpc"] == "2.0" and body["id"] is None
        return None if good and body["error"]["code"] in (-32_700, -32_600) else answer.text
    return None if "message" in body.get("error", {}) else f"neither problem nor error: {body}"


@pytest.mark.requirement("input.json-corpus")
async def test_no_body_gets_more_than_a_refusal_anywhere(shared_sidecar: SidecarProcess) -> None:
    agents = shared_sidecar.urls["agents"].removesuffix("/mcp")
    agent = {"Authorization": f"Bearer {shared_sidecar.token('agent')}"}
    admin = {"Authorization": f"Bearer {shared_sidecar.token('admin')}"}
    both = {"Accept": MODERN["Accept"]}
    ways = {
        "mcp, stateless": (f"{agents}/mcp", {**MODERN, **agent}),
        "mcp, sessions": (f"{agents}/mcp", {**JSON, **both, **agent}),
        "mcp, the old transport": (f"{agents}/sse/messages?session_id=x", {**JSON, **agent}),
        "chat": (f"{agents}/v1/chat/completions", {**JSON, **agent}),
        "sessions": (f"{agents}/sessions/v1", {**JSON, **agent}),
        "budgets": (f"{shared_sidecar.urls['admin']}/budgets", {**JSON, **admin}),
        "principals": (f"{shared_sidecar.urls['admin']}/principals", {**JSON, **admin}),
    }
    wrong = {}
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        for way, (url, headers) in ways.items():
            for name, case in json_corpus.ALL.items():
                for number, body in enumerate(bodies(case)):
                    answer = await client.post(url, content=body, headers=headers)
                    is_mcp = way.startswith("mcp") and "old" not in way
                    fault = fault_of(answer, is_mcp=is_mcp)
                    if fault is not None:
                        wrong[way, name, number] = fault

    assert wrong == {}
    assert await still_serves(shared_sidecar)
    async with shared_sidecar.admin() as api:
        calls = (await api.get("calls", params={"name": "worker__never"})).json()
        upstreams = (await api.get("upstreams")).json()
    assert calls["items"] == []
    assert json.dumps(upstreams)
    assert all(balance["reserved"] == 0 for balance in await shared_sidecar.balances())
    assert "Traceback" not in shared_sidecar.log()
