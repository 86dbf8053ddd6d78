"""Requests over an open connection to an upstream, in whichever era it speaks."""

from collections.abc import Mapping
from typing import Any

import anyio
import mcp_types
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from governor.ids import UpstreamName
from tool_gateway.errors import UpstreamFailedError, UpstreamNotReachedError, UpstreamSaidError
from tool_gateway.exchange import AskRefusedError, Exchange
from tool_gateway.redaction import redact_text
from tool_gateway.results import Json
from tool_gateway.upstreams.questions import Questions, Serving, asked
from tool_gateway.upstreams.tool_calls import INPUT_REQUIRED, ToolCalls
from tool_gateway.upstreams.whatever import sent_whole

# How often an upstream may ask again before it has what it needs.
ROUNDS_MAX = 16
QUESTIONS_MAX = 32
DETAIL_CHARS_MAX = 300
CALL = "tools/call"
_LOG = "notifications/message"


class Leg:
    """One open connection to an upstream."""

    def __init__(self, name: UpstreamName, client: Client, questions: Questions) -> None:
        """Take the connection and the callbacks that it was opened with."""
        self._name = name
        self._questions = questions
        self.client = client
        self.calls: ToolCalls | None = None  # the short way for calls, where there is one

    @property
    def is_busy(self) -> bool:
        """Tell whether a request is in flight."""
        return self._questions.is_busy

    @property
    def rests_since(self) -> float | None:
        """Return when the last request ended, None while one is in flight."""
        return None if self.is_busy else self._questions.used_at

    @property
    def is_modern(self) -> bool:
        """Tell whether the upstream speaks the era without sessions."""
        return self.client.protocol_version in MODERN_PROTOCOL_VERSIONS

    def is_short_for(self, exchange: Exchange) -> bool:
        """Tell whether a client's calls take the short way; who wants progress takes the SDK's."""
        return self.calls is not None and not exchange.wishes.has_progress

    async def request(self, method: str, params: Json, serving: Serving) -> Json:
        """Return the upstream's answer, after whatever it had to ask of the client.

        A client that retries itself gets the questions as the answer.

        Raises:
            TimeoutError: no answer came in time.
            UpstreamNotReachedError: provably nothing was sent.
            UpstreamFailedError: it failed, or asks without an end.
            MCPError: the connection failed.
        """
        exchange = serving.exchange
        sent = self._as_sent(params, exchange.wishes.meta)
        with self._questions.serving(serving), serving.patience.limited():
            for _ in range(ROUNDS_MAX):
                answer = await self._sent(method, sent, serving)
                if answer.get("resultType") != INPUT_REQUIRED or exchange.wishes.retries_itself:
                    return answer
                sent = {**sent, **await self._answers_to(answer, serving)}
        message = f"{self._name} asked {ROUNDS_MAX} times for further input"
        raise UpstreamFailedError(message)

    def _as_sent(self, params: Json, meta: Json) -> dict[str, Any]:
        sent: dict[str, Any] = dict(params)
        if not self.is_modern:
            if sent.pop("requestState", None) is not None:
                message = "this requestState is unknown or has expired; start again without it"
                raise UpstreamNotReachedError(message)
            sent.pop("inputResponses", None)
            meta = {k: v for k, v in meta.items() if k != mcp_types.LOG_LEVEL_META_KEY}
        whole = {**sent.get("_meta", {}), **meta}
        return {**sent, "_meta": whole} if whole else sent

    async def _sent(self, method: str, params: Mapping[str, Any], serving: Serving) -> Json:
        exchange = serving.exchange
        if self.calls is not None and method == CALL and self.is_short_for(exchange):
            return await self._sent_short(self.calls, params, exchange)
        try:
            return await sent_whole(
                self.client,
                method,
                # The session adds to what it sends, so each round is a copy.
                {**params, "_meta": dict(params.get("_meta", {}))},
                on_progress=exchange.progress if exchange.wishes.has_progress else None,
            )
        except (ValidationError, anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            message = f"{self._name} answered what the protocol does not allow: {error}"
            raise UpstreamFailedError(message[:DETAIL_CHARS_MAX]) from error

    async def _sent_short(
        self, calls: ToolCalls, params: Mapping[str, Any], exchange: Exchange
    ) -> Json:
        """Return the answer to a call, which says of its client what that client said."""
        able = {mcp_types.CLIENT_CAPABILITIES_META_KEY: exchange.wishes.capabilities}

        async def hear(method: str, told: Json) -> None:
            if method == _LOG:
                await exchange.notify(method, told)

        sent = {**params, "_meta": {**params.get("_meta", {}), **able}}
        return await calls.sent(sent, hear=hear, bearer=exchange.wishes.bearer)

    async def _answers_to(self, interim: Json, serving: Serving) -> dict[str, object]:
        """Ask the client everything that the upstream asks, side by side.

        Raises:
            UpstreamFailedError: the client cannot answer, so the upstream cannot either.
        """
        questions = interim.get("inputRequests") or {}
        assert isinstance(questions, Mapping), "the SDK has checked the shape"
        if len(questions) > QUESTIONS_MAX:
            message = f"{self._name} asked {len(questions)} questions at once"
            raise UpstreamFailedError(message)
        answers: dict[str, object] = {}
        refused: list[str] = []

        async def answer(key: str, question: Mapping[str, Any]) -> None:
            try:
                answers[key] = await asked(
                    serving, question["method"], question.get("params") or {}
                )
            except AskRefusedError as error:
                refused.append(str(error))

        async with anyio.create_task_group() as tasks:
            for key, question in questions.items():
                tasks.start_soon(answer, key, question)
        if refused:
            message = f"{self._name} needs further input, and {refused[0]}"
            raise UpstreamFailedError(message)
        state = interim.get("requestState")
        found = {} if state is None else {"requestState": state}
        return {**found, "inputResponses": answers}


def said(name: UpstreamName, error: MCPError) -> UpstreamSaidError:
    """Return an upstream's error as a value of the house, without what looks like a secret."""
    words = redact_text(error.message)[:DETAIL_CHARS_MAX]
    return UpstreamSaidError(
        f"upstream {name}: [{error.code}] {words}",
        code=error.code,
        words=words,
        data=error.data,
    )
