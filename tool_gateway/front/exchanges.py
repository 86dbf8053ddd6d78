"""The exchanges of the two protocol eras, and what a request says beside its subject."""

from collections.abc import Mapping
from typing import Any, Protocol

import anyio
import mcp_types
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ConfigDict, ValidationError

from governor.ids import SessionId
from tool_gateway.bearer import Bearer
from tool_gateway.exchange import ANSWER_SECONDS_MAX, AskRefusedError, Wishes
from tool_gateway.results import OUR_META, Json

LEVEL_STATE = "flyball.level"
_LEVELS = (*("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"),)
# What belongs to the client's leg alone: the legs to the upstreams have their own.
OF_THE_LEG = frozenset(
    {
        "progressToken",
        mcp_types.PROTOCOL_VERSION_META_KEY,
        mcp_types.CLIENT_INFO_META_KEY,
        mcp_types.CLIENT_CAPABILITIES_META_KEY,
    }
)
_AnyNotification = mcp_types.Notification[dict[str, Any], str]
_AnyRequest = mcp_types.Request[dict[str, Any], str]
Context = ServerRequestContext[Any]


class _AnyResult(BaseModel):
    """An answer in whatever shape; who asked checks it."""

    model_config = ConfigDict(extra="allow")


class Asking(Protocol):
    """Where a client that retries itself is asked: in the answer to its request."""

    async def ask(self, method: str, params: Json) -> Json:
        """Return the answer that the retry brings.

        Raises:
            AskRefusedError: no retry brings one.
        """
        ...


def is_modern(ctx: Context) -> bool:
    """Tell whether the request is of the era without sessions."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def connection_of(ctx: Context) -> Connection:
    """Return the client's connection."""
    # The SDK hangs the state and the end of a connection on it, and its context, which should
    # carry it, does not yet.
    return ctx.session._connection  # noqa: SLF001


def wishes_of(ctx: Context, *, bearer: Bearer | None) -> Wishes:
    """Return what a request says beside its subject; `bearer` is the token that it came with."""
    params = ctx.params or {}
    meta = params.get("_meta") or {}
    handed_on = {
        key: value
        for key, value in meta.items()
        if key not in OF_THE_LEG and not key.startswith(OUR_META)
    }
    if not is_modern(ctx):
        handed_on.setdefault(mcp_types.LOG_LEVEL_META_KEY, _level_of(ctx))
    of_the_call = {"name", "arguments", "_meta"}
    extras = [key for key in params if key not in of_the_call and ctx.method == "tools/call"]
    return Wishes(
        capabilities=_capabilities_of(ctx, meta),
        meta=handed_on,
        extras={key: params[key] for key in extras},
        retries_itself=is_modern(ctx),
        has_progress="progressToken" in meta,
        bearer=bearer,
    )


def exchange_for(
    ctx: Context, *, session: SessionId | None, wishes: Wishes, asking: Asking | None = None
) -> "ClientExchange":
    """Return the exchange of a request; `asking` is how a client that retries is asked."""
    return ClientExchange(ctx, session=session, wishes=wishes, asking=asking)


class ClientExchange:
    """One request of a client; a parked one goes on under the request that resumes it."""

    def __init__(
        self,
        ctx: Context,
        *,
        session: SessionId | None,
        wishes: Wishes,
        asking: Asking | None,
    ) -> None:
        """Take the request as the SDK has it."""
        self.session = session
        self.wishes = wishes
        self._ctx: Context | None = ctx
        self._asking = asking

    def attach(self, ctx: Context | None) -> None:
        """Reach the client through another request from now on; through none if None."""
        self._ctx = ctx

    async def notify(self, method: str, params: Json) -> None:
        """Tell the client something; a client that has gone is told nothing."""
        ctx = self._ctx
        if ctx is None or not _wants(ctx, method, params):
            return
        # The SDK's parameter names its own models, and it sends whatever has their shape.
        told: Any = _AnyNotification(method=method, params=dict(params))
        await ctx.session.send_notification(told, related_request_id=ctx.request_id)

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Tell the client how far its request is, if it wants to know."""
        if self._ctx is not None:
            await self._ctx.session.report_progress(progress, total, message)

    async def ask(self, method: str, params: Json) -> Json:
        """Return the client's answer to a question of the server's.

        Raises:
            AskRefusedError: the client cannot be asked, refuses, or takes too long.
        """
        if self._asking is not None:
            return await self._asking.ask(method, params)
        ctx = self._ctx
        if ctx is None or not ctx.session.can_send_request:
            raise AskRefusedError("the client cannot be asked here", code=mcp_types.INVALID_REQUEST)
        asked: Any = _AnyRequest(method=method, params=dict(params))
        try:
            answer = await ctx.session.send_request(
                asked,
                _AnyResult,
                request_read_timeout_seconds=ANSWER_SECONDS_MAX,
                metadata=ServerMessageMetadata(related_request_id=ctx.request_id),
            )
        except MCPError as error:
            raise AskRefusedError(error.message, code=error.code, data=error.data) from error
        except (ValidationError, anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            raise AskRefusedError(
                "the client's answer has another shape", code=mcp_types.INTERNAL_ERROR
            ) from error
        return answer.model_dump(mode="json", by_alias=True)


def _capabilities_of(ctx: Context, meta: Mapping[str, Any]) -> Json:
    if is_modern(ctx):
        found = meta.get(mcp_types.CLIENT_CAPABILITIES_META_KEY)
        return found if isinstance(found, Mapping) else {}
    declared = ctx.session.client_capabilities
    if declared is None or not ctx.session.can_send_request:
        return {}
    return declared.model_dump(mode="json", by_alias=True, exclude_none=True)


def _level_of(ctx: Context) -> str:
    """Return from which level on a session wants to be told; an older client is told all."""
    return str(connection_of(ctx).state.get(LEVEL_STATE, _LEVELS[0]))


def _wants(ctx: Context, method: str, params: Json) -> bool:
    """Tell whether the client wants to hear this log message; anything else it does."""
    if method != "notifications/message":
        return not (is_modern(ctx) and method == "notifications/elicitation/complete")
    if is_modern(ctx):
        least = ((ctx.params or {}).get("_meta") or {}).get(mcp_types.LOG_LEVEL_META_KEY)
    else:
        least = _level_of(ctx)
    level = params.get("level")
    return least in _LEVELS and level in _LEVELS and _LEVELS.index(level) >= _LEVELS.index(least)
