"""The errors of this package: the machine could not do what was asked of it."""


class EbpfError(Exception):
    """The machine could not do what was asked of it."""

    def __init__(self, message: str | None = None) -> None:
        """Take the class's docstring as the message when none is given."""
        super().__init__(message or type(self).__doc__)


class CapabilityMissingError(EbpfError):
    """This host cannot do what the executor was asked to guarantee."""


class EnergyUnknownError(EbpfError):
    """What the machine drew is not known."""


class DomainError(EbpfError):
    """A domain could not be made, read, emptied or removed."""


class ProbeError(EbpfError):
    """A program in the kernel could not be loaded, attached, asked or pinned."""


class LaunchError(EbpfError):
    """A command could not be started inside its domain.

    `exit_code` is what a shell would have answered: 127 where there is no such command,
    126 where there is one that cannot be run.
    """

    exit_code = 126


class CommandNotFoundError(LaunchError):
    """There is no such command."""

    exit_code = 127


class CommandNotExecutableError(LaunchError):
    """The command exists and cannot be executed."""


class WorkingDirectoryError(LaunchError):
    """The working directory does not exist or may not be entered."""
