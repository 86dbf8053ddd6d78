"""Secrets that stand in files instead of the environment."""

from pathlib import Path

import pytest

from runtime.configuration.named_secrets import secret_variables_in
from runtime.errors import ConfigError
from runtime.secret_files import SECRET_BYTES_MAX
from runtime.settings import Settings, agent_environment, secret_from_environment

SECRET = "made-up-0123456789"
URL = "postgresql://flyball@db.test:5433/flyball?sslmode=require"


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STORE_URL", "STORE_PASSWORD", "MODEL_KEY"):
        monkeypatch.delenv(f"FLYBALL_{name}", raising=False)
        monkeypatch.delenv(f"FLYBALL_{name}_FILE", raising=False)


def written(folder: Path, content: str = f"{SECRET}\n") -> str:
    path = folder / "secret"
    path.write_text(content, encoding="utf-8")
    return str(path)


@pytest.mark.requirement("secrets.by-file")
def test_a_secret_that_the_configuration_names_may_stand_in_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ISSUES_TOKEN_FILE", written(tmp_path))

    assert secret_from_environment("ISSUES_TOKEN") == SECRET


def test_an_empty_variable_gives_way_to_the_file_and_an_empty_name_of_a_file_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ISSUES_TOKEN", "")
    monkeypatch.setenv("ISSUES_TOKEN_FILE", written(tmp_path))
    assert secret_from_environment("ISSUES_TOKEN") == SECRET

    monkeypatch.setenv("ISSUES_TOKEN_FILE", "")
    assert secret_from_environment("ISSUES_TOKEN") == ""


@pytest.mark.requirement("secrets.by-file")
def test_a_secret_in_both_places_is_refused_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ISSUES_TOKEN", SECRET)
    monkeypatch.setenv("ISSUES_TOKEN_FILE", written(tmp_path))

    with pytest.raises(ConfigError, match="ISSUES_TOKEN_FILE too; give one of the two") as refused:
        secret_from_environment("ISSUES_TOKEN")

    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (SECRET.encode() + b"\xff", "it is not text"),
        (b"x" * (SECRET_BYTES_MAX + 1), "no secret"),
        (None, "No such file"),
    ],
)
def test_a_file_without_a_secret_is_named_with_the_variable_and_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None, told: str
) -> None:
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv("ISSUES_TOKEN_FILE", str(path))

    with pytest.raises(ConfigError, match=told) as refused:
        secret_from_environment("ISSUES_TOKEN")

    assert str(refused.value).startswith(f"ISSUES_TOKEN_FILE = {str(path)!r}: ")
    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is not None
    assert refused.value.__cause__.__cause__ is None or content is None


@pytest.mark.requirement("secrets.by-file")
def test_the_settings_that_are_secret_may_stand_in_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FLYBALL_MODEL_KEY_FILE", written(tmp_path))
    monkeypatch.setenv("FLYBALL_STORE_URL_FILE", written(tmp_path))

    settings = Settings()

    assert settings.model_key is not None
    assert settings.store_url is not None
    assert settings.model_key.get_secret_value() == SECRET
    assert settings.store_url.get_secret_value() == SECRET
    assert SECRET not in f"{settings!r} {settings.model_dump_json()}"


def test_a_setting_that_is_no_secret_is_not_read_from_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FLYBALL_CONFIG_FILE", written(tmp_path))

    assert Settings().config == Path("flyball.toml")


@pytest.mark.requirement("secrets.by-file")
def test_the_password_of_the_server_may_stand_apart_from_its_url(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FLYBALL_STORE_URL", URL)
    monkeypatch.setenv("FLYBALL_STORE_PASSWORD_FILE", written(tmp_path, "p@ss:w/rd?\n"))

    url = Settings().store_url

    assert url is not None
    assert url.get_secret_value() == URL.replace("flyball@", "flyball:p%40ss%3Aw%2Frd%3F@", 1)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        (None, "set that too"),
        ("postgresql://db.test/flyball", "names the user and no password"),
        ("postgresql://flyball:other@db.test/flyball", "names the user and no password"),
        ("postgresql://flyball@[db/flyball", "no URL that can be read"),
    ],
)
def test_a_password_without_its_place_is_refused_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, url: str | None, told: str
) -> None:
    monkeypatch.setenv("FLYBALL_STORE_PASSWORD", SECRET)
    if url is not None:
        monkeypatch.setenv("FLYBALL_STORE_URL", url)

    with pytest.raises(ConfigError, match=told) as refused:
        Settings()

    assert SECRET not in str(refused.value)


def test_an_agent_is_not_told_where_the_sidecars_secrets_stand(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FLYBALL_STORE_PASSWORD_FILE", written(tmp_path))
    monkeypatch.setenv("FLYBALL_MODEL_KEY_FILE", written(tmp_path))

    environment = agent_environment({})

    assert not [name for name in environment if name.startswith("FLYBALL_")]


def test_an_agent_gets_none_of_the_keys_that_the_configuration_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "flyball.toml"
    config.write_text(
        """
        [telemetry]
        headers_from = { authorization = "OTLP_KEY" }
        [[webhook]]
        secret_from = "HOOK_KEY"
        [[upstream]]
        env_from = ["SERVER_KEY", "PATH"]
        auth = { client_secret_from = "CLIENT_KEY" }
        [[provider]]
        api_keys_from = ["KEY_A", "KEY_B"]
        [memory]
        none_from = 0.8
        """
    )
    named = ("OTLP_KEY", "HOOK_KEY", "SERVER_KEY", "CLIENT_KEY", "KEY_A", "KEY_B_FILE")
    for name in (*named, "OWN_KEY"):
        monkeypatch.setenv(name, "x")

    environment = agent_environment({"KEY_A": "its own"}, secrets=secret_variables_in(config))

    assert {name: environment.get(name) for name in named} == {
        **dict.fromkeys(named),
        "KEY_A": "its own",
    }
    assert environment["OWN_KEY"] == "x"
    assert "PATH" in environment
    assert secret_variables_in(tmp_path / "none.toml") == frozenset()
