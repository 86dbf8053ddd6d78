"""What another configuration changes: what can be taken over at once, and what needs a restart."""

from dataclasses import dataclass

from runtime.configuration.memory import MemoryTable
from runtime.configuration.model import Config
from runtime.configuration.translate import shows_builtins
from runtime.errors import ConfigError

# Tables that a running sidecar takes over whole.
_AT_ONCE = frozenset(
    {
        "access",
        "redaction",
        "upstream",
        "rule",
        "default",
        "unified_cost",
        "flow",
        "ladder",
        "router",
        "estimates",
        "memory",
        "turns",
        "turn_rule",
        "task_class",
    }
)
# Parts of the memory that are put together when a sidecar starts.
_MEMORY_AT_START = ("enabled", "vectors", "cases", "playbooks", "sleep")
# Made at the first start; afterwards the admin API owns them, a restart would not change them.
_MADE_ONCE = frozenset({"budget"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """What becomes of a new configuration.

    `effective` is what is in force afterwards: the old one with what is `applied` of the new.
    """

    effective: Config
    applied: tuple[str, ...]
    needs_restart: tuple[str, ...]
    made_once: tuple[str, ...]


def change_to(wanted: Config, *, running: Config) -> ConfigChange:
    """Return what becomes of `wanted`.

    Raises:
        ConfigError: part of it can only be taken over together with what needs a restart.
    """
    changed = [
        name for name in Config.model_fields if getattr(wanted, name) != getattr(running, name)
    ]
    applied = {name: getattr(wanted, name) for name in changed if name in _AT_ONCE}
    needs_restart = [name for name in changed if name not in _AT_ONCE | _MADE_ONCE]
    if wanted.flow.launchers != running.flow.launchers:
        needs_restart.append("flow.launchers")
        kept = wanted.flow.model_copy(update={"launchers": running.flow.launchers})
        applied.pop("flow")
        if kept != running.flow:
            applied["flow"] = kept
    if "memory" in applied:
        applied["memory"], waiting = _memory_of(wanted.memory, running=running.memory)
        needs_restart += waiting
        if applied["memory"] == running.memory:
            applied.pop("memory")
    effective = running.model_copy(update=applied)
    if shows_builtins(effective) != shows_builtins(running):
        raise ConfigError(
            'upstream: prefix = "none" comes or goes, and the built-in tools with it; restart '
            "Flyball for that, or set builtin.tools first"
        )
    return ConfigChange(
        effective=effective,
        applied=tuple(applied),
        needs_restart=tuple(needs_restart),
        made_once=tuple(name for name in changed if name in _MADE_ONCE),
    )


def _memory_of(wanted: MemoryTable, *, running: MemoryTable) -> tuple[MemoryTable, list[str]]:
    """Return what is taken over of the memory's table at once, and what of it is not."""
    stays = {name: getattr(running, name) for name in _MEMORY_AT_START}
    waiting = [
        f"memory.{name}" for name in _MEMORY_AT_START if getattr(wanted, name) != stays[name]
    ]
    tiers = wanted.tiers
    if tiers.enabled != running.tiers.enabled:
        waiting.append("memory.tiers.enabled")
        tiers = tiers.model_copy(update={"enabled": running.tiers.enabled})
    return wanted.model_copy(update={**stays, "tiers": tiers}), waiting
