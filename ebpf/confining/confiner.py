"""Holding one domain to what its rule allows, from before its first process to its end."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import anyio

from ebpf.command import EndCause
from ebpf.confining.files import FILES, FilePrograms
from ebpf.confining.names import FRESH_SECONDS, NameBook
from ebpf.confining.places import domain_of, networks_of, place_key, resolver_keys
from ebpf.confining.programs import Programs
from governor.amounts import Unit
from governor.confines import Confines

_REFUSALS_TOLD = 5


class Confiner:
    """Holds domains to their confines; the programs are loaded when the first needs them."""

    def __init__(self, names: NameBook | None = None) -> None:
        """Take who knows the addresses of names."""
        self._names = names or NameBook()
        self._programs: Programs | None = None
        self._file_programs: FilePrograms | None = None

    async def hold(self, group: Path, confines: Confines, *, programs: Sequence[str]) -> "Held":
        """Return what holds a domain, by these programs, from now on; nothing runs in it yet.

        Raises:
            ProbeError: it cannot be held, so nothing must run in it.
        """
        if self._programs is None:
            self._programs = Programs()
        held = Held(self._programs, self._names, domain=domain_of(group), confines=confines)
        try:
            self._programs.hang([name for name in programs if name not in FILES], group)
            if FILES[0] in programs:
                held.withhold(self._loaded_file_programs(), group)
            await held.refresh()
        except BaseException:
            # Nobody has it yet who would close it, and what is kept of a domain is limited.
            held.close()
            raise
        return held

    def _loaded_file_programs(self) -> FilePrograms:
        if self._file_programs is None:
            self._file_programs = FilePrograms()
        return self._file_programs


class Held:
    """One domain with its confines; an attachment that ends no command."""

    def __init__(
        self, programs: Programs, names: NameBook, *, domain: int, confines: Confines
    ) -> None:
        """Take a domain to which nothing is open yet."""
        self._programs = programs
        self._names = names
        self._domain = domain
        self._confines = confines
        self._open: set[bytes] = set()
        self._withheld: tuple[FilePrograms, tuple[bytes, ...]] | None = None

    def withhold(self, programs: FilePrograms, group: Path) -> None:
        """Withhold what Landlock leaves open of the rule's paths.

        Raises:
            ProbeError: the kernel refused.
        """
        self._withheld = (programs, programs.hang(group, self._confines))

    async def refresh(self) -> None:
        """Open the places of the rule, at the addresses that its names have now.

        What a name stood for when the command began stays open: the command may have asked then.

        Raises:
            ProbeError: the kernel refused.
        """
        wanted = set[bytes]()
        for destination in self._confines.network or ():
            name = destination.name
            addresses = () if name is None else await self._names.addresses(name)
            wanted.update(
                place_key(self._domain, network, destination.port)
                for network in networks_of(destination, addresses)
            )
        if self._confines.has_names:
            wanted.update(resolver_keys(self._domain, self._names.resolvers()))
        added = wanted - self._open
        self._open |= added
        self._programs.allow(added)

    def measured(self) -> Mapping[Unit, int]:
        """Return nothing: it counts no unit."""
        return {}

    async def exceeded(self) -> NoReturn:
        """Follow the names as long as the command runs."""
        while self._confines.has_names:
            await anyio.sleep(FRESH_SECONDS)
            await self.refresh()
        await anyio.sleep_forever()
        raise AssertionError

    def ended_by(self) -> EndCause | None:
        """Return None: who is refused something goes on."""
        return None

    async def drain(self, *, seconds_max: float) -> None:
        """Wait for nothing: what it keeps back is never on its way."""

    def notes(self) -> tuple[str, ...]:
        """Return nothing: what was refused is told however a command ended."""
        return ()

    def refused(self) -> tuple[str, ...]:
        """Return who tried what in vain, after how often that was."""
        total = self._programs.denials(self._domain)
        at_files = 0 if self._withheld is None else self._withheld[0].denials(self._domain)
        if not total + at_files:
            return ()
        found = sorted(self._programs.refusals(self._domain), key=lambda one: -one.count)
        told = [str(one) for one in found[:_REFUSALS_TOLD]]
        if len(found) > _REFUSALS_TOLD:
            told.append(f"and {len(found) - _REFUSALS_TOLD} places more")
        if at_files:
            told.append(f"{at_files} at files that it withholds")
        count = total + at_files
        tried = "1 attempt was" if count == 1 else f"{count} attempts were"
        return (f"{tried} refused by the rule", *told)

    def close(self) -> None:
        """Forget the domain, whose group is removed next."""
        self._programs.close(self._open)
        self._programs.forget(self._domain)
        if self._withheld is not None:
            programs, keys = self._withheld
            programs.forget(self._domain, keys)
