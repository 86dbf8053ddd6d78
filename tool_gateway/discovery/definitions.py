"""The built-in tools by which a model finds tools that its list does not show."""

from collections.abc import Mapping
from typing import Any

from governor.ids import ToolName

SEARCH = ToolName("tools_search")
DESCRIBE = ToolName("tools_describe")
CALL = ToolName("tools_call")
NAMES = (SEARCH, DESCRIBE, CALL)

QUERY_CHARS_MAX = 1_000
LIMIT_DEFAULT = 5
LIMIT_MAX = 20
DESCRIBED_MAX = 10
_NAME = {"type": "string", "minLength": 1, "maxLength": 100}
_READ_ONLY = {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}

DEFINITIONS: tuple[Mapping[str, Any], ...] = (
    {
        "name": SEARCH,
        "title": "Find tools",
        "description": (
            "Find tools by what they do. There may be more tools than the list shows: say in a "
            "few words what you want to do, and get the names of the tools that do it."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": QUERY_CHARS_MAX,
                    "description": 'One step, such as "convert a document to PDF".',
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": LIMIT_MAX,
                    "default": LIMIT_DEFAULT,
                },
            },
            "required": ["query"],
            "additionalProperties": False,
        },
        "annotations": _READ_ONLY,
    },
    {
        "name": DESCRIBE,
        "title": "Describe tools",
        "description": "Show the full definitions of tools by name, with their arguments.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "names": {
                    "type": "array",
                    "items": _NAME,
                    "minItems": 1,
                    "maxItems": DESCRIBED_MAX,
                }
            },
            "required": ["names"],
            "additionalProperties": False,
        },
        "annotations": _READ_ONLY,
    },
    {
        "name": CALL,
        "title": "Call a tool by name",
        "description": (
            "Call a tool that the list does not show. The call is checked, charged and recorded "
            "as if the tool had been called by itself."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": {**_NAME, "description": "A name that tools_search found."},
                "arguments": {
                    "type": "object",
                    "description": "As tools_describe shows them.",
                    "default": {},
                },
            },
            "required": ["name"],
            "additionalProperties": False,
        },
        "annotations": {"openWorldHint": True},
    },
)
