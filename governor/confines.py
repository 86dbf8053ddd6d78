"""What a rule withholds from a local command: places of the network, files, devices."""

from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from governor.errors import InvalidPolicyError

PORT_MAX = 65_535
# What one program in the kernel looks through, and one person reads.
DESTINATIONS_MAX = 64
PATHS_MAX = 64
PATH_BYTES_MAX = 200
_NAME_CHARS_MAX = 253
_LABEL_CHARS_MAX = 63
_ANY = "*"

Network = IPv4Network | IPv6Network


class Devices(StrEnum):
    """Which device files a command may open."""

    HOST = "host"
    STANDARD = "standard"


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where a command may connect and send to: a name or a network, at one port or at all."""

    name: str | None = None
    network: Network | None = None
    port: int | None = None

    def __str__(self) -> str:
        """Return it as a rule says it."""
        place = self.name or str(self.network)
        if self.network is not None and self.network.version == 6:  # noqa: PLR2004 - IPv6
            place = f"[{place}]"
        return f"{place}:{_ANY if self.port is None else self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Confines:
    """What a command may not do, beside its limits.

    `network` is where it may connect, send and listen to; None is everywhere, and nothing is
    nowhere, this machine itself included. It can read and not change `read_only`, neither read
    nor change `hidden`, and start no program in `no_exec_from`.

    Raises:
        InvalidPolicyError: there is too much of something, or a path is not what it must be.
    """

    network: tuple[Destination, ...] | None = None
    read_only: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    no_exec_from: tuple[str, ...] = ()
    devices: Devices = Devices.HOST

    def __post_init__(self) -> None:
        """Refuse what could not be held."""
        if self.network is not None and len(self.network) > DESTINATIONS_MAX:
            raise InvalidPolicyError(f"network: name at most {DESTINATIONS_MAX} destinations")
        if len(self.paths) > PATHS_MAX:
            raise InvalidPolicyError(f"files: name at most {PATHS_MAX} paths")
        for path in self.paths:
            _check_path(path)

    @property
    def paths(self) -> tuple[str, ...]:
        """Return every path that something is withheld from."""
        return (*self.read_only, *self.hidden, *self.no_exec_from)

    @property
    def has_names(self) -> bool:
        """Tell whether a name must be resolved before the network can be confined."""
        return any(destination.name is not None for destination in self.network or ())


FREE = Confines()


def destination_of(text: str) -> Destination:
    """Return the destination that `host:port` names; the port may be `*`.

    The host is a DNS name, an address or a network; one of IPv6 stands in brackets.

    Raises:
        InvalidPolicyError: it names none.
    """
    host, colon, port_text = text.rpartition(":")
    if not colon or not host or (host.count(":") and not host.startswith("[")):
        raise InvalidPolicyError(
            f"{text!r} is no host:port; write example.org:443, 10.0.0.0/8:5432, "
            "[2001:db8::/32]:443, or * as the port for all"
        )
    return _placed(host, port=_port_of(port_text, text), text=text)


def _port_of(port_text: str, text: str) -> int | None:
    if port_text == _ANY:
        return None
    is_number = port_text.isascii() and port_text.isdigit() and len(port_text) <= len(str(PORT_MAX))
    if not is_number or not 1 <= int(port_text) <= PORT_MAX:
        raise InvalidPolicyError(f"{text!r}: the port is 1 to {PORT_MAX}, or * for all")
    return int(port_text)


def _placed(host: str, *, port: int | None, text: str) -> Destination:
    inside = host.removeprefix("[").removesuffix("]")
    try:
        return Destination(network=ip_network(inside), port=port)
    except ValueError as error:
        if _is_address(inside.partition("/")[0]):
            raise InvalidPolicyError(
                f"{text!r}: {error}; no bit may be set behind the mask"
            ) from error
    if not _is_name(host):
        raise InvalidPolicyError(f"{text!r}: {host!r} is neither a DNS name nor a network")
    return Destination(name=host.lower().removesuffix("."), port=port)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_name(host: str) -> bool:
    """Tell whether it can be looked up: labels of letters, digits and inner hyphens."""
    labels = host.removesuffix(".").split(".")
    is_numeric = all(label.isdigit() for label in labels)
    return len(host) <= _NAME_CHARS_MAX and not is_numeric and all(map(_is_label, labels))


def _is_label(label: str) -> bool:
    inner = label.replace("-", "").replace("_", "")
    return (
        0 < len(label) <= _LABEL_CHARS_MAX
        and inner.isascii()
        and inner.isalnum()
        and not label.startswith("-")
        and not label.endswith("-")
    )


def _check_path(path: str) -> None:
    """Refuse a path that is not absolute, plain and short, or that is everything."""
    before, *parts = path.split("/")
    if before or not parts or not {"", ".", ".."}.isdisjoint(parts):
        raise InvalidPolicyError(
            f"files: {path!r}: give an absolute path without '.' and '..' and without a '/' at "
            "its end; / itself cannot be withheld"
        )
    if len(path.encode()) > PATH_BYTES_MAX or "\0" in path:
        raise InvalidPolicyError(f"files: a path has at most {PATH_BYTES_MAX} bytes, and no NUL")
