"""The wire of a client whose tier's provider speaks another: metered there, told here."""

from collections.abc import Iterable, Mapping

from governor.tiers import ModelTier
from runtime.model_gateway.answer import Answer
from runtime.model_gateway.model_request import ModelRequest, Payload, WireName
from runtime.model_gateway.streams.events import EventCutter
from runtime.model_gateway.streams.relay import Outlet
from runtime.model_gateway.translation.translation import (
    TranslatedStream,
    Translation,
    translation_for,
)
from runtime.model_gateway.wires.wire import Served, StreamMeter, Wire


class TranslatedWire:
    """What a client says and hears in one wire, and a provider hears and says in another.

    Everything that costs is read in the provider's own words; only what the client is sent is
    translated, after it was counted.
    """

    def __init__(self, client: Wire, provider: Wire, translation: Translation) -> None:
        """Take both wires and what is between them."""
        self._client = client
        self._provider = provider
        self._translation = translation
        self.name: WireName = client.name
        self.path = provider.path

    def parse(self, content: bytes, *, headers: Mapping[str, str]) -> ModelRequest:
        """Return the client's request.

        Raises:
            InvalidRequestError: it is none of its wire.
        """
        return self._client.parse(content, headers=headers)

    def payload(
        self,
        request: ModelRequest,
        tier: ModelTier,
        *,
        note: str | None = None,
        output_tokens_max: int | None = None,
    ) -> Payload:
        """Return the request in the provider's words, as the tier serves it.

        Raises:
            InvalidRequestError: it cannot be said in them, or the tier does not serve it.
        """
        content = self._translation.request(
            request,
            output_tokens_max=tier.output_tokens_max,
            asks_for_usage=tier.asks_for_usage,
        )
        # Of the client's headers none is relayed: they are about its own wire.
        translated = self._provider.parse(content, headers={})
        return self._provider.payload(
            translated, tier, note=note, output_tokens_max=output_tokens_max
        )

    def headers(self, api_key: str | None, request: ModelRequest) -> Mapping[str, str]:
        """Return the headers that the provider's wire has."""
        return self._provider.headers(api_key, request)

    def served(self, content: bytes, payload: Payload, *, keeps_text: bool = False) -> Served:
        """Return what a whole answer of the provider's means."""
        return self._provider.served(content, payload, keeps_text=keeps_text)

    def meter(self, payload: Payload, *, keeps_text: bool = False) -> StreamMeter:
        """Return what hears the provider's stream."""
        return self._provider.meter(payload, keeps_text=keeps_text)

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
        """Return an error in the client's envelope."""
        return self._client.error(
            status, message, kind=kind, code=code, param=param, headers=headers
        )

    def told(self, content: bytes, *, status: int, now_ms: int) -> bytes:
        """Return a whole answer of the provider's in the client's words."""
        return self._translation.answer(content, status=status, now_s=now_ms // 1000)

    def outlet(self, outlet: Outlet, request: ModelRequest, *, now_ms: int) -> "TranslatingOutlet":
        """Return where the provider's events go to reach the client in its own words."""
        stream = self._translation.stream(request, now_s=now_ms // 1000)
        return TranslatingOutlet(outlet, stream)


class TranslatingOutlet:
    """Translates each event on its way to the client."""

    __slots__ = ("_cutter", "_outlet", "_stream")

    def __init__(self, outlet: Outlet, stream: TranslatedStream) -> None:
        """Take where the events go, and what tells them."""
        self._outlet = outlet
        self._stream = stream
        self._cutter = EventCutter()

    @property
    def has_begun(self) -> bool:
        """Tell whether the client was sent anything."""
        return self._outlet.has_begun

    async def relay(self, events: bytes) -> None:
        """Send what whole events mean, if that is anything."""
        told = b"".join(self._stream.hear(event) for event in self._cutter.cut(events))
        if told:
            await self._outlet.relay(told)

    async def finish(self) -> None:
        """Send the client's own end, where the provider left out its last words."""
        rest = self._stream.hear(self._cutter.rest) + self._stream.end()
        if rest:
            await self._outlet.relay(rest)


def by_name(wires: Iterable[Wire]) -> Mapping[str, Wire]:
    """Return the wires by the format that they speak: of several of one the first."""
    known: dict[str, Wire] = {}
    for wire in wires:
        known.setdefault(wire.name, wire)
    return known


def wire_to(client: Wire, tier: ModelTier, known: Mapping[str, Wire]) -> Wire | None:
    """Return how a client of one wire is served by a tier; None: not at all.

    A wire that the tier's provider speaks itself is relayed as it is. `known` are all wires by
    name; what a format has beside its messages, such as a count of their tokens, is not told.
    """
    if client.name in tier.wires:
        return client
    if known.get(client.name) is not client:
        return None
    spoken = {WireName(name) for name in tier.wires if name in known}
    translation = translation_for(client.name, spoken)
    if translation is None:
        return None
    return TranslatedWire(client, known[translation.provider], translation)
