"""pydantic-ai through Flyball: its models by the providers' variables, its tools over MCP.

flyball run -- python recipes/pydantic_ai_agent.py "What time is it in Oslo?"
"""

import asyncio
import os
import sys

from pydantic_ai import Agent, UsageLimits
from pydantic_ai.mcp import MCPToolset


async def main(question: str) -> None:
    """Answer a question with the tools that the sidecar offers."""
    headers = {"Authorization": f"Bearer {os.environ['FLYBALL_TOKEN']}"}
    if "FLYBALL_SESSION" in os.environ:
        headers["Flyball-Session"] = os.environ["FLYBALL_SESSION"]
    tools = MCPToolset(os.environ["FLYBALL_MCP_URL"], headers=headers)
    # What follows the colon is a tier of flyball.toml; "anthropic:…" works the same way.
    model = os.environ.get("FLYBALL_MODEL", "low")
    agent = Agent(f"openai-chat:{model}", toolsets=[tools])
    async with agent:
        result = await agent.run(question, usage_limits=UsageLimits(request_limit=8))
    print(result.output)


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "What time is it in Oslo?"))
