"""The words of a tool, field by field, as its definition and its server give them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tool_gateway.catalog import ToolEntry

_DEPTH_MAX = 4
_PROPERTIES_MAX = 200
_CHOICES_MAX = 20
_SENTENCE_END = re.compile(r"[.!?](\s|$)|。|\n\s*\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolText:
    """What is written about one tool; `server` names its server, `about` is that one's own text."""

    name: str
    description: str
    server: str
    about: str = ""
    schema: Mapping[str, object]

    def fields(self) -> dict[str, str]:
        """Return the texts by field; the first sentence of a description says what it does."""
        lead, rest = _lead_of(self.description)
        names, words = [], []
        for name, said in _parameters(self.schema, 0):
            names.append(name)
            words.extend(said)
        return {
            "name": self.name,
            "lead": lead,
            "rest": rest,
            "server": self.server,
            "about": self.about,
            "parameters": " ".join(names),
            "parameter_words": " ".join(words),
        }


def text_of(entry: ToolEntry) -> ToolText:
    """Return the text of an exposed tool, under the name that its server gave it."""
    told = (entry.definition.get("title"), entry.definition.get("description"))
    return ToolText(
        name=entry.original,
        description=". ".join(part for part in told if isinstance(part, str)),
        server=entry.backend,
        about=entry.about,
        schema=entry.input_schema,
    )


def lead_of(description: str) -> str:
    """Return the first sentence."""
    return _lead_of(description)[0]


def _lead_of(description: str) -> tuple[str, str]:
    description = description.strip()
    match = _SENTENCE_END.search(description)
    end = len(description) if match is None else match.end()
    return description[:end].strip(), description[end:]


def _parameters(schema: object, depth: int) -> Iterator[tuple[str, list[str]]]:
    """Yield each parameter's name and words, those of nested objects too, within bounds.

    A schema is a stranger's: whatever has not the shape that it should have is passed over.
    """
    if not isinstance(schema, Mapping) or depth > _DEPTH_MAX:
        return
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        for name, shape in list(properties.items())[:_PROPERTIES_MAX]:
            yield str(name), _words_of(shape)
            yield from _parameters(shape, depth + 1)
    items = schema.get("items")
    if items is not None:
        yield from _parameters(items, depth + 1)


def _words_of(shape: object) -> list[str]:
    if not isinstance(shape, Mapping):
        return []
    choices = shape.get("enum")
    said = [
        shape.get("description"),
        *(choices[:_CHOICES_MAX] if isinstance(choices, list) else ()),
    ]
    return [part for part in said if isinstance(part, str)]
