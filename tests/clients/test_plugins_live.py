"""Plug-ins as installed packages in a running sidecar: the examples, and what fails beside them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from scenarios.process import SidecarProcess, denial_of, text_of

from tests.clients.plugged import install_plugins

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(300)]
SECONDS_MAX = 90

CONFIG = """
[plugins]
enabled = [
  "quiet-hours", "by-rows", "folder", "journal",
  "bad-estimator", "unloadable", "bad-notifier", "weak", "closed",
]

[plugins.settings.quiet-hours]
from = "00:00"
to = "23:59:59.999999"
deny = ["worker__burn"]
ask = ["worker__hoard"]

[plugins.settings.by-rows]
tools = ["worker__big"]
argument = "lines"
microusd_per_row = 2

[plugins.settings.journal]
path = "{folder}/notices.jsonl"

[[upstream]]
name = "notes"
kind = "folder"
settings = {{ path = "{folder}/notes" }}

[[upstream]]
name = "weak"
kind = "weak"

[[upstream]]
name = "closed"
kind = "closed"

[[budget]]
id = "money"
scope = "session"
limits = {{ cost_microusd = 100 }}

[[budget]]
id = "calls"
scope = "tenant"
limits = {{ tool_calls = 1000 }}
warn_at_permille = [1]
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site") / "packages"
    install_plugins(target)
    return target


@pytest.fixture(scope="module")
def sidecar(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SidecarProcess]:
    folder = tmp_path_factory.mktemp("plugged")
    (folder / "notes").mkdir()
    (folder / "notes" / "pump.txt").write_text("The pump is blue.", encoding="utf-8")
    (folder / "secret.txt").write_text("nobody's business", encoding="utf-8")
    known = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(installed), *([known] if known else [])])
    process = SidecarProcess(
        folder=folder,
        extra=CONFIG.format(folder=folder),
        env={**os.environ, "PYTHONPATH": path},
    )
    process.start()
    try:
        yield process
    finally:
        process.stop()


async def called(sidecar: SidecarProcess, tool: str, session: str = "one", **given: Any) -> Any:
    with anyio.fail_after(SECONDS_MAX):
        async with sidecar.agent(session) as client:
            return await client.call_tool(tool, given)


@pytest.mark.requirement("plugins.guards")
async def test_an_installed_guard_denies_and_lets_run(sidecar: SidecarProcess) -> None:
    denied = await called(sidecar, "worker__burn", cpu_ms=1)
    ran = await called(sidecar, "worker__echo", text="hello")

    denial = denial_of(denied)
    assert denial is not None
    assert denial["reason"] == "guard_denied"
    assert "leave it for the morning" in denial["remedy"]["text"]
    assert text_of(ran).splitlines()[0] == "hello"


@pytest.mark.requirement("plugins.guards")
async def test_an_installed_guard_has_a_person_asked(sidecar: SidecarProcess) -> None:
    answers: list[Any] = []

    async def call() -> None:
        answers.append(await called(sidecar, "worker__hoard", "asking", mib=1))

    with anyio.fail_after(SECONDS_MAX):
        async with sidecar.admin() as admin, anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            found: list[Any] = []
            while not found:
                found = (await admin.get("approvals", params={"state": "pending"})).json()["items"]
                await anyio.sleep(0.02)
            await admin.post(f"approvals/{found[0]['id']}/approve", json={"reason": ""})

    assert "guard quiet-hours: it is night" in found[0]["rule"]
    assert text_of(answers[0]).startswith("held")


@pytest.mark.requirement("plugins.estimators")
async def test_an_installed_estimator_stops_what_a_budget_is_too_short_for(
    sidecar: SidecarProcess,
) -> None:
    dear = await called(sidecar, "worker__big", "rows", lines=51)
    cheap = await called(sidecar, "worker__big", "rows", lines=50)

    denial = denial_of(dear)
    assert denial is not None
    assert (denial["budget_id"], denial["requested"]) == ("money", 102)
    assert denial_of(cheap) is None


