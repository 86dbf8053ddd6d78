"""A model behind an OpenAI-compatible server, asked within a cap on what that may cost."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from governor.pricing import ModelPrice
from runtime.errors import RuntimeFaultError

Message = dict[str, str]

# As in the model gateway: a token stands for at least one byte, and this much around them.
_TOKENS_PER_REQUEST = 64
_TOKENS_PER_MESSAGE = 16
_SECONDS_MAX = 120.0
_ANSWER_SHOWN_CHARS = 200


class LiveModelError(RuntimeFaultError):
    """The model's server did not answer a request."""


class CapReachedError(RuntimeFaultError):
    """The next request could cost more than the cap leaves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the model said, and what that cost."""

    text: str
    cost_microusd: int


class LiveModel:
    """Asks one model; a request that could break the cap is not sent."""

    def __init__(
        self,
        client: httpx.Client,
        *,
        name: str,
        price: ModelPrice,
        cap_microusd: int,
        output_tokens_max: int,
    ) -> None:
        """Take a client whose base address ends before `/chat/completions`."""
        self._client = client
        self._name = name
        self._price = price
        self._cap_microusd = cap_microusd
        self._output_tokens_max = output_tokens_max
        self.spent_microusd = 0

    def ask(self, messages: Sequence[Message]) -> Asked:
        """Return the model's answer.

        Raises:
            CapReachedError: the request could cost more than the cap leaves; it was not sent.
            LiveModelError: no answer came; the most that the request can have cost is charged.
        """
        content = json.dumps(
            {
                "model": self._name,
                "messages": list(messages),
                "max_tokens": self._output_tokens_max,
            },
            ensure_ascii=False,
        ).encode()
        input_max = len(content) + _TOKENS_PER_REQUEST + _TOKENS_PER_MESSAGE * len(messages)
        cost_max = self._price.cost_microusd(
            input_tokens=input_max, output_tokens=self._output_tokens_max
        )
        if self.spent_microusd + cost_max > self._cap_microusd:
            raise CapReachedError
        # Charged before it is known: a request whose answer is lost was still billed.
        self.spent_microusd += cost_max
        body = self._sent(content)
        cost = min(self._cost_of(body.get("usage"), input_max=input_max), cost_max)
        self.spent_microusd += cost - cost_max
        return Asked(text=_text_of(body), cost_microusd=cost)

    def _sent(self, content: bytes) -> dict[str, Any]:
        try:
            answer = self._client.post(
                "chat/completions",
                content=content,
                headers={"Content-Type": "application/json"},
                timeout=_SECONDS_MAX,
            )
        except httpx.HTTPError as error:
            raise LiveModelError(f"{self._client.base_url}: {type(error).__name__} {error}") from (
                error
            )
        if answer.is_error:
            shown = answer.text[:_ANSWER_SHOWN_CHARS]
            raise LiveModelError(f"{self._client.base_url}: {answer.status_code}: {shown}")
        try:
            body = answer.json()
        except ValueError as error:
            raise LiveModelError(f"{self._client.base_url}: the answer is not JSON") from error
        if not isinstance(body, dict):
            raise LiveModelError(f"{self._client.base_url}: the answer is no JSON object")
        return body

    def _cost_of(self, usage: object, *, input_max: int) -> int:
        """Return the cost by the reported tokens, at the most where they cannot be true."""
        reported = usage if isinstance(usage, dict) else {}
        tokens_in, tokens_out = reported.get("prompt_tokens"), reported.get("completion_tokens")
        if not isinstance(tokens_in, int) or not 0 < tokens_in <= input_max:
            tokens_in = input_max
        if not isinstance(tokens_out, int) or not 0 <= tokens_out <= self._output_tokens_max:
            tokens_out = self._output_tokens_max
        return self._price.cost_microusd(input_tokens=tokens_in, output_tokens=tokens_out)


def _text_of(body: dict[str, Any]) -> str:
    try:
        text = body["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError) as error:
        raise LiveModelError("the model's server answered without a message") from error
    return text if isinstance(text, str) else ""
