"""What the arguments of the memory's tools ask for; the schemas have checked them before."""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass

from governor.call import ToolCall
from governor.experience.kinds import ExperienceKind, TrustLane
from governor.experience.reading import TOKENS_DEFAULT, TOKENS_MAX
from governor.experience.search import Filters, MemoryTier
from governor.ids import ArchiveId, ExperienceId, TaskClass
from tool_gateway.errors import MemoryRefusedError
from tool_gateway.memory.definitions import (
    CONTEXT,
    EXPAND,
    HITS_DEFAULT,
    MATCHES_DEFAULT,
    NEIGHBOURS_DEFAULT,
    READ,
    READ_BYTES_DEFAULT,
    READ_BYTES_MAX,
    SEARCH,
)
from tool_gateway.memory.ports import AroundAsked, SearchAsked, WriteAsked

EXPERIENCE_PREFIX = "exp_"
ARCHIVE_PREFIX = "arc_"
_Arguments = Mapping[str, object]
_SHOWING = frozenset({SEARCH, EXPAND, CONTEXT})
# It is shown where nothing quotes it, and stands in a header.
_NAME_PART = r"[A-Za-z0-9!#$&^_.+-]{1,60}"
_MEDIA_TYPE = re.compile(rf"{_NAME_PART}/{_NAME_PART}(;[ -~]{{0,100}})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBounds:
    """How much a read may show: bytes of the content, and tokens of what is shown of it.

    No bound on the tokens is one of an archived result, whose range is chosen by its bytes. One
    that `is_exact` shows base64, and one that `is_as_bytes` hands the bytes to their reader.
    """

    bytes_max: int
    tokens_max: int | None
    is_exact: bool = False
    is_as_bytes: bool = False

    @property
    def tokens_held(self) -> int:
        """Return what is held for it: no text has more tokens than characters."""
        is_longer = self.is_exact and not self.is_as_bytes
        by_bytes = _base64_chars(self.bytes_max) if is_longer else self.bytes_max
        return by_bytes if self.tokens_max is None else min(self.tokens_max, by_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrepAsked:
    """Which lines of a content are to be shown."""

    pattern: str
    ignores_case: bool
    context_lines: int
    most: int


def shows_no_archive(call: ToolCall) -> bool:
    """Tell whether a call reads no archived result: an experience, or what there cannot be."""
    index = str(call.arguments.get("index", ""))
    return call.tool == READ and not index.startswith(ARCHIVE_PREFIX)


def archive_asked(call: ToolCall) -> ArchiveId | None:
    """Return the index of the archived result that a call reads, None where it reads none."""
    index = str(call.arguments.get("index", ""))
    is_archived = call.tool == READ and index.startswith(ARCHIVE_PREFIX)
    return ArchiveId(index) if is_archived else None


def shows_experiences(tool: str, arguments: _Arguments) -> bool:
    """Tell whether a call shows what is kept as experiences.

    Of such an answer no second copy is kept: it would outlive what is erased or taken away.
    """
    return tool in _SHOWING or (tool == READ and _names_experience(arguments))


def read_bounds(asked: _Arguments, *, takes_bytes: bool = False) -> ReadBounds:
    """Return how much a `memory_read` may show.

    What is said counts. Without a word an experience is shown in the tokens of every reading,
    an archived result in the bytes that it always was.
    """
    said_bytes, said_tokens = "max_bytes" in asked, "max_tokens" in asked
    is_experience = _names_experience(asked)
    # Lines that match are no range: their bytes bound nothing of what is shown of them.
    by_tokens = said_tokens or "grep" in asked or (not said_bytes and is_experience)
    bytes_max = READ_BYTES_MAX if by_tokens and not said_bytes else READ_BYTES_DEFAULT
    tokens = min(integer(asked, "max_tokens", TOKENS_DEFAULT), TOKENS_MAX)
    return ReadBounds(
        bytes_max=integer(asked, "max_bytes", bytes_max),
        tokens_max=tokens if by_tokens else None,
        is_exact=asked.get("encoding") == "base64" and "grep" not in asked,
        is_as_bytes=takes_bytes and "grep" not in asked,
    )


def grep_asked(asked: _Arguments) -> GrepAsked | None:
    """Return which lines are asked for, None where it is a range."""
    if "grep" not in asked:
        return None
    return GrepAsked(
        pattern=str(asked["grep"]),
        ignores_case=asked.get("ignore_case") is True,
        context_lines=integer(asked, "context_lines", 0),
        most=integer(asked, "max_matches", MATCHES_DEFAULT),
    )


def write_asked(asked: _Arguments) -> WriteAsked:
    """Return what a `memory_write` wants kept.

    Raises:
        MemoryRefusedError: the content is not what its encoding says, or a name is no line.
    """
    tags = texts(asked, "tags")
    for name in (*tags, *(str(asked.get(key, "")) for key in ("actor", "task_class"))):
        _check_line(name)
    task_class = asked.get("task_class")
    supersedes = asked.get("supersedes")
    return WriteAsked(
        content=_content_of(asked),
        media_type=_checked_media_type(asked),
        kind=ExperienceKind(str(asked.get("kind", ExperienceKind.OBSERVATION))),
        namespace=str(asked.get("namespace", "agent")),
        summary=str(asked.get("summary", "")),
        actor=str(asked.get("actor", "")),
        tags=tuple(dict.fromkeys(tags)),
        task_class=None if task_class is None else TaskClass(str(task_class)),
        valid_from_ms=_integer_or_none(asked, "valid_from_ms"),
        valid_until_ms=_integer_or_none(asked, "valid_until_ms"),
        outcome=share(asked, "outcome"),
        cost_microusd=_integer_or_none(asked, "cost_microusd"),
        supersedes=None if supersedes is None else ExperienceId(str(supersedes)),
        derived_from=indices(asked, "derived_from"),
        expires_in_s=_integer_or_none(asked, "expires_in_s"),
    )


def search_asked(asked: _Arguments) -> SearchAsked:
    """Return what a `memory_search` looks for; no lanes are those that a session is shown."""
    tier, task_class = asked.get("tier"), asked.get("task_class")
    lanes = tuple(TrustLane(lane) for lane in texts(asked, "lanes"))
    return SearchAsked(
        text=str(asked["query"]),
        filters=Filters(
            lanes=lanes,
            kinds=tuple(ExperienceKind(kind) for kind in texts(asked, "kinds")),
            actors=texts(asked, "actors"),
            task_class=None if task_class is None else TaskClass(str(task_class)),
            tags=texts(asked, "tags"),
            at_ms=_integer_or_none(asked, "true_at_ms"),
            learned_from_ms=_integer_or_none(asked, "learned_from_ms"),
            learned_before_ms=_integer_or_none(asked, "learned_before_ms"),
        ),
        tokens_max=tokens_max(asked),
        most=integer(asked, "limit", HITS_DEFAULT),
        namespaces=tuple(dict.fromkeys(texts(asked, "namespaces"))),
        tier=None if tier is None else MemoryTier(str(tier)),
        is_of_this_session=asked.get("this_session") is True,
    )


def around_asked(asked: _Arguments) -> AroundAsked:
    """Return what a `memory_expand` wants to see."""
    return AroundAsked(
        index=ExperienceId(str(asked["index"])),
        before=integer(asked, "before", NEIGHBOURS_DEFAULT),
        after=integer(asked, "after", NEIGHBOURS_DEFAULT),
        sources=asked.get("sources", True) is True,
        tokens_max=tokens_max(asked),
    )


def tokens_max(asked: _Arguments) -> int:
    """Return how many tokens an answer may have."""
    return integer(asked, "max_tokens", TOKENS_DEFAULT)


def indices(asked: _Arguments, name: str) -> tuple[ExperienceId, ...]:
    """Return the indices of a list, each once."""
    return tuple(dict.fromkeys(map(ExperienceId, texts(asked, name))))


def texts(asked: _Arguments, name: str) -> tuple[str, ...]:
    """Return a list of words, none where it is missing."""
    found = asked.get(name)
    return tuple(map(str, found)) if isinstance(found, (list, tuple)) else ()


def integer(asked: _Arguments, name: str, default: int) -> int:
    """Return an argument that the schema calls an integer; to JSON Schema 2.0 is one too."""
    value = asked.get(name, default)
    return int(value) if isinstance(value, (int, float)) else default


def share(asked: _Arguments, name: str) -> float | None:
    """Return a number from 0 to 1, None where it is missing."""
    value = asked.get(name)
    return float(value) if isinstance(value, (int, float)) else None


def _base64_chars(size_bytes: int) -> int:
    return -(-size_bytes // 3) * 4


def _names_experience(asked: _Arguments) -> bool:
    return str(asked.get("index", "")).startswith(EXPERIENCE_PREFIX)


def _integer_or_none(asked: _Arguments, name: str) -> int | None:
    return integer(asked, name, 0) if asked.get(name) is not None else None


def _content_of(asked: _Arguments) -> bytes:
    content = str(asked["content"])
    if asked.get("encoding") != "base64":
        return content.encode()
    try:
        decoded = base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError) as error:
        message = f'content: it is no base64 ({error}); send text with "encoding": "utf-8"'
        raise MemoryRefusedError(message) from error
    if not decoded:
        raise MemoryRefusedError("content: there is nothing in it to keep")
    return decoded


def _checked_media_type(asked: _Arguments) -> str:
    is_text = asked.get("encoding") != "base64"
    usual = "text/plain; charset=utf-8" if is_text else "application/octet-stream"
    given = str(asked.get("media_type", usual))
    if _MEDIA_TYPE.fullmatch(given) is None:
        message = f"media_type: {given!r:.100} is none; name one such as text/markdown"
        raise MemoryRefusedError(message)
    return given


def _check_line(name: str) -> None:
    if not name.isprintable():
        raise MemoryRefusedError(f"{name!r:.100} holds what cannot be printed; leave that out")
