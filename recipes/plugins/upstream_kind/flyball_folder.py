"""A kind of upstreams: the text files of a folder, listed and read.

```toml
[plugins]
enabled = ["folder"]

[[upstream]]
name = "notes"
kind = "folder"
settings = { path = "/srv/notes" }
```
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio

BYTES_MAX = 1024 * 1024
_READS = {"readOnlyHint": True}
_NAMED = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@asynccontextmanager
async def opened(name: str, settings: Mapping[str, Any]) -> AsyncIterator["Folder"]:
    """Yield the folder as a server of tools; without one the upstream is down and says why."""
    path = await anyio.Path(settings["path"]).resolve()
    if not await path.is_dir():
        raise NotADirectoryError(f"upstream {name}: {path} is no folder")
    yield Folder(path)


class Folder:
    """The text files of one folder."""

    def __init__(self, path: anyio.Path) -> None:
        """Take the folder, nothing outside of which is read."""
        self._path = path

    async def tools(self) -> Sequence[Mapping[str, Any]]:
        """Return what can be done with it."""
        nothing = {"type": "object", "properties": {}}
        return [
            {
                "name": "list",
                "description": "List the names of the text files.",
                "inputSchema": nothing,
                "annotations": _READS,
            },
            {
                "name": "read",
                "description": "Read a text file by its name.",
                "inputSchema": _NAMED,
                "annotations": _READS,
            },
        ]

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Return the names, or the text of one file; what is raised is told to the model."""
        if tool == "list":
            return "\n".join(sorted([path.name async for path in self._path.glob("*.txt")]))
        path = await (self._path / str(arguments["name"])).resolve()
        if path.parent != self._path or path.suffix != ".txt":
            raise FileNotFoundError(f"there is no {arguments['name']!r}")
        async with await path.open("rb") as file:
            return (await file.read(BYTES_MAX)).decode(errors="replace")
