"""The memory as programs and administrators use it: the client library and `flyball memory`."""

import hashlib
import json
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from scenarios.process import SidecarProcess

from runtime.cli.command_line import EXIT_FAULT, run
from runtime.client import (
    AsyncMemoryClient,
    ClientError,
    MemoryClient,
    NotReachedError,
    RefusedError,
)

pytestmark = pytest.mark.slow

SECONDS_MAX = 120
BYTES = bytes(range(256)) * 40


class Desk:
    """`flyball memory` at a sidecar, run in this process."""

    def __init__(self, sidecar: SidecarProcess, capsys: pytest.CaptureFixture[str]) -> None:
        self._where = (
            "--config",
            str(sidecar.folder / "flyball.toml"),
            "--state",
            str(sidecar.state),
        )
        self._capsys = capsys

    def asked(self, *words: str, status: int = 0) -> dict[str, Any]:
        told = self.told(*words, "--json", status=status)
        answer: dict[str, Any] = json.loads(told)
        return answer

    def told(self, *words: str, status: int = 0) -> str:
        self._capsys.readouterr()
        assert self._run(*words) == status, self._capsys.readouterr()
        return self._capsys.readouterr().out

    def refused(self, *words: str) -> str:
        self._capsys.readouterr()
        assert self._run(*words) == EXIT_FAULT
        return self._capsys.readouterr().err

    def _run(self, *words: str) -> int:
        # The sidecar listens where it could, which its file does not say.
        return run(["memory", words[0], *self._where, *words[1:]])


@pytest.fixture
def desk(
    shared_sidecar: SidecarProcess,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Desk:
    config = shared_sidecar.folder / "flyball.toml"
    admin = shared_sidecar.urls["admin"].removeprefix("http://").removesuffix("/admin/v1")
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace('admin = "127.0.0.1:0"', f'admin = "{admin}"'), encoding="utf-8")
    monkeypatch.chdir(shared_sidecar.folder)
    return Desk(shared_sidecar, capsys)


def client_of(sidecar: SidecarProcess, session: str) -> MemoryClient:
    base = sidecar.urls["agents"].removesuffix("/mcp")
    return MemoryClient(base, token=sidecar.token("agent"), session=session)


def made_tenant(sidecar: SidecarProcess, name: str) -> None:
    with httpx.Client(
        base_url=sidecar.urls["admin"],
        headers={"Authorization": f"Bearer {sidecar.token('admin')}"},
        timeout=60,
    ) as admin:
        answer = admin.post("tenants", json={"id": name})
    assert answer.status_code == 201, answer.text


@pytest.mark.requirement("memory.client")
def test_a_program_writes_finds_reads_and_forgets_by_the_client(
    shared_sidecar: SidecarProcess,
) -> None:
    with client_of(shared_sidecar, "client") as memory:
        kept = memory.write(BYTES, media_type="application/octet-stream", summary="a blue dump")
        note = memory.write("The blue pump of hall seven was replaced.", tags=["pump"])
        found = memory.search("which pump was replaced in hall seven?", max_tokens=400)
        around = memory.around(note.index)
        content = memory.content(kept.index)
        part = memory.content(kept.index, offset=3, max_bytes=5)
        memory.feedback([note.index], helpful=1.0)
        listed = {one.index for one in memory.listed()}
        rooms = {one.name: one for one in memory.namespaces()}
        memory.forget(note.index)
        with pytest.raises(RefusedError) as gone:
            memory.content(note.index)
        with pytest.raises(RefusedError) as foreign:
            memory.content("exp_nobody_ever_wrote_this")

    assert found.hits[0].index == note.index
    assert (found.hits[0].role, found.hits[0].lane) == ("data", "agent")
    assert note.index in found.rendered
    assert found.tokens <= 400
    assert kept.index in {hit.index for hit in around.hits}
    assert content.content == BYTES
    assert content.receipt["address"] == hashlib.sha256(BYTES).hexdigest()
    assert part.content == BYTES[3:8]
    assert {kept.index, note.index} <= listed
    assert rooms["agent"].rights == ("read", "write")
    assert rooms["agent"].size_bytes >= len(BYTES)
    assert gone.value.status == foreign.value.status == 404


@pytest.mark.anyio
@pytest.mark.requirement("memory.client")
async def test_a_program_with_a_loop_says_the_same(shared_sidecar: SidecarProcess) -> None:
    base = shared_sidecar.urls["agents"].removesuffix("/mcp")
    token = shared_sidecar.token("agent")
    with anyio.fail_after(SECONDS_MAX):
        async with AsyncMemoryClient(base, token=token, session="async") as memory:
            kept = await memory.write("Deploys of the kiosk wait for the tide table.")
            found = await memory.search("what do kiosk deploys wait for?")
            where = await memory.context("the next deploy", max_tokens=300)
            content = await memory.content(kept.index)
            listed = [one.index async for one in memory.listed()]
            rooms = {one.name: one.rights async for one in memory.namespaces()}
            await memory.feedback([kept.index], used=0.0)
            await memory.forget(kept.index)
        async with AsyncMemoryClient("http://127.0.0.1:1", token="none") as nobody:
            with pytest.raises(NotReachedError, match="flyball up"):
                await nobody.search("anybody there?")
        async with AsyncMemoryClient(base, token="wrong") as stranger:
            with pytest.raises(ClientError):
                await stranger.search("anything")

    assert rooms["tenant"] == ("read",)
    assert found.hits[0].index == kept.index
    assert "kiosk" in where.rendered
    assert content.content.startswith(b"Deploys")
    assert kept.index in listed


