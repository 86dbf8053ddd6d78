"""The exchange of a request on the short way in: its client is told and asked nothing meanwhile."""

from governor.ids import SessionId
from tool_gateway.bearer import Bearer
from tool_gateway.exchange import AskRefusedError, Wishes
from tool_gateway.front.exchanges import OF_THE_LEG
from tool_gateway.results import OUR_META, Json

_INVALID_REQUEST = -32_600


class ShortExchange:
    """One call of a client that wants to hear nothing before the answer.

    A server of the era without sessions asks in its answer, which the client gets as it is.
    """

    __slots__ = ("session", "wishes")

    def __init__(
        self, session: SessionId, *, capabilities: Json, meta: Json, bearer: Bearer | None
    ) -> None:
        """Take who is charged, and what the request says beside its subject."""
        self.session: SessionId | None = session
        handed_on = {
            key: value
            for key, value in meta.items()
            if key not in OF_THE_LEG and not key.startswith(OUR_META)
        }
        self.wishes = Wishes(
            capabilities=capabilities,
            meta=handed_on,
            extras={},
            retries_itself=True,
            bearer=bearer,
        )

    async def notify(self, method: str, params: Json) -> None:
        """Tell nothing: the request asked for nothing to be told."""

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Tell nothing: the request gave no token."""

    async def ask(self, method: str, params: Json) -> Json:
        """Refuse.

        Raises:
            AskRefusedError: always.
        """
        raise AskRefusedError(f"{method}: this client is asked in answers", code=_INVALID_REQUEST)
