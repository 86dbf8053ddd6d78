"""Which tools are exposed, and under which names."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b

from governor.flow.labels import Traits
from governor.ids import ToolName, UpstreamName
from tool_gateway.errors import CatalogError, UnknownToolError
from tool_gateway.results import Json

NAME_LENGTH_MAX = 64
SEPARATOR = "__"
# Whose the tools of the house itself are.
HOUSE = UpstreamName("flyball")
_ALLOWED = re.compile(r"[A-Za-z0-9_-]{1,64}")
_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")
_HASH_CHARS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEntry:
    """One exposed tool.

    `original` is the name that its backend knows; `definition` is the tool as the wire
    describes it, under its original name. The answer of a bounded tool is limited by its
    own arguments and is never archived. `about` is what its server says of itself. `traits` are
    what it can do to information where that need not be told from its description. What
    `is_approved` has the definition that was approved for it; what `is_kept_out` waits for that.
    `unrecorded` are the arguments of which no record keeps a word, because what they say is kept
    where it can be erased.
    """

    exposed: ToolName
    original: str
    backend: UpstreamName
    definition: Json
    is_bounded: bool = False
    about: str = ""
    traits: Traits | None = None
    is_approved: bool = False
    is_kept_out: bool = False
    unrecorded: frozenset[str] = frozenset()

    @property
    def input_schema(self) -> Json:
        """Return the schema of the arguments."""
        schema = self.definition.get("inputSchema")
        return schema if isinstance(schema, Mapping) else {"type": "object"}

    @property
    def is_repeatable(self) -> bool:
        """Tell whether the tool says that to run it twice is to run it once, and was approved so.

        A server that nobody has looked at is not taken at its word.
        """
        hints = self.definition.get("annotations")
        return (
            self.is_approved
            and isinstance(hints, Mapping)
            and (hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True)
        )

    @property
    def is_own(self) -> bool:
        """Tell whether the house itself answers."""
        return self.backend == HOUSE

    @property
    def is_tool(self) -> bool:
        """Tell whether this is a tool; another request goes by its method, which has a stroke."""
        return "/" not in self.exposed

    @property
    def has_output_schema(self) -> bool:
        """Tell whether clients will validate the structured content."""
        return "outputSchema" in self.definition


class Catalog:
    """The tools in force: an immutable snapshot, swapped whole when an upstream changes."""

    def __init__(self, entries: Iterable[ToolEntry] = ()) -> None:
        """Index `entries` by their exposed names.

        Raises:
            CatalogError: two entries have the same exposed name.
        """
        self._by_name: dict[str, ToolEntry] = {}
        for entry in entries:
            other = self._by_name.get(entry.exposed)
            if other is not None:
                message = (
                    f"{entry.exposed!r} would name both {entry.backend}/{entry.original} and "
                    f"{other.backend}/{other.original}: rename an upstream or give it a prefix"
                )
                raise CatalogError(message)
            self._by_name[entry.exposed] = entry

    def __iter__(self) -> Iterator[ToolEntry]:
        """Yield the entries in the order of their names, which is stable between calls."""
        return iter(sorted(self._by_name.values(), key=lambda entry: entry.exposed))

    def __len__(self) -> int:
        """Return how many tools are exposed."""
        return len(self._by_name)

    def __contains__(self, name: object) -> bool:
        """Tell whether a tool of that name is exposed."""
        return name in self._by_name

    def find(self, name: str) -> ToolEntry:
        """Return the entry of an exposed name.

        Raises:
            UnknownToolError: no tool has that name.
        """
        try:
            return self._by_name[name]
        except KeyError:
            message = f"unknown tool {name!r:.100}; call tools/list for the names that exist"
            raise UnknownToolError(message) from None


def can_be_exposed(name: str) -> bool:
    """Tell whether a tool can be shown to clients under a name."""
    return _ALLOWED.fullmatch(name) is not None


def exposed_name(upstream: UpstreamName, tool: str, *, prefixed: bool = True) -> ToolName:
    """Return the name that clients see: `server__tool`, at most 64 safe characters.

    A name that had to be changed ends in a hash of the true one, so that it is stable and
    two long names that begin alike stay apart.
    """
    true_name = f"{upstream}{SEPARATOR}{tool}" if prefixed else tool
    if _ALLOWED.fullmatch(true_name):
        return ToolName(true_name)
    digest = blake2b(true_name.encode(), digest_size=_HASH_CHARS // 2).hexdigest()
    safe = _FORBIDDEN.sub("_", true_name)[: NAME_LENGTH_MAX - _HASH_CHARS - 1]
    return ToolName(f"{safe}_{digest}")
