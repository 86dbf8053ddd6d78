"""A sidecar is backed up while it serves; another one, from the backup, goes on where it was."""

import json
from pathlib import Path

import pytest
from commands import run_command
from scenarios.process import SidecarProcess, text_of

from memory_store.backups.taking import PLACES
from memory_store.lock import LOCK_NAME
from runtime.agent_runs.keys import FOLDER as RUN_KEYS
from runtime.agent_runs.words import SOCKET
from runtime.keepsakes import KEPT
from runtime.workers.places import FOLDER as WORKERS

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(300)]

BUDGET = """
[[budget]]
id = "all"
scope = "tenant"
limits = { tool_calls = 5 }
"""
# What each start makes anew, or what the store has.
_OTHERWISE = {
    LOCK_NAME, WORKERS, RUN_KEYS, SOCKET, PLACES.database, f"{PLACES.database}-wal",
    f"{PLACES.database}-shm", PLACES.archive, PLACES.experiences,
}  # fmt: skip


def _flyball(folder: Path, *words: str) -> dict[str, object]:
    done = run_command([*words, "--json"], cwd=folder, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


@pytest.mark.requirement("backup.whole-and-online")
@pytest.mark.parametrize("sidecar", [BUDGET], indirect=True)
async def test_a_sidecar_from_a_backup_knows_tokens_and_what_was_spent(
    sidecar: SidecarProcess, tmp_path: Path
) -> None:
    async with sidecar.agent() as client:
        for _ in range(3):
            await client.call_tool("worker__echo", {"text": "here"})
    # Whoever keeps something new there says in runtime/keepsakes.py whether a backup has it.
    unknown = {path.name for path in sidecar.state.iterdir()} - {*KEPT, *_OTHERWISE}
    assert unknown == set()

    backup = str(tmp_path / "backup")
    config = str(sidecar.folder / "flyball.toml")
    made = _flyball(tmp_path, "backup", backup, "--state", str(sidecar.state), "--config", config)
    token = sidecar.token("agent")
    sidecar.stop()
    elsewhere = SidecarProcess(folder=tmp_path / "elsewhere", extra=BUDGET)
    elsewhere.folder.mkdir()
    done = _flyball(tmp_path, "restore", backup, "--state", str(elsewhere.state))
    elsewhere.start()
    try:
        async with elsewhere.agent(token=token) as client:
            answers = [await client.call_tool("worker__echo", {"text": "here"}) for _ in range(3)]
    finally:
        elsewhere.stop()

    assert (made["ok"], done["restored"]) == (True, True)
    assert done["backup_id"] == made["backup_id"]
    assert [text_of(answer) == "here" for answer in answers] == [True, True, False]
