"""OpenAI's embeddings format."""

from collections.abc import Mapping, Sequence

from governor.tiers import ModelTier, PromptFacts
from runtime.model_gateway.counting.bounds import input_tokens_max
from runtime.model_gateway.counting.reports import openai_usage
from runtime.model_gateway.measured import Produced
from runtime.model_gateway.model_request import ModelRequest, Payload, WireName
from runtime.model_gateway.wires.fields import (
    Object,
    body_in,
    encoded,
    fault,
    flag_in,
    is_whole_number,
    model_in,
)
from runtime.model_gateway.wires.openai_wire import OpenAIWire
from runtime.model_gateway.wires.sse import object_of
from runtime.model_gateway.wires.wire import Served, StreamMeter, served_instead

INPUTS_MAX = 8_192


class OpenAIEmbeddings(OpenAIWire):
    """The wire of /v1/embeddings: an answer without a text, and never a stream."""

    name = WireName.OPENAI_EMBEDDINGS
    path = "/embeddings"

    def parse(
        self,
        content: bytes,
        *,
        headers: Mapping[str, str],
    ) -> ModelRequest:
        """Return the request in a body.

        Raises:
            InvalidRequestError: it is no request for embeddings.
        """
        fields = body_in(content)
        model = model_in(fields)
        if flag_in(fields, "stream"):
            raise fault("stream", "embeddings are not streamed; leave it out")
        inputs = _inputs(fields)
        texts = [text for text in inputs if isinstance(text, str)]
        return ModelRequest(
            wire=self.name,
            model=model,
            fields=fields,
            body_bytes=len(content),
            is_streamed=False,
            asks_for_usage=True,
            output_tokens_asked=0,
            messages_count=len(inputs),
            # These are texts to be indexed, nobody's words to an agent.
            opening="",
            facts=PromptFacts(
                text=texts[-1] if texts else "",
                chars=sum(len(text) for text in texts),
                has_tools=False,
            ),
        )

    def payload(
        self,
        request: ModelRequest,
        tier: ModelTier,
        *,
        note: str | None = None,
        output_tokens_max: int | None = None,
    ) -> Payload:
        """Return the request as `tier` serves it."""
        content = encoded({**request.fields, "model": tier.model})
        return Payload(
            request=request,
            model=tier.model,
            content=content,
            input_tokens_max=input_tokens_max(
                content_bytes=len(content),
                messages=request.messages_count,
                tools=0,
                images=(),
                tier=tier,
                content=content,
            ),
            output_tokens_max=0,
        )

    def served(
        self,
        content: bytes,
        payload: Payload,
        *,
        keeps_text: bool = False,
    ) -> Served:
        """Return what a whole answer with status 200 means."""
        body = object_of(content)
        if body is None:
            return Served(fault="the provider's answer is not a JSON object")
        if body.get("error") or not isinstance(body.get("data"), list):
            return served_instead(body, of="list", wanted="embeddings")
        return Served(reported=openai_usage(body.get("usage")), produced=Produced())

    def meter(self, payload: Payload, *, keeps_text: bool = False) -> StreamMeter:
        """Say that there is no stream to hear: a request for one is refused when it is read."""
        message = "embeddings are not streamed"
        raise NotImplementedError(message)


def _inputs(fields: Object) -> Sequence[object]:
    """Return what is to be embedded, one entry for each embedding."""
    value = fields.get("input")
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list) or not value:
        raise fault("input", "send a text, a list of texts, or lists of token numbers")
    if all(is_whole_number(token) for token in value):
        return (value,)
    if len(value) > INPUTS_MAX:
        raise fault("input", f"{len(value)} entries; at most {INPUTS_MAX} are served")
    for number, entry in enumerate(value):
        is_tokens = isinstance(entry, list) and all(is_whole_number(token) for token in entry)
        if not isinstance(entry, str) and not is_tokens:
            # An address of an image or a file would be read at the provider's.
            raise fault(f"input.{number}", "use a text or a list of token numbers")
    return value
