import hashlib
import json
import shutil
import stat
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest
from contracts.builders import COST, TENANT, record, request, used

from memory_store.backups import file_store
from memory_store.backups.manifest import Kind, Manifest
from memory_store.backups.restoring import check_backup, restore_backup
from memory_store.backups.taking import UNFINISHED, take_backup
from memory_store.conservation import Conservation
from memory_store.errors import (
    BackupError,
    SchemaMismatchError,
    StateDirectoryBusyError,
    StoreUnavailableError,
)
from memory_store.restored import READY, write_plan
from memory_store.store import DATABASE_NAME, Store
from tests.memory_store.backups.filled import (
    archived,
    begin,
    filled,
    held_in,
    opened,
    source_of,
    what_it_holds,
)

pytestmark = pytest.mark.anyio


def take(state_dir: Path, target: Path, url: str | None = None) -> Manifest:
    return take_backup(source_of(state_dir, url), target, made_by="a test", now_ms=5)


def restore(backup: Path, state_dir: Path, url: str | None = None, **more: bool) -> Manifest:
    return restore_backup(backup, state_dir, url=url, now_ms=9, **more)


@pytest.mark.requirement("backup.whole-and-online")
async def test_a_backup_of_a_busy_store_is_one_moment_of_it(tmp_path: Path) -> None:
    acknowledged = [0, 0]

    async def spend(kind: int, act: Callable[[], Awaitable[object]]) -> None:
        while True:
            await act()
            acknowledged[kind] += 1

    async def call(store: Store) -> None:
        asked = request({COST: 30})
        await store.ledger.admit(asked)
        await store.ledger.settle(asked.reservation_id, used({COST: 25}), record(asked))

    async with opened(tmp_path / "state") as store:
        await begin(store)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(spend, 0, partial(call, store))
            tasks.start_soon(spend, 1, partial(archived, store, b"result " * 9_000))
            before = list[tuple[int, int]]()
            for number in range(4):
                before.append((acknowledged[0], acknowledged[1]))
                with anyio.fail_after(100):
                    await anyio.to_thread.run_sync(
                        take, tmp_path / "state", tmp_path / f"backup {number}"
                    )
            tasks.cancel_scope.cancel()

    for number, (calls, contents) in enumerate(before):
        place = tmp_path / f"restored {number}"
        restore(tmp_path / f"backup {number}", place)
        async with opened(place) as store:
            assert await store.reader.run(Conservation().breaches) == []
            (view,) = await store.ledger.balances(tenant=TENANT, now_ms=2_000)
            assert view.used >= 25 * calls
        kept = list((place / "archive").rglob("arc_*"))
        assert len(kept) >= contents
        assert {path.stat().st_size for path in kept} <= {63_000}


@pytest.mark.slow
@pytest.mark.requirement("backup.whole-and-online")
async def test_a_backup_of_a_servers_store_brings_everything_back(
    tmp_path: Path, database: str, empty_database: str
) -> None:
    held = await filled(tmp_path / "state", database)

    made = take(tmp_path / "state", tmp_path / "backup", database)
    restore(tmp_path / "backup", tmp_path / "new", empty_database)

    assert made.kind is Kind.POSTGRESQL
    assert (tmp_path / "new" / "gate.key").read_text() == "Acme"
    async with opened(tmp_path / "new", empty_database) as store:
        assert await what_it_holds(store) == held
        # Numbers go on where they were.
        asked = request({COST: 30})
        await store.ledger.admit(asked)
        await archived(store, b"more")
        assert await store.reader.run(Conservation().breaches) == []


@pytest.mark.slow
async def test_a_servers_store_is_replaced_only_by_force_and_when_nobody_uses_it(
    tmp_path: Path, database: str
) -> None:
    held = await filled(tmp_path / "state", database)
    take(tmp_path / "state", tmp_path / "backup", database)
    async with opened(tmp_path / "state", database) as store:
        await archived(store, b"later")

    (tmp_path / "new").mkdir(mode=0o700)
    (tmp_path / "new" / "gate.key").write_text("its own")
    with pytest.raises(BackupError, match="holds a store already"):
        restore(tmp_path / "backup", tmp_path / "state", database)
    # Refused by the database, it has not touched the keys either.
    async with opened(tmp_path / "other", database):
        with pytest.raises(BackupError):
            restore(tmp_path / "backup", tmp_path / "new", database, replaces=True)
    assert (tmp_path / "new" / "gate.key").read_text() == "its own"
    assert not [*(tmp_path / "new").glob("re*")]
    restore(tmp_path / "backup", tmp_path / "state", database, replaces=True)

    assert await held_in(tmp_path / "state", database) == held


