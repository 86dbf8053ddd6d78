"""Finding what installed packages offer, and loading what the operator named of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from runtime.errors import ConfigError
from runtime.plugins.failing import PluginError, faults_contained
from runtime.plugins.protocols import Estimator, Guard, Notifier


class Group(StrEnum):
    """What a plug-in is, by the group of its entry point."""

    GUARD = "flyball.guards"
    ESTIMATOR = "flyball.estimators"
    UPSTREAM_KIND = "flyball.upstream_kinds"
    NOTIFIER = "flyball.notifiers"

    @property
    def word(self) -> str:
        """Return it in a word."""
        return self.value.removeprefix("flyball.").removesuffix("s").replace("_", " ")


# What one must be able to do; a kind of upstreams is only called.
_SHAPES: Mapping[Group, type] = {
    Group.GUARD: Guard,
    Group.ESTIMATOR: Estimator,
    Group.NOTIFIER: Notifier,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """One plug-in that is named; `made` is what it is, None where `fault` says why not."""

    name: str
    group: Group
    package: str
    made: Any = field(default=None, repr=False)
    fault: str = ""


def load_plugins(
    enabled: Sequence[str],
    settings: Mapping[str, Mapping[str, Any]],
    *,
    groups: Sequence[Group] = tuple(Group),
) -> tuple[Plugin, ...]:
    """Return what the names stand for in some groups; what does not load says why.

    Raises:
        ConfigError: no installed package offers something of that name.
    """
    offered = {group: entry_points(group=group.value) for group in Group} if enabled else {}
    found = []
    for name in enabled:
        named = [
            (group, point)
            for group, points in offered.items()
            for point in points
            if point.name == name
        ]
        if not named:
            others = sorted({point.name for points in offered.values() for point in points})
            known = ", ".join(others) if others else "none"
            raise ConfigError(
                f"plugins.enabled: no installed package offers {name!r} (there are: {known}); "
                "install it beside Flyball, or take the name out"
            )
        for group in dict.fromkeys(group for group, _ in named if group in groups):
            points = [point for of, point in named if of is group]
            found.append(_loaded(group, points, settings.get(name, {})))
    return tuple(found)


def entry_point_of(group: Group, name: str) -> EntryPoint:
    """Return the one entry point of a name.

    Raises:
        ConfigError: there is none, or more than one.
    """
    found = tuple(entry_points(group=group.value, name=name))
    if len(found) != 1:
        raise ConfigError(_how_many(group, name, found))
    return found[0]


def _loaded(group: Group, points: Sequence[EntryPoint], settings: Mapping[str, Any]) -> Plugin:
    name, package = points[0].name, _package_of(points[0])
    if len(points) > 1:
        fault = _how_many(group, name, points)
        return Plugin(name=name, group=group, package=package, fault=fault)
    try:
        with faults_contained():
            factory: Callable[..., Any] = points[0].load()
            made = factory if group is Group.UPSTREAM_KIND else factory(dict(settings))
            fault = _unfit(group, made)
    except PluginError as error:
        return Plugin(name=name, group=group, package=package, fault=str(error))
    return Plugin(name=name, group=group, package=package, made=made, fault=fault)


def _unfit(group: Group, made: object) -> str:
    """Return why something is none of its group, empty where it is."""
    shape = _SHAPES.get(group)
    if shape is None:
        return "" if callable(made) else "it cannot be called"
    return "" if isinstance(made, shape) else f"it is no {group.word}: methods are missing"


def _how_many(group: Group, name: str, points: Sequence[EntryPoint]) -> str:
    if not points:
        return f"no installed package offers a {group.word} {name!r}"
    packages = ", ".join(map(_package_of, points))
    return f"several packages offer a {group.word} {name!r} ({packages}); uninstall all but one"


def _package_of(point: EntryPoint) -> str:
    return "" if point.dist is None else f"{point.dist.name} {point.dist.version}"
