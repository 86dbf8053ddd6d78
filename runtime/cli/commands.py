"""The table of commands: what each is called, what it is for, and which module does it."""

import difflib
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

_INDENT = "  "
_WIDTH_MIN = 40


class Group(Enum):
    """What a command is for; groups and commands are shown in this order."""

    START = "start"
    WATCH = "watch and decide"
    MEMORY = "memory and models"
    MEASURE = "measure"
    UPKEEP = "upkeep"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command that there is; its module is loaded only when it is asked for."""

    name: str
    group: Group
    about: str
    module: str = ""

    @property
    def path(self) -> str:
        """Return the module with its arguments and what it does."""
        return f"runtime.cli.{self.module or self.name}"


def _start(name: str, about: str, module: str = "") -> Command:
    return Command(name=name, group=Group.START, about=about, module=module)


def _watch(name: str, about: str) -> Command:
    return Command(name=name, group=Group.WATCH, about=about)


def _memory(name: str, about: str) -> Command:
    return Command(name=name, group=Group.MEMORY, about=about)


def _measure(name: str, about: str) -> Command:
    return Command(name=name, group=Group.MEASURE, about=about)


def _upkeep(name: str, about: str) -> Command:
    return Command(name=name, group=Group.UPKEEP, about=about)


# They stand here, apart from their modules, because what some of those load takes seconds, which
# nobody should wait who only asks what there is.
COMMANDS: dict[str, Command] = {
    command.name: command
    for command in (
        _start("init", "Write a commented flyball.toml."),
        _start("doctor", "Say what this host can enforce and whether the configuration works."),
        _start("up", "Serve agents and administrators until SIGTERM or Ctrl-C."),
        _start(
            "stdio", "Serve MCP on standard input and output, for the one program that starts it."
        ),
        _start(
            "import",
            "Take upstreams from an `mcpServers` file into flyball.toml; exit with 1 if there are "
            "none.",
            "import_servers",
        ),
        _start("run", "Start an agent as one governed session: flyball run -- CMD ARGS."),
        _start(
            "tour", "Start a sidecar with sample upstreams, play the main job on it, keep serving."
        ),
        _watch("top", "Show live what runs, what was denied and how fast budgets are used up."),
        _watch("budgets", "List budgets with what is used, held and left."),
        _watch(
            "sessions", "List sessions, agents, tools or task classes with turns, cost and "
            "productivity.",
        ),
        _watch("calls", "List the calls that ended, how and what they cost; show one."),
        _watch(
            "export", "Write calls as JSON lines or CSV, and costs as FOCUS rows.",
        ),
        _watch("approve", "Show the calls that wait for a person; let one run, or refuse it."),
        _memory(
            "memory",
            "Search and list experiences; teach, promote, revoke, erase, export, import and check "
            "them.",
        ),
        _memory("tiers", "List the model tiers, and say which of them are worth having."),
        _memory(
            "router", "Train, list, promote and roll back the models that choose tiers for `auto`."
        ),
        _measure(
            "eval",
            "Measure Flyball's decisions: turn limits, tool search, isolation, routing, memory.",
        ),
        _measure(
            "probe",
            "Add, list and remove programs of your own that count what commands do in the kernel.",
        ),
        _measure("bench", "Time governed calls against the sidecar, or one started for it."),
        _upkeep("token", "Make, list, rotate or revoke a principal's tokens."),
        _upkeep(
            "migrate",
            "Bring the store's schema up to date: before a rollout, and with --post after it.",
        ),
        _upkeep(
            "backup",
            "Copy the store, its files and its keys into a folder, while the sidecar serves.",
        ),
        _upkeep(
            "restore",
            "Put back what `flyball backup` copied; refuses to go over a store unless told to.",
        ),
        _upkeep("completion", "Write what bash, zsh, fish or tcsh needs to complete commands."),
    )
}  # fmt: skip


def listed(columns: int) -> str:
    """Return every command with what it is for, under the names of their groups."""
    width = max(map(len, COMMANDS)) + 2
    parts = []
    for group in Group:
        members = [command for command in COMMANDS.values() if command.group is group]
        if members:
            parts.append(f"{group.value}:")
            parts += [_line(command, width=width, columns=columns) for command in members]
            parts.append("")
    return "\n".join(parts)


def meant_by(word: str, known: Sequence[str] = tuple(COMMANDS)) -> str | None:
    """Return the name that is nearest to a mistyped one, None if none is near."""
    near = difflib.get_close_matches(word, known, n=1)
    return near[0] if near else None


def _line(command: Command, *, width: int, columns: int) -> str:
    first = f"{_INDENT}{command.name:<{width}}"
    return textwrap.fill(
        command.about,
        max(columns, _WIDTH_MIN),
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_on_hyphens=False,
    )
