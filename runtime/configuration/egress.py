"""Where the connections to what a table names may lead."""

from pydantic import field_validator

from runtime.configuration.table import Flag, Table
from tool_gateway.egress.reach import Reach, network_of


class EgressTable(Table):
    """What a URL's name may lead to beside public addresses; an address stands for itself."""

    allow_private: Flag = False
    allow_networks: tuple[str, ...] = ()

    @field_validator("allow_networks")
    @classmethod
    def _are_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for text in value:
            try:
                network_of(text)
            except ValueError:
                raise ValueError(
                    f'{text!r:.80} is no network; write "10.0.0.0/8", or a single address'
                ) from None
        return value

    def reach(self, *, is_named: bool = True) -> Reach:
        """Return what may be reached; what a server named has nothing of its own word."""
        return Reach(
            is_named=is_named,
            is_private=self.allow_private,
            networks=tuple(map(network_of, self.allow_networks)),
        )
