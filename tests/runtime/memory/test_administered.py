"""What administrators see of rights that the file gives, and what they may not teach."""

import base64
from typing import Any

import anyio
import pytest

from tests.runtime.memory.house import House
from tests.runtime.memory.test_adopted import the_admin

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("memory.administration")]
_PATH = "/admin/v1/memory"


@pytest.mark.parametrize("house", ["team"], indirect=True)
async def test_a_right_of_the_file_is_shown_and_outlives_a_grant_that_is_taken_away(
    house: House,
) -> None:
    taken: dict[str, Any] = {"principal": "ada-team", "right": None}
    with anyio.fail_after(60):
        await house.kept("Blue sails at dawn.")
        async with the_admin(house) as admin:
            answer = await admin.post(f"{_PATH}/namespaces/team/red/grants", json=taken)
            typo = await admin.post(f"{_PATH}/namespaces/team/red/grants", json={"principal": "x"})
            listed = await admin.get(f"{_PATH}/namespaces")
        written = await house.kept("Red sails at noon.", namespace="team/red")

    assert answer.status_code == 200, answer.text
    of_file = [
        {"principal": "bob-team", "right": "read", "source": "file"},
        {"principal": "ada-team", "right": "write", "source": "file"},
    ]
    assert answer.json()["grants"] == of_file
    assert answer.json()["is_known"]
    assert not typo.json()["is_known"]
    red = next(one for one in listed.json()["items"] if one["name"] == "team/red")
    assert red["grants"] == of_file
    assert "agent/ada-team" in {one["name"] for one in listed.json()["items"]}
    assert written["namespace"] == "team/red"


async def test_what_is_too_large_or_no_text_is_not_taught(house: House) -> None:
    blob = {"content": base64.b64encode(b"\xff\xfe\x00").decode(), "encoding": "base64"}
    with anyio.fail_after(60):
        async with the_admin(house) as admin:
            large = await admin.post(f"{_PATH}/experiences", json={"content": "x" * 70_000})
            binary = await admin.post(f"{_PATH}/experiences", json=blob)

    assert large.status_code == 413
    assert "item_bytes_max" in large.json()["detail"]
    assert binary.status_code == 422
    assert "no text" in binary.text


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "experiences?tenant=nobody", None),
        ("GET", "export?tenant=nobody", None),
        ("POST", "import?tenant=nobody", None),
        ("POST", "experiences", {"tenant": "nobody", "content": "Close the valve."}),
        ("POST", "namespaces", {"tenant": "nobody", "name": "team/x"}),
        ("GET", "tiers?tenant=nobody", None),
    ],
)
async def test_a_tenant_that_is_not_there_is_an_error(
    house: House, method: str, path: str, body: dict[str, Any] | None
) -> None:
    with anyio.fail_after(60):
        async with the_admin(house) as admin:
            answer = await admin.request(method, f"{_PATH}/{path}", json=body)

    assert answer.status_code == 404, answer.text
    assert "no tenant 'nobody'" in answer.json()["detail"]


async def test_what_waits_in_quarantine_says_why_and_what_was_done_to_it(house: House) -> None:
    with anyio.fail_after(60):
        first = await house.kept("The pump is blue.")
        put = await house.kept("The pump is red.")
        path = f"{_PATH}/experiences/{put['index']}"
        async with the_admin(house) as admin:
            await admin.post(f"{path}/withdraw", json={"to": "quarantined", "why": "looks odd"})
            shown = await admin.get(path)
            active = await admin.get(f"{_PATH}/experiences/{first['index']}")

    assert shown.json()["waits_because"] == ["admin put it there: looks odd"]
    assert [one["event"] for one in shown.json()["history"]] == ["marked", "written"]
    assert active.json()["waits_because"] == []


async def test_what_is_named_and_not_there_is_told_when_it_is_erased(house: House) -> None:
    with anyio.fail_after(60):
        kept = await house.kept("The pump is blue.")
        asked = {"indices": [kept["index"], "exp_nobody_wrote"]}
        async with the_admin(house) as admin:
            answer = await admin.post(f"{_PATH}/erase", json=asked)

    assert answer.json()["experiences"] == 1
    assert answer.json()["missing"] == ["exp_nobody_wrote"]
