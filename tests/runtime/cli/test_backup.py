import json
import sqlite3
from pathlib import Path

from tests.runtime.cli.conftest import Flyball


def test_a_backup_is_made_proved_and_put_back(flyball: Flyball, folder: Path) -> None:
    flyball("migrate")
    (folder / ".flyball" / "gate.key").write_bytes(b"k" * 32)
    (folder / "flyball.toml").write_text("")

    made = flyball("backup", "safe", "--json")
    looked = flyball("restore", "safe", "--check", "--json")
    refused = flyball("restore", "safe", "--json")
    forced = flyball("restore", "safe", "--force", "--json")
    beside = flyball("restore", "safe", "--state", "new")

    answer = json.loads(made.out)
    assert (made.status, answer["ok"], answer["store"]) == (0, True, "sqlite")
    assert answer["files"] == len(("flyball.db", "gate.key", "flyball.toml"))
    assert json.loads(looked.out)["restored"] is False
    assert refused.status == 2
    assert "--force" in json.loads(refused.out)["error"]
    assert json.loads(forced.out)["backup_id"] == answer["backup_id"]
    assert (folder / "new" / "gate.key").read_bytes() == b"k" * 32
    assert "safe/config/flyball.toml" in beside.out


def test_a_backup_without_a_name_is_named_for_its_time(flyball: Flyball, folder: Path) -> None:
    flyball("migrate")

    ended = flyball("backup")

    (made,) = folder.glob("flyball-backup-*Z")
    assert ended.status == 0
    assert str(made) in ended.out
    assert "keys and tokens" in ended.out


def test_a_loss_of_before_is_told_with_status_1(flyball: Flyball, folder: Path) -> None:
    flyball("migrate")
    _name_a_content_that_is_not_there(folder / ".flyball" / "flyball.db")

    ended = flyball("backup", "safe")

    assert ended.status == 1
    assert "was damaged or lost in the store already" in ended.err
    assert flyball("restore", "safe", "--state", "new").status == 0


def _name_a_content_that_is_not_there(database: Path) -> None:
    connection = sqlite3.connect(database)
    with connection:
        connection.execute(
            "INSERT INTO archives VALUES ('arc_0', 'acme', 'ada', 'ses', 'call', 'f00', 1, 't', 1)"
        )
    connection.close()
