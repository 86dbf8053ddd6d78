"""Detectors of secrets in results, in time linear in the text whatever the pattern."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import re2

from tool_gateway.results import Fault, Json, ToolResult

PATTERN_CHARS_MAX = 1_000
_MEMORY_BYTES_MAX = 8 * 1024 * 1024
_DEPTH_MAX = 200
# What a client sends back as it came, as text or as names: to its server a mark means nothing.
_OPAQUE = frozenset({"requestState", "taskId", "resultType", "inputRequests"})
_HOLDS_OPAQUE = frozenset({"task", "io.modelcontextprotocol/related-task"})
# A picture or a file would be damaged by what looks like a key in it. What is no base64 is
# neither, whatever its server calls it.
_BASE64 = re2.compile(r"[A-Za-z0-9+/=_\r\n-]*")
_NONE: frozenset[str] = frozenset()
_BUILT_IN: Mapping[str, str] = {
    "cloud_keys": (
        r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bAIza[0-9A-Za-z_-]{35}"
        r"|\bya29\.[0-9A-Za-z_-]{20,}|\bAccountKey=[A-Za-z0-9+/]{40,}={0,2}"
    ),
    "api_keys": (
        r"\bsk-[A-Za-z0-9_-]{16,}|\b[rs]k_live_[0-9A-Za-z]{16,}|\bgh[pousr]_[A-Za-z0-9]{20,}"
        r"|\bgithub_pat_[A-Za-z0-9_]{20,}|\bglpat-[A-Za-z0-9_-]{16,}"
        r"|\bxox[abprs]-[A-Za-z0-9-]{10,}|\bfbt_[A-Za-z0-9_-]{20,}"
    ),
    "private_keys": (
        r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)"
    ),
    "bearer_tokens": r"(?i)\b(?:bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}",
    "jwts": r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    "url_credentials": r"\b[a-zA-Z][a-zA-Z0-9+.-]*://[^/\s:@]{1,200}:[^/\s@]{1,200}@",
}
BUILT_IN = frozenset(_BUILT_IN)


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
    return {name: detector(name, pattern) for name, pattern in _BUILT_IN.items()}


@dataclass(slots=True)
class Redaction:
    """One pass over one answer with some detectors; `found` counts by their names."""

    detectors: Sequence[Detector]
    found: dict[str, int] = field(default_factory=dict)

    def of_result(self, result: ToolResult) -> ToolResult:
        """Return a result without the secrets in what a client, or its model, would read."""
        return replace(
            result,
            content=tuple(self._block(block) for block in result.content),
            structured=self.of_value(result.structured),
            meta=self._members(result.meta, whole=_NONE),
            closing=None if result.closing is None else self.of_text(result.closing),
            extra=self._members(result.extra, whole=_OPAQUE),
            fault=None if result.fault is None else self._of_fault(result.fault),
        )

    def of_offer(self, result: ToolResult) -> ToolResult:
        """Return what was answered about a resource or a prompt without secrets.

        Its structure is the protocol's: files and pictures have their places in it.
        """
        answer = result.structured
        clean = self.of_result(replace(result, structured=None))
        if not isinstance(answer, Mapping):
            return replace(clean, structured=self.of_value(answer))
        places = {"contents": self._resource, "messages": self._message}
        shown = self._members(_without(answer, *places), whole=_OPAQUE)
        for name, clean_one in places.items():
            if name in answer:
                shown[name] = self._each(answer[name], clean_one)
        return replace(clean, structured=shown)

    def of_text(self, text: str) -> str:
        """Return a text with marks in place of what was found in it."""
        for one in self.detectors:
            try:
                text, count = one.pattern.subn(one.mark, text)
            except UnicodeEncodeError:
                # Half of a surrogate pair is no text; what is left of it is.
                text = text.encode(errors="replace").decode()
                text, count = one.pattern.subn(one.mark, text)
            if count:
                self.found[one.name] = self.found.get(one.name, 0) + count
        return text

    def of_value(self, value: object, depth: int = 0) -> object:
        """Return a JSON value without secrets in any of its texts, names of members included.

        What is nested too deeply to be looked at is left out.
        """
        if isinstance(value, str):
            return self.of_text(value)
        if isinstance(value, Mapping):
            return self._mapping(value, depth)
        if isinstance(value, (list, tuple)):
            return None if depth > _DEPTH_MAX else [self.of_value(one, depth + 1) for one in value]
        return value

    def _mapping(
        self, value: Json, depth: int, *, whole: frozenset[str] = _NONE
    ) -> dict[str, object]:
        """Return an object without secrets; texts that are members named in `whole` stay."""
        if depth > _DEPTH_MAX:
            return {}
        return {
            self.of_text(str(name)): member
            if name in whole and isinstance(member, str)
            else self.of_value(member, depth + 1)
            for name, member in value.items()
        }

    def _members(self, value: Json, *, whole: frozenset[str]) -> dict[str, object]:
        """Return the members of an answer, the protocol's own ones among them as they are."""
        return {
            self.of_text(str(name)): self._member(name, member, whole=whole)
            for name, member in value.items()
        }

    def _member(self, name: str, member: object, *, whole: frozenset[str]) -> object:
        if isinstance(member, str) and name in whole:
            return member
        if isinstance(member, Mapping) and name in whole:
            return {key: self.of_value(one, 2) for key, one in member.items()}
        if isinstance(member, Mapping) and name in _HOLDS_OPAQUE:
            return self._mapping(member, 1, whole=_OPAQUE)
        return self.of_value(member, 1)

    def _block(self, block: Json) -> dict[str, object]:
        """Return a content block without secrets; its picture, sound or file stays."""
        kind, held = block.get("type"), block.get("resource")
        if kind in ("image", "audio"):
            return self._mapping(block, 0, whole=_base64_in(block, "data"))
        if kind == "resource" and isinstance(held, Mapping):
            return {
                **self._mapping(_without(block, "resource"), 0),
                "resource": self._resource(held),
            }
        return self._mapping(block, 0)

    def _resource(self, held: Json) -> dict[str, object]:
        return self._mapping(held, 1, whole=_base64_in(held, "blob"))

    def _message(self, message: Json) -> dict[str, object]:
        clean = self._mapping(_without(message, "content"), 1)
        if "content" in message:
            said = message["content"]
            clean["content"] = (
                self._block(said) if isinstance(said, Mapping) else self._each(said, self._block)
            )
        return clean

    def _each(self, listed: object, clean_one: Callable[[Json], Json]) -> object:
        if not isinstance(listed, (list, tuple)):
            return self.of_value(listed, 1)
        return [
            clean_one(one) if isinstance(one, Mapping) else self.of_value(one, 1) for one in listed
        ]

    def _of_fault(self, fault: Fault) -> Fault:
        return replace(fault, words=self.of_text(fault.words), data=self.of_value(fault.data))


def _base64_in(holder: Json, name: str) -> frozenset[str]:
    """Return `name` if that member is the base64 that its place is for, else nothing."""
    held = holder.get(name)
    try:
        is_base64 = isinstance(held, str) and _BASE64.fullmatch(held) is not None
    except UnicodeEncodeError:
        return _NONE
    return frozenset({name}) if is_base64 else _NONE


def _without(value: Json, *names: str) -> Json:
    return {name: member for name, member in value.items() if name not in names}
