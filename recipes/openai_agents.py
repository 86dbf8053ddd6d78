"""OpenAI's Agents SDK through Flyball: its models by OPENAI_BASE_URL, its tools over MCP.

flyball run -- python recipes/openai_agents.py "What time is it in Oslo?"
"""

import asyncio
import os
import sys

from agents import Agent, Runner, set_tracing_disabled
from agents.mcp import MCPServerStreamableHttp


async def main(question: str) -> None:
    """Answer a question with the tools that the sidecar offers."""
    # Traces would go to OpenAI around the sidecar, which keeps its own records.
    set_tracing_disabled(disabled=True)
    headers = {"Authorization": f"Bearer {os.environ['FLYBALL_TOKEN']}"}
    if "FLYBALL_SESSION" in os.environ:
        headers["Flyball-Session"] = os.environ["FLYBALL_SESSION"]
    async with MCPServerStreamableHttp(
        name="flyball",
        params={"url": os.environ["FLYBALL_MCP_URL"], "headers": headers},
        client_session_timeout_seconds=60,
    ) as tools:
        agent = Agent(
            name="assistant",
            instructions="Answer with the help of your tools. A denial says what to do instead.",
            model=os.environ.get("FLYBALL_MODEL", "low"),  # a tier of flyball.toml, or "auto"
            mcp_servers=[tools],
        )
        result = await Runner.run(agent, question, max_turns=8)
    print(result.final_output)


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "What time is it in Oslo?"))
