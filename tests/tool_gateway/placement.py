"""What stands for the machine where servers are started as they are."""

from collections.abc import Mapping, Sequence

from governor.amounts import Unit
from governor.usage import OF_PROBES, OF_THE_MACHINE
from tool_gateway.server_ports import ServerLimits, ServerUse


class Unfenced:
    """Starts servers without domains, and measures nothing."""

    server_unmeasurable: Mapping[Unit, str] = dict.fromkeys(
        (*OF_THE_MACHINE, *OF_PROBES), "nothing is fenced"
    )

    def wrap_server(
        self, name: str, argv: Sequence[str], limits: ServerLimits | None = None
    ) -> tuple[str, ...]:
        return tuple(argv)

    def server_started(self, name: str, pid: int) -> None:
        pass

    async def server_processes(self, name: str) -> tuple[int, ...]:
        return ()

    def server_use(self, name: str) -> ServerUse | None:
        return None

    def server_refused(self, name: str) -> str:
        return ""

    def server_killed_by(self, name: str) -> str:
        return ""

    async def server_over(self, name: str) -> str:
        raise NotImplementedError

    async def end_server(self, name: str) -> None:
        pass
