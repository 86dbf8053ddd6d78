"""The keys of rules about what local commands may reach, change, start and open."""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from ebpf.custom.shelf import PROBES_MAX
from governor.confines import DESTINATIONS_MAX, FREE, PATHS_MAX, Confines, Devices, destination_of
from governor.errors import InvalidPolicyError
from runtime.configuration.table import Name, Positive, Table
from runtime.errors import ConfigError
from tool_gateway.shell import LOCAL_TOOLS, SHELL_RUN

_Paths = Annotated[tuple[str, ...], Field(max_length=PATHS_MAX)]


class FilesTable(Table):
    """Paths, with all that is beneath them, that are withheld from a command."""

    read_only: _Paths = ()
    hidden: _Paths = ()
    no_exec_from: _Paths = ()


class ConfinesTable(Table):
    """What a rule withholds from local commands; unset, nothing."""

    network: (
        Literal["none"]
        | Annotated[tuple[str, ...], Field(min_length=1, max_length=DESTINATIONS_MAX)]
        | None
    ) = None
    files: FilesTable = FilesTable()
    devices: Devices = Devices.HOST
    probe_limits: Annotated[dict[Name, Positive], Field(max_length=PROBES_MAX)] = Field(
        default_factory=dict
    )

    @field_validator("network", mode="before")
    @classmethod
    def _names_destinations(cls, value: object) -> object:
        if value == "none" or value is None:
            return value
        if not isinstance(value, (list, tuple)) or not value:
            raise ValueError('use "none", or a list such as ["example.org:443", "10.0.0.0/8:5432"]')
        for entry in value:
            if not isinstance(entry, str):
                raise ValueError("expected a list of texts such as example.org:443")  # noqa: TRY004
            try:
                destination_of(entry)
            except InvalidPolicyError as error:
                raise ValueError(str(error)) from error
        return value


def confines_of(table: ConfinesTable, *, where: str, tool: str) -> Confines:
    """Return what a rule for these tools withholds.

    Raises:
        ConfigError: it withholds something from what is no local command.
        InvalidPolicyError: a path is none that can be withheld.
    """
    network = table.network
    if network is not None:
        network = () if network == "none" else network
    found = Confines(
        network=None if network is None else tuple(map(destination_of, network)),
        read_only=table.files.read_only,
        hidden=table.files.hidden,
        no_exec_from=table.files.no_exec_from,
        devices=table.devices,
    )
    if (found != FREE or table.probe_limits) and tool not in LOCAL_TOOLS:
        raise ConfigError(
            f"{where}: network, files, devices and probe_limits are for local commands; move them "
            f'into a rule with tool = "{SHELL_RUN}"'
        )
    return found
