"""LangGraph through Flyball: its models by OPENAI_BASE_URL, its tools over MCP.

flyball run -- python recipes/langgraph_agent.py "What time is it in Oslo?"
"""

import asyncio
import os
import sys

import httpx2
from langchain_core.tools import StructuredTool, ToolException
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Tool


def tool_of(client: Client, tool: Tool) -> StructuredTool:
    """Return a tool of the sidecar as LangChain's."""

    async def call(**arguments: object) -> str:
        result = await client.call_tool(tool.name, arguments)
        text = "\n".join(block.text for block in result.content if block.type == "text")
        if result.is_error:
            raise ToolException(text)  # a denial too: the model reads what to do instead
        return text

    return StructuredTool(
        name=tool.name,
        description=tool.description or "",
        args_schema=tool.input_schema,
        coroutine=call,
        handle_tool_error=True,
    )


async def main(question: str) -> None:
    """Answer a question with the tools that the sidecar offers."""
    headers = {"Authorization": f"Bearer {os.environ['FLYBALL_TOKEN']}"}
    if "FLYBALL_SESSION" in os.environ:
        headers["Flyball-Session"] = os.environ["FLYBALL_SESSION"]
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(os.environ["FLYBALL_MCP_URL"], http_client=http)) as client,
    ):
        tools = [tool_of(client, tool) for tool in (await client.list_tools()).tools]
        # A tier of flyball.toml, or "auto"; the SDK beneath reads OPENAI_BASE_URL and its key.
        model = ChatOpenAI(model=os.environ.get("FLYBALL_MODEL", "low")).bind_tools(tools)

        async def answer(state: MessagesState) -> dict[str, object]:
            return {"messages": [await model.ainvoke(state["messages"])]}

        graph = StateGraph(MessagesState)
        graph.add_node("model", answer)
        graph.add_node("tools", ToolNode(tools))
        graph.add_edge(START, "model")
        graph.add_conditional_edges("model", tools_condition)
        graph.add_edge("tools", "model")
        asked = {"messages": [("user", question)]}
        end = await graph.compile().ainvoke(asked, {"recursion_limit": 20})
    print(end["messages"][-1].text)


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "What time is it in Oslo?"))
