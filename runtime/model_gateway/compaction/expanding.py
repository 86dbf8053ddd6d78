"""What was folded, put back as it was."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from governor.ids import ExperienceId
from runtime.model_gateway.compaction.contents import TEXT, with_contents

Read = Callable[[ExperienceId], bytes]


def expanded(contents: ExperienceId | None, read: Read) -> list[dict[str, Any]]:
    """Return every message that a report stands for, in their order; `read` returns contents."""
    parts: list[list[dict[str, Any]]] = []
    while contents is not None:
        listed = msgspec.json.decode(read(contents))
        parts.append([_message(entry, read) for entry in listed["messages"]])
        contents = listed["before"]
    return [message for part in reversed(parts) for message in part]


def _message(entry: Mapping[str, Any], read: Read) -> dict[str, Any]:
    if "index" in entry:
        whole: dict[str, Any] = msgspec.json.decode(read(entry["index"]))
        return whole
    return with_contents(
        entry["frame"],
        {one["block"]: _content(one, read) for one in entry["results"]},
    )


def _content(result: Mapping[str, Any], read: Read) -> object:
    content = read(result["index"])
    return content.decode() if result["media_type"] == TEXT else msgspec.json.decode(content)