async def test_a_backup_brings_the_store_its_files_and_its_keys_back(tmp_path: Path) -> None:
    held = await filled(tmp_path / "state")

    made = take(tmp_path / "state", tmp_path / "backup")
    shutil.rmtree(tmp_path / "state")
    done = restore(tmp_path / "backup", tmp_path / "state")

    assert done == made
    assert (made.kind, made.damaged) == (Kind.SQLITE, ())
    assert (tmp_path / "state" / "gate.key").read_text() == "Acme"
    assert (tmp_path / "state" / "probes" / "slow.json").read_text() == "Acme"
    assert await held_in(tmp_path / "state") == held


async def test_a_backup_is_for_its_owner_only(tmp_path: Path) -> None:
    await filled(tmp_path / "state")

    take(tmp_path / "state", tmp_path / "backup")

    for path in (tmp_path / "backup", *(tmp_path / "backup").rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


async def test_a_store_that_is_there_is_set_aside_only_by_force(tmp_path: Path) -> None:
    held = await filled(tmp_path / "state")
    take(tmp_path / "state", tmp_path / "backup")
    other = await filled(tmp_path / "other", name="Other")

    with pytest.raises(BackupError, match=r"other holds|it holds .*flyball\.db.*--force"):
        restore(tmp_path / "backup", tmp_path / "other")
    assert await held_in(tmp_path / "other") == other
    restore(tmp_path / "backup", tmp_path / "other", replaces=True)

    assert await held_in(tmp_path / "other") == held
    assert (tmp_path / "other" / "gate.key").read_text() == "Acme"
    aside = tmp_path / "other" / "replaced-9"
    assert await held_in(aside) == other
    assert (aside / "gate.key").read_text() == "Other"


async def test_a_backup_is_not_restored_under_a_sidecar(tmp_path: Path) -> None:
    await filled(tmp_path / "state")
    take(tmp_path / "state", tmp_path / "backup")

    async with opened(tmp_path / "state"):
        with pytest.raises(StateDirectoryBusyError):
            restore(tmp_path / "backup", tmp_path / "state", replaces=True)


@pytest.mark.requirement("backup.proved-before-used")
async def test_a_damaged_backup_changes_nothing(tmp_path: Path) -> None:
    await filled(tmp_path / "state")
    other = await filled(tmp_path / "other", name="Other")
    made = take(tmp_path / "state", tmp_path / "backup")

    for piece in made.pieces:
        place = tmp_path / "backup" / piece.path
        intact = place.read_bytes()
        place.write_bytes(intact[:-1] + bytes([intact[-1] ^ 1]))
        with pytest.raises(BackupError, match="not what was written"):
            restore(tmp_path / "backup", tmp_path / "other", replaces=True)
        place.unlink()
        with pytest.raises(BackupError, match="missing"):
            check_backup(tmp_path / "backup")
        place.write_bytes(intact)

    assert await held_in(tmp_path / "other") == other
    assert check_backup(tmp_path / "backup") == made


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[:-20],
        lambda _text: "[]",
        lambda text: text.replace("state/gate.key", "state/../gate.key"),
        lambda text: text.replace('"made_by": "a test"', '"made_by": "another"'),
    ],
)
async def test_a_manifest_that_was_changed_is_refused(
    tmp_path: Path, spoil: Callable[[str], str]
) -> None:
    await filled(tmp_path / "state")
    take(tmp_path / "state", tmp_path / "backup")
    manifest = tmp_path / "backup" / "manifest.json"
    manifest.write_text(spoil(manifest.read_text()))

    with pytest.raises(BackupError, match="damaged or is not one of ours"):
        restore(tmp_path / "backup", tmp_path / "new")


@pytest.mark.parametrize("path", ["state/./key", "state//key", "state/lock", "state/restored/key"])
async def test_a_manifest_with_a_name_that_restores_work_with_changes_nothing(
    tmp_path: Path, path: str
) -> None:
    await filled(tmp_path / "state")
    take(tmp_path / "state", tmp_path / "backup")
    manifest = tmp_path / "backup" / "manifest.json"
    said = json.loads(manifest.read_text())["manifest"]
    key = next(piece for piece in said["pieces"] if piece["path"] == "state/gate.key")
    key["path"] = path
    content = (tmp_path / "backup" / "state" / "gate.key").read_bytes()
    (tmp_path / "backup" / path).parent.mkdir(exist_ok=True)
    (tmp_path / "backup" / path).write_bytes(content)
    manifest.write_text(json.dumps({"sha256": file_hash(said), "manifest": said}))

    with pytest.raises(BackupError, match=r"not one of ours|no backup of ours"):
        restore(tmp_path / "backup", tmp_path / "new")

    assert [one.name for one in (tmp_path / "new").glob("*") if one.name != "lock"] == []


