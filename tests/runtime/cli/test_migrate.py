import json
from pathlib import Path

import pytest

from tests.runtime.cli.conftest import Flyball


def test_migrate_makes_a_new_store_and_then_has_nothing_to_do(flyball: Flyball) -> None:
    first = flyball("migrate", "--json")
    again = flyball("migrate", "--json")

    answer = json.loads(first.out)
    assert (first.status, answer["ok"], answer["before"]) == (0, True, None)
    assert answer["ran"]
    repeated = json.loads(again.out)
    assert (again.status, repeated["ran"], repeated["pending"]) == (0, [], [])
    assert repeated["before"] == answer["ran"][-1]


def test_migrate_check_changes_nothing(flyball: Flyball) -> None:
    looked = [flyball("migrate", "--check", "--json") for _ in range(2)]

    answers = [json.loads(ended.out) for ended in looked]
    assert [ended.status for ended in looked] == [1, 1]
    assert answers[0] == answers[1]
    assert (answers[0]["ran"], answers[0]["ok"]) == ([], False)


def test_migrate_says_in_words_what_it_did(flyball: Flyball) -> None:
    assert "up to date" in flyball("migrate").out
    assert flyball("migrate").out.startswith("nothing was run\n")


@pytest.mark.slow
def test_migrate_works_on_the_server_that_the_environment_names(
    flyball: Flyball, folder: Path, monkeypatch: pytest.MonkeyPatch, empty_database: str
) -> None:
    monkeypatch.setenv("FLYBALL_STORE_URL", empty_database)

    before = flyball("migrate", "--check")
    done = flyball("migrate")
    after = flyball("migrate", "--check")

    assert (before.status, done.status, after.status) == (1, 0, 0)
    assert not (folder / ".flyball").exists()


@pytest.mark.requirement("shared.password-unseen")
def test_a_server_that_does_not_answer_is_told_without_its_password(
    flyball: Flyball, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLYBALL_STORE_URL", "postgresql://flyball:s3cret-word@127.0.0.1:1/flyball")

    ended = flyball("migrate")

    assert ended.status == 2
    assert "postgresql+psycopg://flyball:***@127.0.0.1:1/flyball" in ended.err
    assert "s3cret-word" not in ended.err + ended.out


@pytest.mark.requirement("shared.password-unseen")
@pytest.mark.parametrize(
    "url",
    [
        "postgresql://flyball:s3cret-word@db/flyball",
        "postgresql://db/flyball?password=s3cret-word",
        "postgresql://flyball:s3cret-word@[db/flyball",
    ],
)
def test_a_password_in_the_file_is_refused_and_not_repeated(
    flyball: Flyball, folder: Path, url: str
) -> None:
    (folder / "flyball.toml").write_text(f'[store]\nurl = "{url}"\n', encoding="utf-8")

    for ended in (flyball("migrate"), flyball("up")):
        assert ended.status == 2
        assert "FLYBALL_STORE_URL" in ended.err
        assert "s3cret-word" not in ended.err + ended.out
