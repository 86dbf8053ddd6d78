"""What plug-ins that the file names become in a sidecar."""

import logging
from collections.abc import Sequence

from runtime.configuration.flow import flow_approval_of
from runtime.configuration.model import Config
from runtime.notifying import notice_json
from runtime.plugins.loading import Group, Plugin, load_plugins
from runtime.plugins.notifying import PluggedNotifier
from runtime.plugins.outside import PluggedOutside, Terms
from tool_gateway.ports import Clock

logger = logging.getLogger(__name__)


def outside_of(config: Config, clock: Clock) -> PluggedOutside | None:
    """Return who is asked about calls beside the house, None where nobody is.

    Raises:
        ConfigError: a name stands for nothing that is installed.
    """
    plugins = _loaded(config, Group.GUARD, Group.ESTIMATOR)
    if not plugins:
        return None
    terms = Terms(
        timeout_ms=config.plugins.timeout_ms,
        failing_denies=config.plugins.guard_failure == "deny",
        approval=flow_approval_of(config.flow),
    )
    return PluggedOutside(plugins, terms, clock=clock)


def plugged_notifiers_of(
    config: Config, clock: Clock, *, is_keeper: bool
) -> tuple[PluggedNotifier, ...]:
    """Return the plug-ins that are told of notices, by the one process that tells them.

    Raises:
        ConfigError: a name stands for nothing that is installed.
    """
    return tuple(
        PluggedNotifier(plugin, shown=notice_json, clock=clock)
        for plugin in (_loaded(config, Group.NOTIFIER) if is_keeper else ())
    )


def _loaded(config: Config, *groups: Group) -> Sequence[Plugin]:
    table = config.plugins
    plugins = load_plugins(table.enabled, table.settings, groups=groups)
    for plugin in plugins:
        if plugin.fault:
            logger.error(
                "the %s %s of %s could not be loaded: %s",
                plugin.group.word,
                plugin.name,
                plugin.package,
                plugin.fault,
            )
    return plugins
