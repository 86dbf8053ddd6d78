"""What upstreams offer besides tools, merged: which name or URI belongs to which upstream."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from governor.ids import UpstreamName
from tool_gateway.catalog import SEPARATOR, exposed_name
from tool_gateway.results import Json

# A pattern is made from what an upstream sent: long ones are compared as they stand.
_TEMPLATE_CHARS_MAX = 1_000
_VARIABLE = re.compile(r"\{([+#./;?&]?)[^{}]*\}")
# What each kind of variable may stand for: RFC 6570, as far as telling one template from
# another needs it.
_STANDS_FOR = {"": r"[^/?#]+", "+": r".+", "#": r".*", "?": r".*", "&": r".*"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Collision:
    """A name or URI that a second upstream offers too; the first one in the file has it."""

    key: str
    kept: UpstreamName
    dropped: UpstreamName


@dataclass(slots=True)
class Offers:
    """What was offered when it was last listed, in the order of the configuration.

    `owners` tells whose each URI is, `templates` whose those that match a template are, and
    `prompts` which prompt an exposed name stands for.
    """

    owners: dict[str, UpstreamName] = field(default_factory=dict)
    templates: dict[str, UpstreamName] = field(default_factory=dict)
    prompts: dict[str, tuple[UpstreamName, str]] = field(default_factory=dict)

    def owner_of(self, uri: str) -> UpstreamName | None:
        """Return whose a URI is: listed as it stands, else by the first template it matches."""
        found = self.owners.get(uri) or self.templates.get(uri)
        if found is not None:
            return found
        for template, owner in self.templates.items():
            if _pattern_of(template).fullmatch(uri):
                return owner
        return None

    def has_listed(self, uri: str) -> bool:
        """Tell whether an upstream listed just this URI."""
        return uri in self.owners

    def merge_resources(
        self, listed: Iterable[tuple[UpstreamName, Iterable[Json]]], *, key: str
    ) -> tuple[list[tuple[UpstreamName, Json]], list[Collision]]:
        """Return every upstream's resources, or templates, as one list; `key` names their URI."""
        known = self.owners if key == "uri" else self.templates
        known.clear()
        merged: list[tuple[UpstreamName, Json]] = []
        collisions: list[Collision] = []
        for upstream, items in listed:
            for item in items:
                uri = str(item.get(key))
                owner = known.setdefault(uri, upstream)
                if owner == upstream:
                    merged.append((upstream, item))
                else:
                    collisions.append(Collision(key=uri, kept=owner, dropped=upstream))
        return merged, collisions

    def merge_prompts(
        self, listed: Iterable[tuple[UpstreamName, Iterable[Json]]]
    ) -> tuple[list[tuple[UpstreamName, Json]], list[Collision]]:
        """Return every upstream's prompts as one list, under the names that clients see."""
        self.prompts.clear()
        merged: list[tuple[UpstreamName, Json]] = []
        collisions: list[Collision] = []
        for upstream, items in listed:
            for item in items:
                original = str(item.get("name"))
                exposed = str(exposed_name(upstream, original))
                owner, _ = self.prompts.setdefault(exposed, (upstream, original))
                if owner == upstream:
                    merged.append((upstream, {**item, "name": exposed}))
                else:
                    collisions.append(Collision(key=exposed, kept=owner, dropped=upstream))
        return merged, collisions

    def prompt_of(
        self, name: str, upstreams: Iterable[UpstreamName]
    ) -> tuple[UpstreamName, str] | None:
        """Return which upstream's prompt an exposed name stands for.

        A name that was not listed yet says so itself, unless it had to be changed.
        """
        if name in self.prompts:
            return self.prompts[name]
        for upstream in upstreams:
            prefix = f"{upstream}{SEPARATOR}"
            if name.startswith(prefix):
                return upstream, name.removeprefix(prefix)
        return None


@lru_cache(maxsize=1_024)
def _pattern_of(template: str) -> re.Pattern[str]:
    """Return what the URIs of a template look like."""
    if len(template) > _TEMPLATE_CHARS_MAX:
        return re.compile(re.escape(template))
    parts, at = [], 0
    for variable in _VARIABLE.finditer(template):
        parts.append(re.escape(template[at : variable.start()]))
        parts.append(_STANDS_FOR.get(variable[1], r"[^?#]*"))
        at = variable.end()
    return re.compile("".join(parts) + re.escape(template[at:]))


def merged_face(capabilities: Iterable[Json]) -> dict[str, object]:
    """Return what a server that offers all of this together can do."""
    extensions: dict[str, object] = {}
    for one in capabilities:
        found = one.get("extensions")
        if isinstance(found, Mapping):
            extensions.update(found)
    merged: dict[str, object] = {
        "tools": {"listChanged": True},
        "prompts": {"listChanged": True},
        "resources": {"listChanged": True, "subscribe": True},
        "completions": {},
        "logging": {},
    }
    return {**merged, "extensions": extensions} if extensions else merged
