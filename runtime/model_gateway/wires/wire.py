"""The seam between the gateway and a wire format: what is read of a request and of its answer.

A wire knows its bytes and nothing of budgets, providers or time. All of it is pure: requests
and answers come as bytes and leave as bytes, and a stream is heard event by event.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from governor.tiers import ModelTier
from runtime.model_gateway.answer import Answer
from runtime.model_gateway.counting.reports import Reported
from runtime.model_gateway.measured import Measured, Produced
from runtime.model_gateway.model_request import ModelRequest, Payload, WireName

# What the answers of the APIs that there are call themselves; no other word is ever quoted.
_KINDS = frozenset({"chat.completion", "text_completion", "response", "message", "list"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What a whole answer with status 200 means.

    `fault` is why it is no answer, "" where it is one; it is kept in records, so it never quotes
    the provider. `reported` is the provider's usage, which nobody has judged yet. `produced` is
    what the answer holds, where that usage is missing or odd. `is_foreign` where it is an answer
    of another API than was asked.
    """

    reported: Reported | None = None
    fault: str = ""
    is_foreign: bool = False
    produced: Produced | None = None


def served_instead(
    body: Mapping[str, object], *, of: str, wanted: str, reported: Reported | None = None
) -> Served:
    """Return what an object is that lacks what was `wanted`; `of` is what such answers call it."""
    if body.get("error") or body.get("type") == "error":
        fault = f"the provider's answer holds an error in place of {wanted}"
        return Served(reported=reported, fault=fault)
    for kind in (body.get("object"), body.get("type")):
        if isinstance(kind, str) and kind != of and kind in _KINDS:
            fault = f"the provider's answer is a {kind} in place of {wanted}"
            return Served(reported=reported, fault=fault, is_foreign=True)
    return Served(reported=reported, fault=f"the provider's answer holds nothing like {wanted}")


class StreamMeter(Protocol):
    """Hears every event of one streamed answer."""

    @property
    def reported(self) -> Reported | None:
        """Return the provider's usage as far as it was heard; output may still grow.

        Nobody has judged it yet; it says how much had been written when it was heard.
        """
        ...

    @property
    def produced(self) -> Produced:
        """Return what was written so far."""
        ...

    @property
    def is_finished(self) -> bool:
        """Tell whether the wire's own end was heard."""
        ...

    @property
    def is_whole(self) -> bool:
        """Tell whether nothing is missing of the answer, though its end may not have been heard.

        It is asked where the provider has closed the stream in good order: some leave out the end.
        """
        ...

    @property
    def fault(self) -> str:
        """Return what was wrong with the stream, "" while it is well; never a quotation."""
        ...

    def hear(self, event: bytes) -> bool:
        """Take a whole event, as sent, with its blank line; False: it is not to be relayed."""
        ...

    def cut(self, usage: Measured | None) -> bytes:
        """Return the events that end the stream for reaching its length.

        An official client reads them as an answer that ends there; `usage` is told where the
        client asked for it. What is open is closed first.
        """
        ...

    def failure(self, message: str, *, code: str) -> bytes:
        """Return the wire's own error event, for a stream that cannot go on."""
        ...


class Wire(Protocol):
    """One wire format."""

    @property
    def name(self) -> WireName:
        """Return which one it is."""
        ...

    @property
    def path(self) -> str:
        """Return where requests go below the provider's base_url, such as /chat/completions."""
        ...

    def parse(self, content: bytes, *, headers: Mapping[str, str]) -> ModelRequest:
        """Return the request in a body; `headers` are the client's, in lower case.

        Raises:
            InvalidRequestError: it is not a request of this wire, or asks for what is not served.
        """
        ...

    def payload(
        self,
        request: ModelRequest,
        tier: ModelTier,
        *,
        note: str | None = None,
        output_tokens_max: int | None = None,
    ) -> Payload:
        """Return a request as `tier` serves it.

        `note` is told to the model with its instructions, and counted like them.
        `output_tokens_max` bounds each choice more tightly than the tier and the client do.

        Raises:
            InvalidRequestError: the tier does not serve what the request asks for.
        """
        ...

    def headers(self, api_key: str | None, request: ModelRequest) -> Mapping[str, str]:
        """Return the headers that this wire has the provider get.

        Those are the credentials, a version, and what of the client's own is relayed.
        """
        ...

    def served(self, content: bytes, payload: Payload, *, keeps_text: bool = False) -> Served:
        """Return what a whole answer with status 200 means; `keeps_text` is for a tokenizer."""
        ...

    def meter(self, payload: Payload, *, keeps_text: bool = False) -> StreamMeter:
        """Return what hears the stream that answers `payload`."""
        ...

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
        """Return an error in this wire's envelope."""
        ...
