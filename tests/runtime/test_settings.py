"""What the environment sets, and what of it a command may see."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from runtime.settings import (
    Settings,
    command_environment,
    scripts_directory,
    secret_from_environment,
)

SECRET = "made-up-0123456789"


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("CONFIG", "STATE", "LOG_LEVEL", "MODEL_URL", "MODEL_KEY", "MODEL_NAME"):
        monkeypatch.delenv(f"FLYBALL_{name}", raising=False)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.chdir(tmp_path)


def test_without_settings_everything_is_in_the_working_directory(tmp_path: Path) -> None:
    settings = Settings()

    assert settings.config == Path("flyball.toml")
    assert settings.state == tmp_path / ".flyball"


def test_a_state_directory_that_is_given_relative_is_absolute_from_the_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FLYBALL_STATE", "data/flyball")

    state = Settings().state
    monkeypatch.chdir("/")

    assert state == tmp_path / "data" / "flyball"


def test_the_environment_sets_what_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYBALL_CONFIG", "/etc/flyball.toml")
    monkeypatch.setenv("FLYBALL_LOG_LEVEL", "DEBUG")
    monkeypatch.setenv("FLYBALL_MODEL_URL", "http://lab.test/v1")

    settings = Settings()

    assert settings.config == Path("/etc/flyball.toml")
    assert settings.log_level == "DEBUG"
    assert settings.model_url == "http://lab.test/v1"


def test_an_unknown_setting_of_another_version_does_not_stop_a_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FLYBALL_FUTURE", "1")

    assert Settings().config == Path("flyball.toml")


def test_the_model_key_is_never_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYBALL_MODEL_KEY", SECRET)

    settings = Settings()

    assert settings.model_key is not None
    assert settings.model_key.get_secret_value() == SECRET
    assert SECRET not in f"{settings!r} {settings} {settings.model_dump_json()}"


def test_a_variable_that_is_empty_is_set_and_one_that_is_not_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ISSUES_TOKEN", "")

    assert secret_from_environment("ISSUES_TOKEN") == ""
    monkeypatch.delenv("ISSUES_TOKEN")
    assert secret_from_environment("ISSUES_TOKEN") is None


@pytest.mark.requirement("nothing-leaves")
def test_a_command_gets_five_names_of_the_environment_and_a_home(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = {"PATH": "/usr/bin", "LANG": "de_DE", "LC_ALL": "C", "TZ": "UTC", "TERM": "xterm"}
    hidden = ("FLYBALL_STATE", "FLYBALL_MODEL_KEY", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY")
    for name, value in kept.items():
        monkeypatch.setenv(name, value)
    for name in (*hidden, "HOME", "LD_PRELOAD", "PYTHONPATH", "SSH_AUTH_SOCK"):
        monkeypatch.setenv(name, SECRET)

    environment = command_environment()

    assert environment == {**kept, "HOME": "/tmp"}


def test_a_command_has_a_path_and_a_language_even_where_the_sidecar_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("PATH", "LANG", "LC_ALL", "TZ", "TERM"):
        monkeypatch.delenv(name, raising=False)

    environment = command_environment()

    assert set(environment) == {"PATH", "LANG", "HOME"}
    assert "/usr/bin" in environment["PATH"].split(":")


def test_the_scripts_directory_holds_the_flyball_command() -> None:
    assert (scripts_directory() / "flyball").is_file()


def test_ci_is_none_of_our_business(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "woodpecker")

    assert Settings().log_level == "WARNING"


def test_a_log_level_may_be_written_in_small_letters_and_must_be_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FLYBALL_LOG_LEVEL", "debug")
    assert Settings().log_level == "DEBUG"

    monkeypatch.setenv("FLYBALL_LOG_LEVEL", "loud")
    with pytest.raises(ValidationError, match="'WARNING'"):
        Settings()
