"""Static settings: the only reader of the environment."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

# What local commands and upstream servers may inherit; everything else stays here.
_INHERITED = ("PATH", "LANG", "LC_ALL", "TZ", "TERM")
_PATH_DEFAULT = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

LogLevel = Annotated[
    Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"],
    BeforeValidator(lambda value: value.upper() if isinstance(value, str) else value),
]
_NOT_FOR_AGENTS = frozenset({"FLYBALL_STORE_URL", "FLYBALL_MODEL_KEY", "ANTHROPIC_API_KEY"})


class Settings(BaseSettings):
    """Where things are; `FLYBALL_CONFIG`, `FLYBALL_STATE` and so on set them."""

    model_config = SettingsConfigDict(env_prefix="FLYBALL_", frozen=True, extra="ignore")

    config: Path = Path("flyball.toml")
    # Absolute from the start, so that nothing that changes directory can lose it.
    state: Annotated[Path, AfterValidator(Path.absolute)] = Field(
        default=Path(".flyball"), validate_default=True
    )
    store_url: SecretStr | None = Field(default=None, description="a PostgreSQL server's URL")
    log_level: LogLevel = "WARNING"
    log_format: Literal["text", "json"] = Field(
        default="text", description="lines for people, or one JSON object each"
    )
    model_url: str | None = Field(default=None, description="a real model server for the tour")
    model_key: SecretStr | None = None
    model_name: str = "gpt-4o-mini"


def secret_from_environment(name: str) -> str | None:
    """Return the variable that the configuration names for a secret, None if it is not set."""
    return os.environ.get(name)


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


def agent_environment(added: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment of an agent that `flyball run` starts: the caller's, and `added`.

    Left out is what is the sidecar's alone, and the keys that lead around it.
    """
    kept = {name: value for name, value in os.environ.items() if name not in _NOT_FOR_AGENTS}
    return {**kept, **added}


def scripts_directory() -> Path:
    """Return where this environment's console scripts are."""
    return Path(sys.executable).parent
