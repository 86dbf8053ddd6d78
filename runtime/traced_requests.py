"""The agents' requests as parts of traces: those that clients name, or new ones."""

from collections.abc import Iterable
from http import HTTPStatus

from opentelemetry import propagate, trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import SpanKind, Status, StatusCode
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tool_gateway.front.mcp_http import CALLER_KEY
from tool_gateway.identity import Caller
from tool_gateway.telemetry import collects_spans

_tracer = trace.get_tracer("flyball.agents")
_PARENT = b"traceparent"
_STATE = b"tracestate"
_VALUE_BYTES_MAX = 512
_FAULTS = HTTPStatus.INTERNAL_SERVER_ERROR


class TracedRequests:
    """Serves each request inside the trace that its headers name."""

    def __init__(self, app: ASGIApp, *, routes: Iterable[str]) -> None:
        """Wrap `app`; a span is named by its path where that is one of `routes`."""
        self._app = app
        self._routes = frozenset(routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        context = _named_in(scope["headers"])
        # A stream of events that a client listens to for hours is no piece of work.
        if collects_spans() and scope["method"] != "GET":
            await self._in_span(context, scope, receive, send)
        elif context is None:
            await self._app(scope, receive, send)
        else:
            token = attach(context)
            try:
                await self._app(scope, receive, send)
            finally:
                detach(token)

    async def _in_span(
        self, context: Context | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        path, method = scope["path"], scope["method"]
        caller: Caller = scope[CALLER_KEY]
        attributes = {
            "http.request.method": method,
            "url.path": path,
            "url.scheme": scope["scheme"],
            "network.protocol.version": scope["http_version"],
            "flyball.tenant": caller.tenant,
            "flyball.agent": caller.agent,
        }
        name = method
        if path in self._routes:
            attributes["http.route"] = path
            name = f"{method} {path}"
        with _tracer.start_as_current_span(
            name,
            context=context,
            kind=SpanKind.SERVER,
            attributes=attributes,
            record_exception=False,
        ) as span:

            async def note(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                    if message["status"] >= _FAULTS:
                        span.set_attribute("error.type", str(message["status"]))
                        span.set_status(Status(StatusCode.ERROR))
                await send(message)

            await self._app(scope, receive, note)


def _named_in(headers: Iterable[tuple[bytes, bytes]]) -> Context | None:
    """Return the trace that a request is part of, None where it says nothing that can be read."""
    parent = state = None
    for name, value in headers:
        if name == _PARENT:
            if parent is not None:
                return None  # which of them it means nobody can say
            parent = value
        elif name == _STATE:
            state = value
    if parent is None or len(parent) > _VALUE_BYTES_MAX:
        return None
    carrier = {"traceparent": parent.decode("latin-1")}
    if state is not None and len(state) <= _VALUE_BYTES_MAX:
        carrier["tracestate"] = state.decode("latin-1")
    found = propagate.extract(carrier, Context())
    return found if trace.get_current_span(found).get_span_context().is_valid else None