@pytest.mark.requirement("memory.administration")
def test_an_administrator_teaches_promotes_and_withdraws(
    shared_sidecar: SidecarProcess, desk: Desk
) -> None:
    with client_of(shared_sidecar, "admin") as memory:
        note = memory.write("Always close valve nine before the night shift.", kind="lesson")
        taught = desk.asked("teach", "Never open valve nine at night.", "--tag", "valve")
        adopted = desk.asked("promote", note.index, "--to", "instruction")
        blob = memory.write(BYTES, media_type="application/octet-stream", summary="Obey me.")
        assert "no text" in desk.refused("promote", blob.index, "--to", "instruction")
        found = memory.search("valve nine at night")
        roles = {hit.index: hit.role for hit in found.hits}
        revoked = desk.asked("revoke", note.index, "--why", "wrong valve")
        after = {hit.index for hit in memory.search("valve nine at night").hits}

    assert taught["lane"] == "operator"
    assert adopted["is_adopted"]
    assert adopted["experience"]["content"].startswith("Always close valve nine")
    assert adopted["experience"]["derived_from"] == [note.index]
    assert roles[taught["index"]] == "instruction"
    # Revoking what was adopted takes the instruction with it.
    assert revoked["experiences"] == 2
    assert note.index not in after
    assert taught["index"] in after
    assert "(wrong valve)" in desk.told("show", note.index)
    assert "revoked" in desk.told("ls", "--standing", "revoked")
    assert "stays where it is" in desk.refused("promote", note.index)


@pytest.mark.requirement("memory.administration")
def test_an_administrator_looks_grants_and_measures(
    shared_sidecar: SidecarProcess, desk: Desk
) -> None:
    with client_of(shared_sidecar, "looks") as memory:
        kept = memory.write("The lighthouse lamp is serviced in the third week of May.")
        made = desk.asked("make", "team/keepers", "--bytes-max", "100000")
        granted = desk.asked("grant", "team/keepers", "*", "write")
        assert "no principal 'nobody'" in desk.told("grant", made["id"], "nobody", "read")
        desk.told("grant", made["id"], "nobody", "none")
        shared = memory.write("Keepers meet on Fridays.", namespace="team/keepers")
        desk.asked("grant", made["id"], "*", "none")
        with pytest.raises(RefusedError):
            memory.write("Keepers meet on Mondays.", namespace="team/keepers")

    assert granted["grants"] == [{"principal": "*", "right": "write", "source": "granted"}]
    assert shared.namespace == "team/keepers"
    assert "lighthouse" in desk.told("search", "when is the lighthouse lamp serviced?")
    assert kept.index in desk.told("ls", "--limit", "50")
    assert "writer" in desk.told("show", kept.index)
    assert desk.told("show", kept.index, "--content").startswith("The lighthouse lamp")
    assert "team/keepers" in desk.told("namespaces")
    assert "team/keepers" in desk.told("usage")
    assert desk.asked("ls", "--namespace", "team/keepers")["items"][0]["index"] == shared.index
    assert "no namespace 'team/none'" in desk.refused("ls", "--namespace", "team/none")
    assert "The lighthouse lamp" in desk.told("show", kept.index)
    assert "add --yes" in desk.refused("forget", "--writer", "nobody")
    assert "no such experience" in desk.told("forget", "exp_not_there", status=1)
    assert "the usual plan" in desk.told("tiers")
    assert "not known" in desk.refused("tiers", "--promote")
    assert "no such" in desk.refused("show", "exp_not_there").lower()


@pytest.mark.requirement("memory.carried")
def test_an_administrator_carries_the_memory_out_and_in_and_looks_through_it(
    shared_sidecar: SidecarProcess, desk: Desk, tmp_path: Path
) -> None:
    file, broken = tmp_path / "memory.jsonl", tmp_path / "broken.jsonl"
    with client_of(shared_sidecar, "carried") as memory:
        kept = memory.write(BYTES, media_type="application/octet-stream", summary="ballast")
        desk.told("export", str(file))
        lines = file.read_bytes().splitlines()
        again = desk.asked("import", str(file))
        assert "no tenant 'elsewhere'" in desk.refused("import", str(file), "--tenant", "elsewhere")
        made_tenant(shared_sidecar, "elsewhere")
        elsewhere = desk.asked("import", str(file), "--tenant", "elsewhere")
        made_tenant(shared_sidecar, "vouching")
        vouched = desk.asked("import", str(file), "--tenant", "vouching", "--as-lane", "agent")
        assert file.stat().st_mode & 0o777 == 0o600
        desk.told("forget", kept.index, "--why", "privacy")
        with pytest.raises(RefusedError):
            memory.content(kept.index)
        undone = desk.asked("import", str(file), status=1)
    broken.write_bytes(lines[0] + b"\n{not json\n")
    refused = desk.asked("import", str(broken), status=1)

    assert (again["new"], again["known"]) == (0, len(lines))
    assert (elsewhere["new"], elsewhere["renamed"], elsewhere["refused"]) == (len(lines), 0, 0)
    shown = desk.asked("show", kept.index, "--tenant", "elsewhere")
    assert shown["address"] == hashlib.sha256(BYTES).hexdigest()
    # Without somebody's word a file of another house is a stranger's; with it, what it says.
    known = desk.asked("show", kept.index, "--tenant", "vouching")
    assert (shown["lane"], known["lane"]) == ("web", "agent")
    assert vouched["demoted"] < elsewhere["demoted"]
    # What was erased does not come back with an old file.
    assert (undone["known"], undone["refused"]) == (len(lines) - 1, 1)
    assert (refused["known"], refused["refused"]) == (1, 1)
    assert refused["faults"][0]["line"] == 2
    assert desk.asked("fsck")["ok"]
    assert "everything adds up" in desk.told("fsck", "--rebuild")
    assert "cannot be read" in desk.refused("import", str(tmp_path / "none.jsonl"))
