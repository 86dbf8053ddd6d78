"""The built-in tools of the experience memory, as the wire describes them."""

from collections.abc import Iterable, Mapping
from typing import Any

from governor.experience.kinds import ExperienceKind, TrustLane
from governor.experience.reading import TOKENS_DEFAULT, TOKENS_MAX
from governor.experience.search import LANES_ASKED, MemoryTier
from governor.experience.summary import SUMMARY_CHARS_MAX
from governor.flow.labels import Label, Role, Traits
from governor.flow.lexicon import stems
from governor.ids import ToolName
from tool_gateway.catalog import HOUSE, ToolEntry

WRITE = ToolName("memory_write")
READ = ToolName("memory_read")
SEARCH = ToolName("memory_search")
EXPAND = ToolName("memory_expand")
CONTEXT = ToolName("memory_context")
FEEDBACK = ToolName("memory_feedback")
FORGET = ToolName("memory_forget")

READ_BYTES_DEFAULT = 16_384
READ_BYTES_MAX = 1_048_576
READ_BYTES_MIN = 4  # the longest character
QUERY_CHARS_MAX = 20_000
PATTERN_CHARS_MAX = 1_000
HITS_DEFAULT = 10
HITS_MAX = 50
INDICES_MAX = 50
NEIGHBOURS_DEFAULT = 2
NEIGHBOURS_MAX = 20
TAGS_MAX = 32
NAME_CHARS_MAX = 200
MATCHES_DEFAULT = 20
MATCHES_MAX = 200

_READ_ONLY = {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}
_INDEX = {"type": "string", "minLength": 1, "maxLength": 100}
_NAME = {"type": "string", "minLength": 1, "maxLength": NAME_CHARS_MAX}
_MS = {"type": "integer", "minimum": 0, "maximum": 2**53}
_SHARE = {"type": "number", "minimum": 0, "maximum": 1}
_TOKENS = {
    "type": "integer",
    "minimum": 1,
    "maximum": TOKENS_MAX,
    "default": TOKENS_DEFAULT,
    "description": "How much the answer may add to your context; what is left out is named.",
}
_INDICES = {"type": "array", "items": _INDEX, "minItems": 1, "maxItems": INDICES_MAX}
_NAMESPACE = {
    **_NAME,
    "description": '"agent" is your own, "tenant" everybody\'s, "team/NAME" a team\'s.',
}


def _listed(words: tuple[str, ...]) -> Mapping[str, Any]:
    items = {"enum": _plain(words)}
    return {"type": "array", "items": items, "minItems": 1, "maxItems": len(words)}


def _plain(words: Iterable[str]) -> list[str]:
    """Return words as they are told to whoever uses another."""
    return [str(word) for word in words]


def _tool(
    name: ToolName,
    title: str,
    about: str,
    *,
    required: tuple[str, ...] = (),
    hints: Mapping[str, bool] = _READ_ONLY,
    **properties: Mapping[str, Any],
) -> Mapping[str, Any]:
    return {
        "name": name,
        "title": title,
        "description": about,
        "inputSchema": {
            "type": "object",
            "properties": dict(properties),
            "required": list(required),
            "additionalProperties": False,
        },
        "annotations": dict(hints),
    }


_FILTERS: Mapping[str, Mapping[str, Any]] = {
    "namespaces": {
        "type": "array",
        "items": _NAMESPACE,
        "minItems": 1,
        "maxItems": 20,
        "default": ["agent", "tenant"],
    },
    "lanes": {
        **_listed(tuple(TrustLane)),
        "default": _plain(LANES_ASKED),
        "description": 'By whom words came in. "web" is what anybody may have written.',
    },
    "kinds": _listed(tuple(ExperienceKind)),
    "actors": {"type": "array", "items": _NAME, "maxItems": 20},
    "tags": {"type": "array", "items": _NAME, "maxItems": TAGS_MAX},
    "task_class": _NAME,
    "this_session": {"type": "boolean", "default": False},
    "true_at_ms": {**_MS, "description": "Only what was true at that time."},
    "learned_from_ms": _MS,
    "learned_before_ms": {
        **_MS,
        "description": "As it was known before then: what was corrected later counts as it was.",
    },
}

_READ_DEFINITION = _tool(
    READ,
    "Read an experience or an archived result",
    "Read what is kept under an index, byte for byte: an experience (exp_…) or a result that "
    "was too large to show (arc_…). `offset` and `max_bytes` choose a range, in bytes; `grep` "
    "shows the lines that match instead.",
    required=("index",),
    index=_INDEX,
    offset={"type": "integer", "minimum": 0, "default": 0},
    max_bytes={"type": "integer", "minimum": READ_BYTES_MIN, "maximum": READ_BYTES_MAX},
    max_tokens={"type": "integer", "minimum": 1, "maximum": TOKENS_MAX},
    encoding={
        "enum": ["utf-8", "base64"],
        "default": "utf-8",
        "description": "base64 returns the exact bytes of any range.",
    },
    grep={
        "type": "string",
        "minLength": 1,
        "maxLength": PATTERN_CHARS_MAX,
        "description": "A regular expression (RE2); the lines that match are shown.",
    },
    ignore_case={"type": "boolean", "default": False},
    context_lines={"type": "integer", "minimum": 0, "maximum": 10, "default": 0},
    max_matches={
        "type": "integer",
        "minimum": 1,
        "maximum": MATCHES_MAX,
        "default": MATCHES_DEFAULT,
    },
)

