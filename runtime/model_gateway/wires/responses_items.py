"""The items of a streamed response, kept so that a stream that is cut can be ended properly."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_ITEMS_MAX = 4_096
_PARTS_MAX = 4_096
# The text of a part, and of an item, by the event that brings more of it.
_PART_DELTAS = {"response.output_text.delta": "text", "response.refusal.delta": "refusal"}
_ITEM_DELTAS = {
    "response.function_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "input",
}
_ITEM_DONE = {
    "arguments": "response.function_call_arguments.done",
    "input": "response.custom_tool_call_input.done",
}
_PART_DONE = {"text": "response.output_text.done", "refusal": "response.refusal.done"}


@dataclass(slots=True)
class _Part:
    part: dict[str, Any]
    pieces: list[str] = field(default_factory=list)
    is_done: bool = False

    def so_far(self) -> dict[str, Any]:
        name = "refusal" if self.part.get("type") == "refusal" else "text"
        return {**self.part, name: str(self.part.get(name) or "") + "".join(self.pieces)}


@dataclass(slots=True)
class _Item:
    item: dict[str, Any]
    parts: dict[int, _Part] = field(default_factory=dict)
    # Of a call the name of what grows, and what was added to it.
    grows: str = ""
    pieces: list[str] = field(default_factory=list)
    is_done: bool = False

    def so_far(self) -> dict[str, Any]:
        if self.is_done:
            return self.item
        item = {**self.item, "status": "incomplete"}
        if self.parts:
            item["content"] = [part.so_far() for _, part in sorted(self.parts.items())]
        if self.grows:
            item[self.grows] = str(self.item.get(self.grows) or "") + "".join(self.pieces)
        return item


class OpenItems:
    """What has been opened and written of a response, and what of it is closed."""

    def __init__(self) -> None:
        """Begin with none."""
        self._items: dict[int, _Item] = {}

    def take(self, kind: str, value: Mapping[str, Any]) -> bool:
        """Take an event; tell whether there is still room for what it opens."""
        index = value.get("output_index")
        if not isinstance(index, int):
            return True
        item = value.get("item")
        if kind == "response.output_item.added" and isinstance(item, dict):
            self._items[index] = _Item(item)
            return len(self._items) <= _ITEMS_MAX
        known = self._items.get(index)
        if known is None:
            return True
        if kind == "response.output_item.done" and isinstance(item, dict):
            known.item, known.is_done = item, True
            known.parts.clear()
            known.pieces.clear()
        elif kind in _ITEM_DELTAS and isinstance(delta := value.get("delta"), str):
            known.grows = _ITEM_DELTAS[kind]
            known.pieces.append(delta)
        else:
            return _take_part(kind, value, known)
        return True

    def closing(self) -> Iterator[dict[str, Any]]:
        """Yield the events that close what is open, without their numbers."""
        for index, item in sorted(self._items.items()):
            if item.is_done:
                continue
            whole = item.so_far()
            place = {"item_id": str(item.item.get("id")), "output_index": index}
            for number, part in sorted(item.parts.items()):
                if not part.is_done:
                    yield from _closing_part(part, {**place, "content_index": number})
            if item.grows:
                done = {"type": _ITEM_DONE[item.grows], **place, item.grows: whole[item.grows]}
                if item.grows == "arguments":
                    done["name"] = item.item.get("name")
                yield done
            yield {"type": "response.output_item.done", "output_index": index, "item": whole}

    def output(self) -> list[dict[str, Any]]:
        """Return every item as far as it was written."""
        return [item.so_far() for _, item in sorted(self._items.items())]


def _take_part(kind: str, value: Mapping[str, Any], item: _Item) -> bool:
    number = value.get("content_index")
    if not isinstance(number, int):
        return True
    if kind == "response.content_part.added" and isinstance(part := value.get("part"), dict):
        item.parts[number] = _Part(part)
        return len(item.parts) <= _PARTS_MAX
    known = item.parts.get(number)
    if known is None:
        return True
    if kind in _PART_DELTAS and isinstance(delta := value.get("delta"), str):
        known.pieces.append(delta)
    elif kind == "response.content_part.done":
        known.is_done = True
    return True


def _closing_part(part: _Part, place: dict[str, Any]) -> Iterator[dict[str, Any]]:
    whole = part.so_far()
    name = "refusal" if whole.get("type") == "refusal" else "text"
    done = {"type": _PART_DONE[name], **place, name: whole[name]}
    if name == "text":
        done["logprobs"] = []
    yield done
    yield {"type": "response.content_part.done", **place, "part": whole}
