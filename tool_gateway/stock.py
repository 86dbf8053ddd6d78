"""The catalogue in force, with its compiled schemas, swapped whole."""

import logging
from collections.abc import Iterable

from tool_gateway.catalog import Catalog, ToolEntry
from tool_gateway.errors import CatalogError
from tool_gateway.schemas import ArgumentSchemas

logger = logging.getLogger(__name__)


class Stock:
    """What is exposed now: the built-in tools and those of the upstreams."""

    def __init__(self, builtins: Iterable[ToolEntry]) -> None:
        """Start with the built-in tools alone."""
        self._builtins = tuple(builtins)
        self.catalog = Catalog(self._builtins)
        self.schemas = ArgumentSchemas(self.catalog)

    def replace(self, entries: Iterable[ToolEntry]) -> None:
        """Expose `entries` beside the built-in tools.

        A name that two tools would share is given to neither of them: the first would
        otherwise get calls that were meant for the second.
        """
        wanted = [*self._builtins, *entries]
        try:
            catalog = Catalog(wanted)
        except CatalogError as error:
            logger.error("%s; the tools of that name are left out", error)  # noqa: TRY400
            seen: dict[str, int] = {}
            for entry in wanted:
                seen[entry.exposed] = seen.get(entry.exposed, 0) + 1
            catalog = Catalog(entry for entry in wanted if seen[entry.exposed] == 1)
        self.catalog = catalog
        self.schemas = ArgumentSchemas(catalog)
        for fault in self.schemas.faults:
            logger.warning("%s declares a malformed schema: %s", fault.tool, fault.problem)
