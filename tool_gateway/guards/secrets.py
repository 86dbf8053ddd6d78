"""Answers without the secrets in them: what of an answer is searched, and what is left alone."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tool_gateway.credentials import Detector
from tool_gateway.results import Fault, Json, ToolResult

_DEPTH_MAX = 200
# What a client sends back as it came, as text or as names: to its server a mark means nothing.
_OPAQUE = frozenset({"requestState", "taskId", "resultType", "inputRequests"})
_HOLDS_OPAQUE = frozenset({"task", "io.modelcontextprotocol/related-task"})
# A picture or a file would be damaged by what looks like a key in it. What is no base64 is
# neither, whatever its server calls it.
_BASE64 = re.compile(r"[A-Za-z0-9+/=_\r\n-]*")
_NONE: frozenset[str] = frozenset()


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
            text, count = one.replaced(text, one.mark)
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
    is_base64 = isinstance(held, str) and _BASE64.fullmatch(held) is not None
    return frozenset({name}) if is_base64 else _NONE


def _without(value: Json, *names: str) -> Json:
    return {name: member for name, member in value.items() if name not in names}
