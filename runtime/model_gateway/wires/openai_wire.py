"""What all wires of OpenAI share: how a key is shown, and how an error is said."""

from collections.abc import Mapping

from runtime.model_gateway.answer import Answer
from runtime.model_gateway.model_request import ModelRequest
from runtime.model_gateway.wires.openai_errors import openai_error


class OpenAIWire:
    """One of OpenAI's wires."""

    def headers(self, api_key: str | None, request: ModelRequest) -> Mapping[str, str]:
        """Return the credentials."""
        return {} if api_key is None else {"authorization": f"Bearer {api_key}"}

    def error(
        self,
        status: int,
        message: str,
        *,
        kind: str,
        code: str,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Return an error as OpenAI's clients read it."""
        return openai_error(status, message, kind=kind, code=code, param=param, headers=headers)
