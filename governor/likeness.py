"""When two calls, or two results, say the same: canonical, masked and compared.

What changes by itself (a timestamp, a request's id, the name of a temporary file, "attempt 3")
must not make a repeated call look new; what an agent chose or a tool found must. So numbers
stay: a cursor that moves, a count of failing tests that falls, is progress.
"""

import json
import re
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise

# At least this share of the words, taken two by two, in both calls: about one word in twenty.
ALIKE_MIN = 0.8
# The smallest hashes of a text's pairs stand for all of them; below so many they are all of them.
SKETCH_MAX = 64
# So much of a text is read word by word, which takes well below a millisecond; the rest counts
# by its hash.
_CHARS_READ = 4_096
_JSON_CHARS_MAX = 32_768
_DIGEST_BYTES = 16
_HASH_BYTES = 4
_DEPTH_MAX = 32

# Fields that differ between any two calls, in what is asked and in what is answered.
_VOLATILE_KEY = re.compile(
    r"(request|req|trace|span|correlation|transaction)[_-]?id|nonce|idempotency[_-]?key|_meta"
    r"|timestamp|ts|now|(server|current)[_-]?time|elapsed(_\w+)?|took(_\w+)?|latency(_\w+)?"
    r"|duration(_\w+)?|attempt|retries|seq(uence)?",
    re.IGNORECASE,
)
_MASK = "\u2026"


@dataclass(frozen=True, slots=True)
class _Mask:
    """What changes by itself; any such text holds its trace, in lower case."""

    pattern: re.Pattern[str]
    trace: re.Pattern[str]


def _any_of(*words: str) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, words)))


_TEMPORARY = _Mask(
    re.compile(r"(/tmp|/var/tmp|/var/folders|[A-Z]:\\Temp)[/\\][^\s\"',;:)\]}]+|\btmp\w{6,}"),
    _any_of("tmp", "/var/folders", "\\temp"),
)
_COUNTERS = _Mask(
    re.compile(
        r"\b(attempt|retry|try|request|iteration|invocation|sequence|seq)(\s?(no\.?|number|id))?"
        r"\s?[#:=]?\s?\d+\b",
        re.IGNORECASE,
    ),
    _any_of("attempt", "try", "request", "iteration", "invocation", "seq"),
)
_REQUESTS = _Mask(
    re.compile(r"\b(req|request|trace|span)_[A-Za-z0-9]{6,}\b", re.IGNORECASE),
    _any_of("req_", "request_", "trace_", "span_"),
)
_EPOCHS = _Mask(re.compile(r"\b1[5-9]\d{8}(\d{3}|\d{6}|\.\d+)?\b"), re.compile("1[5-9]"))
_CLOCKS = _Mask(
    re.compile(
        r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?([.,]\d+)?(Z|[+-]\d\d:?\d\d)?"
        r"|\b\d\d:\d\d:\d\d([.,]\d+)?\b"
    ),
    _any_of(":"),
)
_SPANS = _Mask(
    re.compile(r"\b\d+([.,]\d+)?\s?(ns|us|\u00b5s|ms|s|sec|secs|seconds|minutes)\b"),
    _any_of("s"),
)
_IDS = _Mask(
    re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE),
    _any_of("-"),
)
# A date or an id that is asked for is what the call is about; one that is answered may not be.
_IN_CALLS = (_TEMPORARY, _COUNTERS, _REQUESTS, _EPOCHS)
_IN_RESULTS = (*_IN_CALLS, _CLOCKS, _SPANS)
_IN_READINGS = (*_IN_RESULTS, _IDS)
_WORD = re.compile(r"\w+")
_canonical = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str
).encode
# The last calls of a session are compared with each that follows them.
_SKETCHES_READ = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Print:
    """What identifies a call: as it was asked, as it reads, and a sketch of its words."""

    tool: str
    exact: bytes
    loose: bytes
    sketch: bytes

    def is_same(self, other: "Print") -> bool:
        """Tell whether both ask the same, volatile fields aside."""
        return self.tool == other.tool and self.exact == other.exact

    def is_alike(self, other: "Print") -> bool:
        """Tell whether both ask nearly the same of the same tool."""
        if self.tool != other.tool:
            return False
        return self.loose == other.loose or likeness(self.sketch, other.sketch) >= ALIKE_MIN


def print_of_call(tool: str, arguments: Mapping[str, object]) -> Print:
    """Return the print of a call; the order of its arguments is not part of it."""
    canonical = canonical_json(arguments)
    words = _WORD.findall(_masked(canonical, _IN_CALLS).lower())
    return Print(
        tool=tool,
        exact=_digest(canonical),
        loose=_digest(" ".join(words)),
        sketch=sketch_of(words),
    )


def print_of_result(texts: tuple[str, ...], *, is_error: bool, with_ids: bool) -> bytes:
    """Return what identifies a result, without what changes by itself.

    `with_ids` leaves ids out as well: right for a tool that only reads, where an id is a
    request's; a tool that makes something tells by the id that it made another.
    """
    masks = _IN_READINGS if with_ids else _IN_RESULTS
    shape = "\0".join(_masked(_settled_json(text), masks) for text in texts)
    return _digest(f"{is_error}\0{shape}")


def canonical_json(value: object) -> str:
    """Return one text for all ways to write `value`, its volatile fields masked."""
    return _canonical(_steady(value))


def sketch_of(words: list[str]) -> bytes:
    """Return the smallest hashes of the words taken two by two."""
    padded = ["", *words, ""]
    hashes = {
        int.from_bytes(_digest(f"{one}\0{two}")[:_HASH_BYTES], "big")
        for one, two in pairwise(padded)
    }
    return array("I", sorted(hashes)[:SKETCH_MAX]).tobytes()


def likeness(one: bytes, other: bytes) -> float:
    """Return the share of pairs of words that two texts have in common, from their sketches.

    Exact for short texts; for long ones the smallest hashes of the union are a fair sample
    of it (bottom-k sketches).
    """
    mine, theirs = _hashes(one), _hashes(other)
    union, common = mine | theirs, mine & theirs
    if len(union) <= SKETCH_MAX:
        return len(common) / len(union)
    return len(common.intersection(sorted(union)[:SKETCH_MAX])) / SKETCH_MAX


@lru_cache(maxsize=_SKETCHES_READ)
def _hashes(sketch: bytes) -> frozenset[int]:
    hashes = array("I")
    hashes.frombytes(sketch)
    return frozenset(hashes)


def _steady(value: object, depth: int = 0) -> object:
    if depth >= _DEPTH_MAX:
        return value
    if isinstance(value, Mapping):
        return {
            str(key): _MASK if _VOLATILE_KEY.fullmatch(str(key)) else _steady(item, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_steady(item, depth + 1) for item in value]
    return value


def _settled_json(text: str) -> str:
    """Return the canonical form of a text that is a JSON object or list, else the text."""
    if len(text) > _JSON_CHARS_MAX or not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return canonical_json(json.loads(text))
    except (ValueError, RecursionError):
        return text


def _masked(text: str, masks: tuple[_Mask, ...]) -> str:
    read, rest = text[:_CHARS_READ], text[_CHARS_READ:]
    lowered = read.lower()
    for mask in masks:
        # Most texts hold no trace of most masks; words are found far sooner than a pattern.
        if mask.trace.search(lowered) is not None:
            read = mask.pattern.sub(_MASK, read)
    return read if not rest else f"{read}\0{_digest(rest).hex()}"


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest()
