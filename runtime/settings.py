"""Static settings: the only reader of the environment."""

import os
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import quote, urlsplit, urlunsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from runtime.errors import ConfigError
from runtime.secret_files import UnreadableSecretError, secret_in

# What local commands and upstream servers may inherit; everything else stays here.
_INHERITED = ("PATH", "LANG", "LC_ALL", "TZ", "TERM")
_PATH_DEFAULT = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

LogLevel = Annotated[
    Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"],
    BeforeValidator(lambda value: value.upper() if isinstance(value, str) else value),
]
_PREFIX = "FLYBALL_"
_FILE = "_FILE"
_SECRETS = (
    *("FLYBALL_STORE_URL", "FLYBALL_STORE_PASSWORD", "FLYBALL_MODEL_KEY"),
    "ANTHROPIC_API_KEY",
)
_NOT_FOR_AGENTS = frozenset(name + suffix for name in _SECRETS for suffix in ("", _FILE))


class _SecretFiles(PydanticBaseSettingsSource):
    """What stands in the files that `FLYBALL_STORE_URL_FILE` and its like name."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[str | None, str, bool]:
        """Return the secret that a file holds for a field, None where no file is named."""
        name = f"{_PREFIX}{field_name.upper()}"
        is_secret = field.annotation == (SecretStr | None) and os.environ.get(name + _FILE)
        return (secret_from_environment(name) if is_secret else None), field_name, False

    def __call__(self) -> dict[str, str | None]:
        """Return what was found."""
        fields = self.settings_cls.model_fields
        found = {name: self.get_field_value(field, name)[0] for name, field in fields.items()}
        return {name: value for name, value in found.items() if value is not None}


class Settings(BaseSettings):
    """Where things are; `FLYBALL_CONFIG`, `FLYBALL_STATE` and so on set them."""

    model_config = SettingsConfigDict(env_prefix=_PREFIX, frozen=True, extra="ignore")

    config: Path = Path("flyball.toml")
    # Absolute from the start, so that nothing that changes directory can lose it.
    state: Annotated[Path, AfterValidator(Path.absolute)] = Field(
        default=Path(".flyball"), validate_default=True
    )
    store_url: SecretStr | None = Field(default=None, description="a PostgreSQL server's URL")
    store_password: SecretStr | None = Field(default=None, description="of the user in store_url")
    log_level: LogLevel = "WARNING"
    log_format: Literal["text", "json"] = Field(
        default="text", description="lines for people, or one JSON object each"
    )
    model_url: str | None = Field(default=None, description="a real model server for the tour")
    model_key: SecretStr | None = None
    model_name: str = "gpt-4o-mini"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return where settings come from: a file that is named goes before an empty variable."""
        del dotenv_settings, file_secret_settings
        return init_settings, _SecretFiles(settings_cls), env_settings

    @model_validator(mode="before")
    @classmethod
    def _with_the_password_in_its_place(cls, values: dict[str, object]) -> dict[str, object]:
        url, password = values.get("store_url"), values.get("store_password")
        if not isinstance(password, str) or not password:
            return values
        if not isinstance(url, str) or not url:
            raise ConfigError(
                "FLYBALL_STORE_PASSWORD: is for the server of FLYBALL_STORE_URL; set that too"
            )
        return {**values, "store_url": _with_password(url, password)}


def _with_password(url: str, password: str) -> str:
    try:
        parts = urlsplit(url)
        user, at, host = parts.netloc.rpartition("@")
    except ValueError:
        # Without its cause, which quotes the URL.
        raise ConfigError("FLYBALL_STORE_URL: is no URL that can be read") from None
    if not at or not user or ":" in user:
        raise ConfigError(
            "FLYBALL_STORE_URL: with FLYBALL_STORE_PASSWORD it names the user and no password, "
            "as in postgresql://flyball@db.example.org/flyball"
        )
    return urlunsplit(parts._replace(netloc=f"{user}:{quote(password, safe='')}@{host}"))


def secret_from_environment(name: str) -> str | None:
    """Return the secret of a variable, or in the file that `NAME_FILE` names; None without one.

    Raises:
        ConfigError: both are given, or the file holds no secret.
    """
    value, file = os.environ.get(name), os.environ.get(name + _FILE)
    if not file:
        return value
    if value:
        raise ConfigError(f"{name}: is set, and {name}{_FILE} too; give one of the two")
    try:
        return secret_in(Path(file))
    except UnreadableSecretError as error:
        raise ConfigError(f"{name}{_FILE} = {file!r}: {error}") from error


def unset(name: str) -> str:
    """Return what to do about a secret that is not there."""
    return (
        f"the environment variable {name} is not set; export it, or name the file that holds it "
        f"in {name}{_FILE}"
    )


def keep_to_one_thread() -> None:
    """Let linear algebra run on one thread, unless the environment says otherwise.

    Its threads wait for one another in loops, so that on a machine that does other work as well
    two take longer than one. It must be said before numpy is loaded.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def command_environment() -> Mapping[str, str]:
    """Return the minimal environment of a local command: no variable of ours, no secret."""
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {"PATH": _PATH_DEFAULT, "LANG": "C.UTF-8", "HOME": "/tmp", **inherited}  # noqa: S108


def agent_environment(
    added: Mapping[str, str], *, secrets: Collection[str] = ()
) -> Mapping[str, str]:
    """Return the environment of an agent that `flyball run` starts: the caller's, and `added`.

    Left out is what is the sidecar's alone, and the keys that lead around it: those that
    everybody knows, and `secrets`, the variables that the configuration names, or their files.
    """
    named = {name + suffix for name in secrets for suffix in ("", _FILE)}.difference(_INHERITED)
    left_out = _NOT_FOR_AGENTS | named
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**kept, **added}


def scripts_directory() -> Path:
    """Return where this environment's console scripts are."""
    return Path(sys.executable).parent
