"""What credentials look like: one table for what is shown and for what is kept."""

from collections.abc import Mapping
from dataclasses import dataclass

import re2

PATTERN_CHARS_MAX = 1_000
_MEMORY_BYTES_MAX = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """What one kind looks like, and a part that each of it has: nearly every text has none."""

    pattern: str
    trace: str


_KINDS: Mapping[str, _Kind] = {
    "cloud_keys": _Kind(
        pattern=(
            r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bAIza[0-9A-Za-z_-]{35}"
            r"|\bya29\.[0-9A-Za-z_-]{20,}|\bAccountKey=[A-Za-z0-9+/]{40,}={0,2}"
        ),
        trace=r"A(?:KIA|SIA|Iza|ccountKey=)|ya29\.",
    ),
    "api_keys": _Kind(
        pattern=(
            r"\bsk-[A-Za-z0-9_-]{16,}|\b[rs]k_live_[0-9A-Za-z]{16,}|\bgh[pousr]_[A-Za-z0-9]{20,}"
            r"|\bgithub_pat_[A-Za-z0-9_]{20,}|\bglpat-[A-Za-z0-9_-]{16,}"
            r"|\bxox[abprs]-[A-Za-z0-9-]{10,}|\bfbt_[A-Za-z0-9_-]{20,}"
        ),
        trace=r"sk-|[rs]k_live_|g(?:h[pousr]_|ithub_pat_|lpat-)|xox[abprs]-|fbt_",
    ),
    "private_keys": _Kind(
        pattern=(
            r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?"
            r"(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)"
        ),
        trace=r"-----BEGIN ",
    ),
    "bearer_tokens": _Kind(
        pattern=r"(?i)\b(?:bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}", trace=r"(?i:bearer|basic)"
    ),
    "jwts": _Kind(
        pattern=r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*", trace=r"eyJ"
    ),
    "url_credentials": _Kind(pattern=r"://[^/\s:@]{0,200}:[^/\s@]{1,200}@", trace=r"://"),
}
BUILT_IN = frozenset(_KINDS)
# Finds something wherever a built-in detector does, and is quicker told than all of them.
TRACE = "|".join(kind.trace for kind in _KINDS.values())


class PatternError(ValueError):
    """The pattern cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detector:
    """One kind of secret: what it looks like, and what stands in its place."""

    name: str
    pattern: "re2._Regexp"

    @property
    def mark(self) -> str:
        """Return what stands in the place of a finding."""
        return f"[redacted:{self.name}]"

    def is_in(self, text: str) -> bool:
        """Tell whether anything in a text looks like it."""
        try:
            return self.pattern.search(text) is not None
        except UnicodeEncodeError:
            return self.pattern.search(_mended(text)) is not None

    def replaced(self, text: str, mark: str) -> tuple[str, int]:
        """Return a text with `mark` for every finding, and how many there were.

        The time is linear in the text, whatever the pattern.
        """
        try:
            found: tuple[str, int] = self.pattern.subn(mark, text)
        except UnicodeEncodeError:
            found = self.pattern.subn(mark, _mended(text))
        return found


def _mended(text: str) -> str:
    """Return what is left of a text with half of a surrogate pair in it, which is none."""
    return text.encode(errors="replace").decode()


def detector(name: str, pattern: str) -> Detector:
    """Return a detector of what matches `pattern`, in the syntax of RE2.

    Raises:
        PatternError: it is no such pattern, too large a one, or matches nothing at all.
    """
    options = re2.Options()
    options.max_mem = _MEMORY_BYTES_MAX
    options.log_errors = False
    if len(pattern) > PATTERN_CHARS_MAX:
        raise PatternError(f"it has more than {PATTERN_CHARS_MAX} characters")
    try:
        compiled = re2.compile(pattern, options)
        is_empty = compiled.search("") is not None
    except re2.error as error:
        why = error.args[0] if error.args else error
        words = why.decode(errors="replace") if isinstance(why, bytes) else str(why)
        raise PatternError(f"no regular expression of RE2: {words}") from error
    if is_empty:
        raise PatternError("it matches the empty text, and so everything")
    return Detector(name=name, pattern=compiled)


def built_in() -> dict[str, Detector]:
    """Return the detectors that need no configuration, by their names."""
    return {name: detector(name, kind.pattern) for name, kind in _KINDS.items()}
