"""The tree of control groups: an instance's, its tenants', their sessions', their calls'."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio.to_thread

from ebpf.command import Level
from ebpf.domains.controlled import ControlledDomain, Stage
from ebpf.domains.controls import Controls, Directories, Reins, ShortageCount
from ebpf.domains.groups import child_groups, find_groups, is_there, remove_group, remove_groups
from ebpf.domains.hierarchies import Hierarchy
from ebpf.domains.kernel_log import KernelLog
from ebpf.domains.place import Place, ServerPlace
from ebpf.errors import DomainError
from governor.limits import UNLIMITED, ExecutionLimits, SharedLimits, shared_part

# What a session's calls, or a tenant's, may have together: (tenant, session or None).
SharedLimitsOf = Callable[[str, str | None], SharedLimits]

_LEVELS = (Level.MACHINE, Level.TENANT, Level.SESSION)


def shared_limits(*, tenant: SharedLimits, session: SharedLimits) -> SharedLimitsOf:
    """Return the same limits for every tenant, and for every session."""
    return lambda _tenant, name: tenant if name is None else session


@dataclass(slots=True, kw_only=True, eq=False)
class _Branch:
    """A group that others stand in, as long as somebody does."""

    stage: Stage
    users: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBackend:
    """What domains are made of: how limits are held, and how everything is ended at once."""

    controls: Controls
    reins: Reins

    @property
    def hierarchies(self) -> tuple[str, ...]:
        """Return where every group has a directory; the one to kill in last."""
        names = (*self.controls.hierarchies, self.reins.hierarchy)
        # A process that is in the last is in all, so killing what is there misses none.
        return tuple(dict.fromkeys(reversed(names)))[::-1]


@dataclass(slots=True, kw_only=True)
class _Making:
    """The directories that one attempt has made so far."""

    made: list[Path] = field(default_factory=list)

    def directory(self, path: Path) -> Path:
        path.mkdir()
        self.made.append(path)
        return path


class GroupDomains:
    """Makes domains at `<own group>/flyball-<instance>-<pid>/<tenant>/<session>/<call>`.

    Each process has a base of its own, so that who still ends what a dead sidecar left cannot
    reach what its successor has started already. A tenant's and a session's group are made for
    their first call and removed after their last.
    """

    def __init__(
        self,
        backend: GroupBackend,
        hierarchies: Mapping[str, Hierarchy],
        *,
        instance: str,
        pid: int | None = None,
        limits_of: SharedLimitsOf = lambda _tenant, _session: UNLIMITED,
    ) -> None:
        """Take the place of this process in each hierarchy, and what groups share."""
        self._backend = backend
        self._hierarchies = hierarchies
        self._prefix = f"flyball-{instance}"
        self._base_name = f"{self._prefix}-{os.getpid() if pid is None else pid}"
        self._limits_of = limits_of
        self._branches: dict[tuple[str, ...], _Branch] = {}
        self._live: set[tuple[str, ...]] = set()
        self._log = KernelLog()

    @property
    def bases(self) -> Mapping[str, Path]:
        """Return the group of this process in each hierarchy that domains need."""
        return {name: self._base(name) for name in self._backend.hierarchies}

    @property
    def groups(self) -> tuple[Path, ...]:
        """Return what all domains of this process are beneath, the one to kill in last."""
        io = self._backend.controls.io_hierarchy
        extra = [self._base(io)] if io is not None and io in self._hierarchies else []
        return tuple(dict.fromkeys((*extra, *self.bases.values())))

    def _base(self, hierarchy: str) -> Path:
        return self._hierarchies[hierarchy].own / self._base_name

    def session_directories(self, tenant: str, session: str) -> Directories | None:
        """Return the groups that a session's domains stand in; None while there is none."""
        branch = self._branches.get(Place(tenant=tenant, session=session, call="any").path[:2])
        return None if branch is None else branch.stage.directories

    def make(self, place: Place | ServerPlace, limits: ExecutionLimits | None) -> ControlledDomain:
        """Return a new domain with the limits that the kernel holds for it."""
        path = place.path
        if path in self._live:
            message = f"{'/'.join(path)}: a domain of this name exists"
            raise DomainError(message)
        shared = self._shared_along(place)
        own = UNLIMITED if limits is None else shared_part(limits)
        names = self._names_for((own, *shared))
        try:
            try:
                return self._attempt(place, names, own, shared)
            except FileNotFoundError:
                # Somebody removed a group that its next call was to stand in: it is made anew.
                self._forget(path)
                return self._attempt(place, names, own, shared)
        except OSError as error:
            message = f"{path[-1]}: its control groups cannot be made"
            raise DomainError(message) from error

    def _shared_along(self, place: Place | ServerPlace) -> list[SharedLimits]:
        """Return the limits of each group from the base to the one that the place is in."""
        if isinstance(place, ServerPlace):
            return [UNLIMITED, UNLIMITED]
        return [
            UNLIMITED,
            self._limits_of(place.tenant, None),
            self._limits_of(place.tenant, place.session),
        ]

    def _names_for(self, limits: Iterable[SharedLimits]) -> tuple[str, ...]:
        """Return the hierarchies to stand in; that of the disks alone only where it is needed."""
        io = self._backend.controls.io_hierarchy
        needs_io = any(one.io_read_bps or one.io_write_bps for one in limits)
        if io is None or not needs_io or io not in self._hierarchies:
            return self._backend.hierarchies
        return (io, *self._backend.hierarchies)

    def _attempt(
        self,
        place: Place | ServerPlace,
        names: tuple[str, ...],
        own: SharedLimits,
        shared: list[SharedLimits],
    ) -> ControlledDomain:
        path = place.path
        making = _Making()
        entered: list[tuple[str, ...]] = []
        try:
            for depth, limits in enumerate(shared):
                self._enter(path[:depth], names, limits)
                entered.append(path[:depth])
            directories = self._directories(path, names, making)
            self._backend.controls.put(directories, own, before=UNLIMITED, leaf=True)
            if place.ends_together:
                self._backend.controls.end_together(directories)
        except BaseException:
            for directory in making.made:
                remove_group(directory)  # nothing has entered yet
            for branch in reversed(entered):
                self._leave(branch)
            raise
        self._live.add(path)
        return ControlledDomain(
            self._backend.controls,
            self._backend.reins,
            chain=(
                Stage(
                    level=Level.CALL,
                    directories=directories,
                    limits=own,
                    shortages=self._backend.controls.shortages_of(directories),
                ),
                *(self._branches[branch].stage for branch in reversed(entered)),
            ),
            log=self._log,
            removed=lambda: self._removed(path),
        )

    def _directories(
        self, path: tuple[str, ...], names: tuple[str, ...], making: _Making
    ) -> dict[str, Path]:
        """Make a directory in each hierarchy; those mounted together share one."""
        found: dict[str, Path] = {}
        for name in names:
            place = self._base(name).joinpath(*path)
            found[name] = place if place in found.values() else making.directory(place)
        return found

    def _enter(self, path: tuple[str, ...], names: tuple[str, ...], limits: SharedLimits) -> None:
        """Have one user more in a shared group, which is made for the first one."""
        branch = self._branches.get(path)
        if branch is None or not set(names) <= set(branch.stage.directories):
            branch = self._grow(path, names, limits, branch)
        branch.users += 1

    def _grow(
        self,
        path: tuple[str, ...],
        names: tuple[str, ...],
        limits: SharedLimits,
        branch: _Branch | None,
    ) -> _Branch:
        controls = self._backend.controls
        before = {} if branch is None else branch.stage.directories
        directories = {**before, **{name: self._base(name).joinpath(*path) for name in names}}
        try:
            for directory in dict.fromkeys(directories.values()):
                directory.mkdir(exist_ok=True)
            if branch is None:
                controls.open_up(directories)
            # What a hierarchy that was added holds was never put in force.
            put = UNLIMITED if branch is None else _without_io(branch.stage.limits)
            controls.put(directories, limits, before=put, leaf=False)
        except BaseException:
            if branch is None:
                for directory in dict.fromkeys(directories.values()):
                    remove_group(directory)
            raise
        if branch is None:
            level = _LEVELS[len(path)]
            shortages = self._counting(level, directories)
            stage = Stage(level=level, directories=directories, limits=limits, shortages=shortages)
            branch = self._branches[path] = _Branch(stage=stage)
        else:
            branch.stage.directories = directories
            branch.stage.limits = limits
        return branch

    def _counting(self, level: Level, directories: Directories) -> ShortageCount:
        controls = self._backend.controls
        if level is Level.MACHINE:
            return controls.shortages_above(directories)
        return controls.shortages_of(directories)

    def _forget(self, path: tuple[str, ...]) -> None:
        """Look anew at the groups along a path: some of their directories are gone.

        A branch keeps its users: whoever is beneath what is left ends as if nothing had been.
        """
        for depth in range(len(path)):
            branch = self._branches.get(path[:depth])
            if branch is None:
                continue
            for directory in dict.fromkeys(branch.stage.directories.values()):
                directory.mkdir(exist_ok=True)
            self._backend.controls.open_up(branch.stage.directories)
            self._backend.controls.put(
                branch.stage.directories, branch.stage.limits, before=UNLIMITED, leaf=False
            )
            branch.stage.shortages.close()
            branch.stage.shortages = self._counting(branch.stage.level, branch.stage.directories)

    def _removed(self, path: tuple[str, ...]) -> None:
        """Forget a domain whose directories are gone, and the groups that it was last in."""
        self._live.discard(path)
        for depth in reversed(range(len(path))):
            self._leave(path[:depth])

    def _leave(self, path: tuple[str, ...]) -> None:
        branch = self._branches[path]
        branch.users -= 1
        if branch.users:
            return
        del self._branches[path]
        branch.stage.shortages.close()
        for directory in dict.fromkeys(branch.stage.directories.values()):
            remove_group(directory)  # stays where a dead sidecar's domains are inside

    async def sweep(self) -> int:
        """Kill and remove what a dead sidecar of this instance left; return how many."""
        # A sidecar that is started anew may stand elsewhere, so its predecessor's place is
        # searched for, not computed.
        bases = await anyio.to_thread.run_sync(self._find_bases)
        live = {base.joinpath(*path) for base in self.groups for path in self._live}
        strays = [stray for base in bases for stray in _strays(base, live)]
        leaves = [leaf for stray in strays for leaf in _leaves(stray) if leaf not in bases]
        swept = len({_place_in(leaf, bases) for leaf in leaves})
        killed = self._hierarchies[self._backend.reins.hierarchy].mount
        for stray in strays:
            if stray.is_relative_to(killed):
                await self._kill_stray(stray)
        await remove_groups(group for stray in strays for group in _bottom_up(stray))
        return swept

    async def _kill_stray(self, group: Path) -> None:
        try:
            await self._backend.reins.kill(group)
        except DomainError:
            if not _are_removed(group):
                raise  # else the dead sidecar's own warden was faster

    def _find_bases(self) -> list[Path]:
        """Return the bases of all processes of this instance, in every hierarchy."""
        mounts = dict.fromkeys(hierarchy.mount for hierarchy in self._hierarchies.values())
        return [base for mount in mounts for base in find_groups(mount, self._prefix)]


def _without_io(limits: SharedLimits) -> SharedLimits:
    return replace(limits, io_read_bps=None, io_write_bps=None)


def _strays(group: Path, live: set[Path]) -> list[Path]:
    """Return the widest groups beneath this one, itself perhaps, that hold nothing of `live`."""
    if not any(path.is_relative_to(group) for path in live):
        return [group]
    if group in live:
        return []
    return [stray for child in child_groups(group) for stray in _strays(child, live)]


def _leaves(group: Path) -> list[Path]:
    children = child_groups(group)
    return [leaf for child in children for leaf in _leaves(child)] if children else [group]


def _bottom_up(group: Path) -> list[Path]:
    """Return a group and all beneath it, the innermost first."""
    return [path for child in child_groups(group) for path in _bottom_up(child)] + [group]


def _place_in(leaf: Path, bases: Iterable[Path]) -> tuple[str, ...]:
    for base in bases:
        if leaf.is_relative_to(base):
            return (base.name, *leaf.relative_to(base).parts)
    raise AssertionError(leaf)


def _are_removed(group: Path) -> bool:
    """Remove a group with all beneath it, as far as they are empty; tell whether it is gone."""
    for path in _bottom_up(group):
        remove_group(path)
    return not is_there(group)
