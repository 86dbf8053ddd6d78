"""Which plug-ins of installed packages are loaded, and what becomes of calls when they fail."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from runtime.configuration.table import Name, Table

PLUGINS_MAX = 32


class PluginsTable(Table):
    """Nothing is loaded unless `enabled` names it, as its package's entry point is called.

    `settings` are handed to each by its name. A call about which a guard cannot be asked, because
    it fails or takes longer than `timeout_ms`, is denied unless `guard_failure` is "allow".
    """

    enabled: Annotated[tuple[Name, ...], Field(max_length=PLUGINS_MAX)] = ()
    settings: dict[Name, dict[str, Any]] = Field(default_factory=dict)
    timeout_ms: Annotated[int, Field(strict=True, ge=10, le=60_000)] = 1_000
    guard_failure: Literal["deny", "allow"] = "deny"

    @field_validator("enabled")
    @classmethod
    def _is_each_once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(value)) != len(value):
            raise ValueError("name each plug-in once")
        return value

    @model_validator(mode="after")
    def _is_settings_of_enabled(self) -> Self:
        for name in self.settings:
            if name not in self.enabled:
                raise ValueError(f"settings.{name}: plugins.enabled does not name it")
        return self

    def check_kinds(self, kinds: Mapping[str, str | None]) -> None:
        """Return if what each upstream is a kind of is enabled.

        Raises:
            ValueError: an upstream is of another kind.
        """
        for name, kind in kinds.items():
            if kind is not None and kind not in self.enabled:
                raise ValueError(
                    f"upstream {name}: kind = {kind!r} is a plug-in's; name it in plugins.enabled"
                )
