"""The tools that run local commands, as this sidecar's configuration has them."""

from collections.abc import Callable

from governor.call import ToolCall
from governor.fairness.claim import Priority
from runtime.configuration.model import Config
from runtime.configuration.translate import python_of
from runtime.local_commands import LocalCommands
from runtime.settings import command_environment
from tool_gateway.shell import Shell


def local_tools(
    config: Config, local: LocalCommands, priority_of: Callable[[ToolCall], Priority]
) -> Shell:
    """Return what runs `shell_run` and `python_run`, for calls with these priorities."""
    return Shell(
        runner=local,
        environment=local.reached_by(command_environment()),
        python=python_of(config),
        priority_of=priority_of,
    )