_DEFINITIONS: tuple[Mapping[str, Any], ...] = (
    _tool(
        WRITE,
        "Remember something",
        "Keep an experience for later: what was seen, decided or learned, whole and unchanged. "
        "The answer has an index that reads it back. A correction names what it supersedes.",
        required=("content",),
        hints={"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False},
        content={"type": "string", "minLength": 1},
        encoding={
            "enum": ["utf-8", "base64"],
            "default": "utf-8",
            "description": "base64: `content` is base64 of the bytes to keep.",
        },
        media_type={**_NAME, "description": "Plain text if it is missing."},
        kind={"enum": _plain(ExperienceKind), "default": ExperienceKind.OBSERVATION.value},
        summary={
            "type": "string",
            "maxLength": 10 * SUMMARY_CHARS_MAX,
            "description": "What it is about, in a sentence or two; made by rule if it is missing.",
        },
        namespace={**_NAMESPACE, "default": "agent"},
        actor={**_NAME, "description": "Whose words or deeds it is about."},
        tags={"type": "array", "items": _NAME, "maxItems": TAGS_MAX},
        task_class=_NAME,
        valid_from_ms={**_MS, "description": "Since when it is true; now if it is missing."},
        valid_until_ms=_MS,
        outcome={**_SHARE, "description": "What came of it: 0 failed, 1 succeeded."},
        cost_microusd={**_MS, "description": "What it took to find out."},
        supersedes={**_INDEX, "description": "The experience that this one corrects."},
        derived_from={"type": "array", "items": _INDEX, "maxItems": INDICES_MAX},
        expires_in_s={"type": "integer", "minimum": 1, "maximum": 3_153_600_000},
    ),
    _tool(
        SEARCH,
        "Search the memory",
        "Find experiences by what they are about. The best come first, whole where they fit, else "
        "in a summary with the index that reads them.",
        required=("query",),
        query={"type": "string", "minLength": 1, "maxLength": QUERY_CHARS_MAX},
        limit={"type": "integer", "minimum": 1, "maximum": HITS_MAX, "default": HITS_DEFAULT},
        max_tokens=_TOKENS,
        tier={
            "enum": _plain(MemoryTier),
            "description": "How much effort the search may take; chosen for you if it is missing.",
        },
        **_FILTERS,
    ),
    _tool(
        EXPAND,
        "Show what is around an experience",
        "Show an experience with those before and after it in its session, and with those it was "
        "derived from.",
        required=("index",),
        index=_INDEX,
        before={"type": "integer", "minimum": 0, "maximum": NEIGHBOURS_MAX, "default": 2},
        after={"type": "integer", "minimum": 0, "maximum": NEIGHBOURS_MAX, "default": 2},
        sources={"type": "boolean", "default": True},
        max_tokens=_TOKENS,
    ),
    _tool(
        CONTEXT,
        "Show where this session stands",
        "Show a short workspace of this session: what was found out, what is open, what was done "
        "last, each with the index that reads it whole.",
        focus={
            "type": "string",
            "maxLength": QUERY_CHARS_MAX,
            "description": "What the next step is about.",
        },
        max_tokens=_TOKENS,
    ),
    _tool(
        FEEDBACK,
        "Say whether experiences helped",
        "Say of experiences that you were shown whether you used them and whether they helped. "
        "What helps is found more easily later.",
        required=("indices",),
        hints={"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False},
        indices=_INDICES,
        used={**_SHARE, "default": 1, "description": "0 not at all, 1 it was needed."},
        helpful={**_SHARE, "description": "0 it misled, 1 it helped."},
    ),
    _tool(
        FORGET,
        "Erase experiences",
        "Erase for good what you wrote yourself, with everything that was derived from it.",
        required=("indices",),
        hints={"readOnlyHint": False, "destructiveHint": True, "openWorldHint": False},
        indices=_INDICES,
    ),
)

_SHOWN = frozenset({Label.READS_PRIVATE, Label.SEES_UNTRUSTED})
# Results that were put away can be what others wrote, in a session that is over. What searches
# show of such is marked by whoever shows it, experience by experience.
_READS = Traits(
    labels=_SHOWN, why=dict.fromkeys(_SHOWN, "it brings back what any tool has answered")
)
_FINDS = Traits(
    labels=frozenset({Label.READS_PRIVATE}),
    why={Label.READS_PRIVATE: "it brings back what its agent has seen"},
)
_KEEPS = Traits(labels=frozenset())
_ERASES = Traits(
    labels=frozenset({Label.CHANGES}),
    why={Label.CHANGES: "what it erases is gone"},
    wishes=stems(frozenset({"forget", "erase", "delete", "remove"})),
    roles={"indices": Role.HANDLE},
)
_TRAITS = {READ: _READS, WRITE: _KEEPS, FEEDBACK: _KEEPS, FORGET: _ERASES}
# What is erased should be nowhere, the records of calls included.
_UNRECORDED = frozenset({"content", "summary", "actor", "actors", "tags", "query", "focus", "grep"})


def _entry(definition: Mapping[str, Any]) -> ToolEntry:
    name = ToolName(definition["name"])
    return ToolEntry(
        exposed=name,
        original=name,
        backend=HOUSE,
        is_bounded=True,
        definition=definition,
        traits=_TRAITS.get(name, _FINDS),
        unrecorded=_UNRECORDED,
    )


# Reads archived results too, so that it is there where nothing else is remembered.
READ_ENTRY = _entry(_READ_DEFINITION)
ENTRIES = tuple(map(_entry, _DEFINITIONS))
NAMES = frozenset(entry.exposed for entry in (READ_ENTRY, *ENTRIES))