@pytest.mark.requirement("plugins.upstream-kinds")
async def test_an_upstream_of_an_installed_kind_is_governed_as_any_other(
    sidecar: SidecarProcess,
) -> None:
    listed = await called(sidecar, "notes__list", "notes")
    read = await called(sidecar, "notes__read", "notes", name="pump.txt")
    outside = await called(sidecar, "notes__read", "notes", name="../secret.txt")
    async with sidecar.admin() as admin:
        upstreams = {one["name"]: one for one in (await admin.get("upstreams")).json()["items"]}
        calls = (await admin.get("calls", params={"name": "notes__read"})).json()["items"]

    assert (text_of(listed), text_of(read)) == ("pump.txt", "The pump is blue.")
    assert outside.is_error
    assert "there is no" in text_of(outside)
    assert (upstreams["notes"]["kind"], upstreams["notes"]["state"]) == ("folder", "ready")
    assert {one["status"] for one in calls} == {"ok", "tool_error"}
    assert {one["backend"] for one in calls} == {"notes"}


@pytest.mark.requirement("plugins.notifiers")
async def test_an_installed_notifier_is_brought_every_notice_once(
    sidecar: SidecarProcess,
) -> None:
    await called(sidecar, "worker__echo", text="one of a thousand calls")
    journal = anyio.Path(sidecar.folder / "notices.jsonl")
    with anyio.fail_after(SECONDS_MAX):
        while not await journal.exists() or b"\n" not in await journal.read_bytes():
            await anyio.sleep(0.05)
    lines = (await journal.read_text(encoding="utf-8")).splitlines()
    notices = [json.loads(line) for line in lines]

    assert ("threshold", "calls") in {(one["kind"], one["budget_id"]) for one in notices}
    numbers = [one["seq"] for one in notices]
    assert numbers == sorted(set(numbers))


@pytest.mark.requirement("plugins.contained")
async def test_what_fails_ends_nothing_but_its_own_part(sidecar: SidecarProcess) -> None:
    failed = await called(sidecar, "weak__fail", "weak")
    nonsense = await called(sidecar, "weak__nonsense", "weak")
    after = await called(sidecar, "weak__fail", "weak")
    async with sidecar.admin() as admin:
        upstreams = {one["name"]: one for one in (await admin.get("upstreams")).json()["items"]}
        metrics = (await admin.get(sidecar.urls["admin"].replace("/admin/v1", "/metrics"))).text

    # Whichever call is the first of the sidecar is told of a threshold, too.
    said = [text_of(one).splitlines()[0] for one in (failed, after)]
    assert said == ["RuntimeError: the cellar is flooded"] * 2
    assert nonsense.is_error
    assert upstreams["closed"]["state"] == "down"
    assert "closed for the season" in upstreams["closed"]["problem"]
    assert 'where="plugin"' in metrics
    assert "library of the lawyers" in sidecar.log()


@pytest.mark.requirement("plugins.contained")
def test_the_doctor_lists_what_is_loaded_and_what_is_not(sidecar: SidecarProcess) -> None:
    told = doctor(sidecar, (sidecar.folder / "flyball.toml").read_text(encoding="utf-8"))

    assert told["guard quiet-hours"] == {
        "ok": True,
        "mark": "ok",
        "told": "plug-in of flyball-quiet-hours 1.0",
    }
    assert told["upstream kind folder"]["ok"]
    assert told["notifier journal"]["ok"]
    assert not told["estimator unloadable"]["ok"]
    assert "library of the lawyers" in told["estimator unloadable"]["told"]


def doctor(sidecar: SidecarProcess, config: str) -> dict[str, Any]:
    place = sidecar.folder / "doctor"
    place.mkdir(exist_ok=True)
    (place / "flyball.toml").write_text(config, encoding="utf-8")
    files = ("--config", str(place / "flyball.toml"), "--state", str(place / "state"))
    done = subprocess.run(
        (sys.executable, "-m", "runtime", "doctor", "--json", *files),
        env=sidecar.env,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    shape: dict[str, Any] = json.loads(done.stdout)["config"]
    return shape
