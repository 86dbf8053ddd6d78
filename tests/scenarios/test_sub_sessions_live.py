"""Sub-sessions in a whole sidecar: carved out, spent from, given back."""

from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from scenarios.process import SidecarProcess, appears, denial_of

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize(
        "sidecar",
        ['[[budget]]\nid = "each"\nscope = "session"\nlimits = { tool_calls = 10 }\n'],
        indirect=True,
    ),
]

PATH = "/sessions/v1"


def sessions(sidecar: SidecarProcess) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=sidecar.urls["agents"].removesuffix("/mcp"),
        headers={"Authorization": f"Bearer {sidecar.token('agent')}"},
        timeout=60,
        trust_env=False,
    )


async def spawn(client: httpx.AsyncClient, parent: str, name: str, calls: int) -> httpx.Response:
    return await client.post(
        PATH, json={"parent": parent, "name": name, "limits": {"tool_calls": calls}}
    )


async def echo(sidecar: SidecarProcess, session: str, times: int) -> list[Any]:
    async with sidecar.agent(session) as client:
        return [
            denial_of(await client.call_tool("worker__echo", {"text": str(number)}))
            for number in range(times)
        ]


async def each_of(client: httpx.AsyncClient, session: str) -> tuple[int, int]:
    shown = (await client.get(f"{PATH}/{session}")).json()
    [line] = [line for line in shown["balances"] if line["budget_id"] == "each"]
    return line["used"], line["reserved"]


@pytest.mark.requirement("sub-session.within-parent")
async def test_a_child_never_exceeds_its_carve_and_the_rest_comes_back(
    sidecar: SidecarProcess,
) -> None:
    async with sessions(sidecar) as client:
        made = await spawn(client, "lead", "helper", 4)
        assert made.status_code == 201, made.text
        assert (await each_of(client, "lead")) == (0, 4)
        denials = await echo(sidecar, "helper", 5)
        assert await each_of(client, "helper") == (4, 0)

        assert (await spawn(client, "lead", "outer", 3)).status_code == 201
        inner = (await spawn(client, "outer", "inner", 2)).json()
        too_much = await spawn(client, "inner", "innermost", 3)
        assert await echo(sidecar, "inner", 1) == [None]
        closed = (await client.delete(f"{PATH}/outer")).json()
        [after] = await echo(sidecar, "inner", 1)
        left = await each_of(client, "lead")

    assert made.json()["limits"] == {"tool_calls": 4}
    assert [scope["kind"] for scope in inner["chain"]] == [
        "tenant", "agent", "session", "sub_session", "sub_session",
    ]  # fmt: skip
    assert denials[:4] == [None] * 4
    assert denials[4]["budget_id"].startswith("carve:ses_")
    assert too_much.status_code == 429
    assert too_much.json()["flyball"]["denial"]["reason"] == "budget_exhausted"
    assert closed["given_back"] == {"tool_calls": 2}
    assert after["reason"] == "session_closed"
    assert left == (5, 0)


@pytest.mark.requirement("sub-session.within-parent")
async def test_twenty_at_once_never_carve_out_more_than_there_is(sidecar: SidecarProcess) -> None:
    answers: list[int] = []

    async def one(client: httpx.AsyncClient, number: int) -> None:
        answers.append((await spawn(client, "crowd", f"child-{number}", 1)).status_code)

    async with sessions(sidecar) as client:
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(one, client, number)
        assert sorted(answers) == [201] * 10 + [429] * 10
        assert await each_of(client, "crowd") == (0, 10)
        await client.delete(f"{PATH}/crowd")
        assert await each_of(client, "crowd") == (0, 0)


@pytest.mark.requirement("sub-session.running-keeps-its-hold")
async def test_a_call_that_runs_when_its_session_is_closed_keeps_its_hold_and_settles(
    sidecar: SidecarProcess, tmp_path: Path
) -> None:
    started, answers = tmp_path / "started", []

    async def sleeper() -> None:
        async with sidecar.agent("napper") as client:
            arguments = {"seconds": 4, "started": str(started)}
            answers.append(await client.call_tool("worker__sleep", arguments))

    async with sessions(sidecar) as client:
        await spawn(client, "boss", "napper", 3)
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(sleeper)
                await appears(started)
                closed = (await client.delete(f"{PATH}/napper")).json()
                during = await each_of(client, "boss")
        after = await each_of(client, "boss")

    assert closed["given_back"] == {"tool_calls": 2}
    assert (during, after) == ((0, 1), (1, 0))
    assert not answers[0].is_error


async def test_an_agent_divides_its_budget_through_the_gateway(sidecar: SidecarProcess) -> None:
    limits = {"tool_calls": 3}
    async with sidecar.agent("main") as client:
        made = await client.call_tool("governor_spawn", {"name": "part", "limits": limits})
        again = await client.call_tool("governor_spawn", {"name": "part", "limits": limits})
        greedy = await client.call_tool(
            "governor_spawn", {"name": "greedy", "limits": {"tool_calls": 9}}
        )
        assert await echo(sidecar, "part", 1) == [None]
        closed = await client.call_tool("governor_close", {"name": "part"})
        foreign = await client.call_tool("governor_close", {"name": "main"})

    assert made.structured_content["limits"] == limits
    assert again.is_error
    assert denial_of(greedy) is not None
    assert closed.structured_content["given_back"] == {"tool_calls": 2}
    assert foreign.is_error


async def test_what_makes_no_sense_is_refused_by_name_and_strangers_find_nothing(
    sidecar: SidecarProcess,
) -> None:
    async with sidecar.admin() as admin:
        await admin.post("principals", json={"id": "other", "tenant": "default", "role": "agent"})
        other = (await admin.post("principals/other/tokens", json={})).json()["secret"]
    async with sessions(sidecar) as client:
        await spawn(client, "own", "mine", 1)
        faults = []
        for name, limits in (
            ("x", {"tool_calls": -1}), ("x", {"dollars": 1}), ("x", {}), ("x", {"tool_calls": 0}),
            ("", {"tool_calls": 1}), ("own", {"tool_calls": 1}),
        ):  # fmt: skip
            body = {"parent": "own", "name": name, "limits": limits}
            answer = await client.post(PATH, json=body)
            faults.append((answer.status_code, answer.json()["errors"][0]["field"].split(".")[0]))
        twice = await spawn(client, "own", "mine", 1)
        client.headers["Authorization"] = f"Bearer {other}"
        foreign = [(await client.get(f"{PATH}/mine")), (await client.delete(f"{PATH}/mine"))]

    assert faults == [*[(422, "limits")] * 4, (422, "name"), (422, "parent")]
    assert twice.status_code == 409
    assert [answer.status_code for answer in foreign] == [404, 404]
