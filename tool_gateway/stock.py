"""The catalogue in force, with its compiled schemas, swapped whole."""

import logging
from collections import Counter
from collections.abc import Iterable

from tool_gateway.catalog import Catalog, ToolEntry
from tool_gateway.errors import CatalogError
from tool_gateway.schemas import SchemaFault, ToolSchemas
from tool_gateway.telemetry import count_schema_fault

logger = logging.getLogger(__name__)


class Stock:
    """What is exposed now: the built-in tools and those of the upstreams."""

    def __init__(self, builtins: Iterable[ToolEntry], *, reserved: Iterable[str] = ()) -> None:
        """Start with the built-in tools alone; no upstream can take a `reserved` name either."""
        self._builtins = tuple(builtins)
        self._reserved = frozenset(reserved)
        self._entries: tuple[ToolEntry, ...] = ()
        self.catalog = Catalog(self._builtins)
        self.schemas = ToolSchemas(self.catalog)
        self._told: frozenset[SchemaFault] = frozenset()

    @property
    def has_builtins(self) -> bool:
        """Tell whether any tool of the house itself is exposed."""
        return bool(self._builtins)

    def keep(self, builtins: Iterable[ToolEntry]) -> None:
        """Have these built-in tools from now on, beside what is exposed anyway."""
        wanted = tuple(builtins)
        if wanted != self._builtins:
            self._builtins = wanted
            self.replace(self._entries)

    def replace(self, entries: Iterable[ToolEntry]) -> None:
        """Expose `entries` beside the built-in tools, whose names no upstream can take.

        Nor can it take those of built-in tools that are not shown: they are known by their names.
        A name that two upstreams' tools would share is given to neither of them: the first
        would otherwise get calls that were meant for the second.
        """
        taken = self._reserved.union(entry.exposed for entry in self._builtins)
        offered = []
        self._entries = tuple(entries)
        for entry in self._entries:
            if entry.exposed in taken:
                logger.error("%s/%s has a built-in tool's name", entry.backend, entry.original)
            else:
                offered.append(entry)
        wanted = [*self._builtins, *offered]
        try:
            catalog = Catalog(wanted)
        except CatalogError as error:
            logger.error("%s; the tools of that name are left out", error)  # noqa: TRY400
            seen = Counter(entry.exposed for entry in wanted)
            catalog = Catalog(entry for entry in wanted if seen[entry.exposed] == 1)
        self.catalog = catalog
        self.schemas = ToolSchemas(catalog)
        found = frozenset(self.schemas.faults)
        for fault in found - self._told:
            count_schema_fault(backend=fault.upstream, which=fault.which)
            logger.warning("%s: its %s schema: %s", fault.tool, fault.which, fault.why)
        self._told = found
