"""The SDK's requests and results with all members: a relay keeps what it does not know."""

from typing import Any, ClassVar

import mcp_types
from mcp import Client
from mcp.shared.dispatcher import ProgressFnT
from pydantic import BaseModel, ConfigDict


class AnyRequest(mcp_types.Request[dict[str, Any], str]):
    """A request of any method."""


class TaskRequest(AnyRequest):
    """A request of the tasks extension, whose header names the task."""

    name_param: ClassVar[str | None] = "taskId"


class AnyResult(BaseModel):
    """A result of any method; the session has checked those that it knows."""

    model_config = ConfigDict(extra="allow")


async def sent_whole(
    client: Client,
    method: str,
    params: dict[str, Any],
    *,
    on_progress: ProgressFnT | None = None,
) -> dict[str, Any]:
    """Send a request and return its result, every member of it.

    Raises:
        MCPError: the server answered with an error, or the connection failed.
        ValidationError: the result is not what the protocol says.
    """
    kind = TaskRequest if method.startswith("tasks/") and "taskId" in params else AnyRequest
    result = await client.session.send_request(
        kind(method=method, params=params), AnyResult, progress_callback=on_progress
    )
    return dict(result.model_extra or {})