async def test_a_backup_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    await filled(tmp_path / "state")
    take(tmp_path / "state", tmp_path / "backup")
    manifest = tmp_path / "backup" / "manifest.json"
    said = json.loads(manifest.read_text())["manifest"] | {"revision": "20991231_01"}
    manifest.write_text(json.dumps({"sha256": file_hash(said), "manifest": said}))

    with pytest.raises(SchemaMismatchError, match="20991231_01"):
        restore(tmp_path / "backup", tmp_path / "new")


def file_hash(said: dict[str, object]) -> str:
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


async def test_what_was_lost_in_the_store_is_told_and_the_rest_backed_up(tmp_path: Path) -> None:
    await filled(tmp_path / "state")
    lost, changed, *_ = sorted((tmp_path / "state" / "archive").rglob("arc_*"))
    lost.unlink()
    changed.write_bytes(b"not what was stored")

    made = take(tmp_path / "state", tmp_path / "backup")
    restore(tmp_path / "backup", tmp_path / "new")

    assert sorted(made.damaged) == sorted(
        path.relative_to(tmp_path / "state").as_posix() for path in (lost, changed)
    )
    async with opened(tmp_path / "new") as store:
        assert await store.reader.run(Conservation().breaches) == []


async def test_a_content_that_goes_while_it_is_looked_for_is_in_no_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path / "state") as store:
        await begin(store)
        await archived(store, b"gone")
        stays = await archived(store, b"stays", now_ms=100)
        real = file_store.contents_of
        looks = 0

        def removed_behind(database: Path, places: file_store.Places) -> object:
            nonlocal looks
            looks += 1
            found = real(database, places)
            if looks == 1:
                anyio.from_thread.run(partial(store.archive.remove, before_ms=50))
            return found

        monkeypatch.setattr(file_store, "contents_of", removed_behind)
        with anyio.fail_after(100):
            made = await anyio.to_thread.run_sync(take, tmp_path / "state", tmp_path / "backup")

    assert made.damaged == ()
    assert [path.name for path in (tmp_path / "backup").rglob("arc_*")] == [stays]


async def test_a_folder_without_a_manifest_is_no_backup(tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="is no backup"):
        restore(tmp_path / "none", tmp_path / "state")


async def test_nothing_to_back_up_and_nowhere_to_put_it_are_told(tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="holds no store yet"):
        take(tmp_path / "state", tmp_path / "backup")
    assert not (tmp_path / f"backup{UNFINISHED}").exists()

    await filled(tmp_path / "state")
    (tmp_path / "taken").mkdir()
    with pytest.raises(BackupError, match="is there already"):
        take(tmp_path / "state", tmp_path / "taken")


@pytest.mark.parametrize("is_link", [True, False])
async def test_what_no_backup_left_is_never_emptied(tmp_path: Path, *, is_link: bool) -> None:
    await filled(tmp_path / "state")
    precious = tmp_path / "precious" if is_link else tmp_path / f"backup{UNFINISHED}"
    precious.mkdir(mode=0o700)
    (precious / "letter").write_text("dear")
    if is_link:
        (tmp_path / f"backup{UNFINISHED}").symlink_to(precious)

    with pytest.raises(BackupError, match="is in the way"):
        take(tmp_path / "state", tmp_path / "backup")

    assert [path.name for path in precious.iterdir()] == ["letter"]
    assert not (tmp_path / "backup").exists()


async def test_a_backup_goes_back_only_where_it_came_from(tmp_path: Path) -> None:
    await filled(tmp_path / "state")
    take(tmp_path / "state", tmp_path / "backup")

    with pytest.raises(BackupError, match="store in files"):
        restore(tmp_path / "backup", tmp_path / "new", "postgresql://nobody@127.0.0.1:1/none")


async def test_a_database_that_is_damaged_makes_no_backup(tmp_path: Path) -> None:
    await filled(tmp_path / "state")
    database = tmp_path / "state" / DATABASE_NAME
    pages = bytearray(database.read_bytes())
    pages[len(pages) // 2 : len(pages) // 2 + 40_000] = b"\xff" * 40_000
    database.write_bytes(pages)

    with pytest.raises((BackupError, StoreUnavailableError)):
        take(tmp_path / "state", tmp_path / "backup")

    assert not (tmp_path / "backup").exists()


async def test_a_plan_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    await filled(tmp_path / "state")
    ready = tmp_path / "state" / READY
    ready.mkdir()
    write_plan(ready, backup_id="b", brings=(), clears=(), aside="x")
    (ready / "plan.json").write_text("{")

    with pytest.raises(StoreUnavailableError, match="restore it again"):
        async with opened(tmp_path / "state"):
            pass
