"""Notifiers of plug-ins, as receivers of notices beside webhooks."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from memory_store.notices import NoticeView
from runtime.plugins.failing import Contained, PluginError
from runtime.plugins.loading import Plugin
from runtime.plugins.protocols import Notifier
from tool_gateway.ports import Clock

# Nobody waits for it: only the next notices of the same notifier do.
SECONDS_MAX = 30
_NAME_CHARS_MAX = 64


class PluggedNotifier:
    """A plug-in that is told of notices; what it does not take is brought again."""

    def __init__(
        self, plugin: Plugin, *, shown: Callable[[NoticeView], Mapping[str, Any]], clock: Clock
    ) -> None:
        """Take the plug-in, and how a notice is shown to strangers."""
        self.name = f"plugin:{plugin.name}"[:_NAME_CHARS_MAX]
        self._plugin = plugin
        self._shown = shown
        self._contained = Contained(plugin.name, timeout_ms=SECONDS_MAX * 1000, clock=clock)

    def wants(self, kind: str) -> bool:
        """Tell that notices of every kind are for it: it can pass them over."""
        return True

    async def deliver(self, notices: Sequence[NoticeView]) -> None:
        """Have it take all of these.

        Raises:
            PluginError: it did not.
        """
        if self._plugin.fault:
            raise PluginError(f"it could not be loaded ({self._plugin.fault})")
        notifier: Notifier = self._plugin.made
        told = [self._shown(notice) for notice in notices]
        await self._contained.answer(partial(notifier.notify, told))
