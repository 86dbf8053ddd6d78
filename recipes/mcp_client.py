"""A plain MCP client in Python through Flyball: call a tool, read denials and what is left.

flyball run -- python recipes/mcp_client.py time__get_current_time '{"timezone": "Europe/Oslo"}'
"""

import asyncio
import json
import os
import sys
import uuid

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


async def main(tool: str, arguments: dict[str, object]) -> int:
    """Call one tool; return 0 if it ran well."""
    headers = {"Authorization": f"Bearer {os.environ['FLYBALL_TOKEN']}"}
    if "FLYBALL_SESSION" in os.environ:
        headers["Flyball-Session"] = os.environ["FLYBALL_SESSION"]
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(os.environ["FLYBALL_MCP_URL"], http_client=http)) as client,
    ):
        # Who tries again with the same key gets the same outcome, and is charged once.
        key = {"flyball/idempotency_key": str(uuid.uuid4())}
        result = await client.call_tool(tool, arguments, meta=key)
    meta = result.meta or {}
    for block in result.content:
        if block.type == "text":
            print(block.text)
    for line in meta.get("flyball/budget") or ():
        print(f"left in {line['budget_id']}: {line['remaining']} {line['unit']}", file=sys.stderr)
    denial = meta.get("flyball/denial")
    if denial is not None:
        print(f"denied: {denial['remedy']['text']}", file=sys.stderr)
    return 1 if result.is_error else 0


if __name__ == "__main__":
    name, given = (*sys.argv[1:], "time__get_current_time", "{}")[:2]
    sys.exit(asyncio.run(main(name, json.loads(given))))
