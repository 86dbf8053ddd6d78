"""The step that shows a result too large for a model, kept whole and read back."""

from hashlib import sha256

import mcp_types
from mcp import Client, StdioServerParameters

from runtime.settings import scripts_directory
from runtime.tour.report import StepReport, failed, ok
from runtime.tour.repository import COMMITS
from runtime.tour.stage import Stage, call
from tool_gateway.results import ARCHIVE_META

TITLE = "big result archived, read back"
_NOTES = 400
_READS_MAX = 1_000


async def archive_and_read_back(stage: Stage) -> StepReport:
    """Get a result that is too large, read it range by range, compare it byte by byte."""
    async with stage.agent() as client:
        if stage.repository is None:
            for number in range(_NOTES):
                await call(client, "notes__add", text=f"note {number} " + "lorem ipsum " * 8)
            cut = await call(client, "notes__list")
            true, source = None, "notes__list, as git is not installed"
        else:
            path = str(stage.repository)
            cut = await call(client, "git__git_log", repo_path=path, max_count=COMMITS)
            true, source = await _directly(path), "git log"
        entry = cut.meta.get(ARCHIVE_META)
        if entry is None or not entry["cut"]:
            return failed(TITLE, f"the result was not cut: {len(cut.text)} characters")
        content, reads = await _read_back(client, entry["archive_id"])

    if sha256(content).hexdigest() != entry["sha256"] or len(content) != entry["total_bytes"]:
        return failed(TITLE, "the bytes read back do not match the archive's hash")
    if true is not None and content != true:
        return failed(TITLE, "the bytes read back are not what the server answers directly")
    shown = len(cut.blocks[0].encode())
    return ok(
        TITLE,
        f"{source}: {len(content):,} bytes kept, {shown:,} shown; "
        f"{reads} reads give the same bytes (sha256 {entry['sha256'][:12]}…)",
    )


async def _read_back(client: Client, archive_id: str) -> tuple[bytes, int]:
    content, offset = b"", 0
    for reads in range(1, _READS_MAX + 1):
        part = await call(client, "memory_read", index=archive_id, offset=offset)
        content += part.blocks[0].encode()
        following = part.meta[ARCHIVE_META]["next_offset"]
        if following is None:
            return content, reads
        offset = following
    return content, _READS_MAX


async def _directly(repository: str) -> bytes:
    """Return what the server answers when nothing stands in between."""
    server = StdioServerParameters(command=str(scripts_directory() / "mcp-server-git"))
    async with Client(server, cache=None) as client:
        arguments = {"repo_path": repository, "max_count": COMMITS}
        answer = await client.call_tool("git_log", arguments)
    block = answer.content[0]
    assert isinstance(block, mcp_types.TextContent), "git_log answers with one text block"
    return block.text.encode()
