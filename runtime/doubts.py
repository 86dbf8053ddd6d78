"""What of a valid configuration would not do here what it says."""

import os
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from ebpf.custom.shelf import Shelf
from ebpf.executor import LocalExecutor
from governor.policy import AGENT_RUN, ToolRule
from runtime.configuration.model import Config
from runtime.configuration.server_limits import server_limits_of
from runtime.configuration.translate import local_rules_of, policy_of
from runtime.errors import RuntimeFaultError
from runtime.local_commands import tree_shortfall
from runtime.probes import shelf_of
from tool_gateway.builtin import NAMES
from tool_gateway.shell import LOCAL_TOOLS

_MIB = 1024 * 1024
_MILLI = 1_000
_PATTERN = frozenset("*?[")


class Doubt(NamedTuple):
    """Something that is not as the file says; `is_bad` where it cannot work at all."""

    what: str
    told: str
    is_bad: bool = False


def doubts_about_rules(config: Config, state: Path) -> list[Doubt]:
    """Return what of the rules, and of where their commands run, would not do what it says."""
    rules = local_rules_of(policy_of(config))
    return [
        *_workdir(config, rules),
        *_probes(rules, shelf_of(state)),
        *_tools(config),
        *_larger_than_the_machine(rules, processors=os.cpu_count(), memory_bytes=_memory_bytes()),
    ]


def doubts_about_servers(config: Config, executor: LocalExecutor) -> Iterator[Doubt]:
    """Yield each upstream whose limits this host cannot enforce."""
    for upstream in config.upstream:
        limits = server_limits_of(upstream.limits)
        why = "" if limits is None else tree_shortfall(executor, limits)
        if limits is None or not why:
            continue
        told = f"its limits cannot be enforced here: {why}"
        if limits.required:
            told += '; `isolation = "best_effort"` in them starts it all the same'
        yield Doubt(f"upstream {upstream.name} limits", told, is_bad=limits.required)


def _workdir(config: Config, rules: Sequence[ToolRule]) -> Iterator[Doubt]:
    workdir = config.local.workdir
    if workdir is not None and not Path(workdir).is_dir():
        told = f"{workdir} is no directory; make it, or name another"
        yield Doubt("local.workdir", told, is_bad=bool(rules))


def _probes(rules: Sequence[ToolRule], shelf: Shelf) -> Iterator[Doubt]:
    wanted = {(rule.name, probe) for rule in rules for probe, _ in rule.limits.probe_limits}
    if not wanted:
        return
    try:
        known = [one.name for one in shelf.probes()]
    except (OSError, RuntimeFaultError):
        return  # what is wrong with the shelf is said where it is used
    for rule, probe in sorted(wanted):
        if probe not in known:
            told = f"probe_limits: there is no probe {probe!r}{_meant(probe, known)}"
            yield Doubt(f"rule {rule} probes", f"{told}; `flyball probe add` adds one")


def _tools(config: Config) -> Iterator[Doubt]:
    """Yield each rule whose tool nobody has; a pattern may be meant for what is still to come."""
    if any(upstream.prefix == "none" for upstream in config.upstream):
        return  # its tools have any name
    own = sorted({*NAMES, *LOCAL_TOOLS, AGENT_RUN})
    for rule in config.rule:
        server = rule.tool.partition("__")[0]
        if _PATTERN & set(rule.tool) or rule.tool in own:
            continue
        names = [upstream.name for upstream in config.upstream]
        if "__" in rule.tool and server in names:
            continue
        meant = _meant(server, names) if "__" in rule.tool else _meant(rule.tool, own)
        told = f"it governs nothing: no tool is named {rule.tool!r}{meant}"
        yield Doubt(f"rule {rule.name} tool", told)


def _meant(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _larger_than_the_machine(
    rules: Sequence[ToolRule], *, processors: int | None, memory_bytes: int | None
) -> Iterator[Doubt]:
    for rule in rules:
        millis, memory = rule.limits.cpu_millis, rule.limits.memory_bytes
        if millis is not None and processors is not None and millis > processors * _MILLI:
            told = f"limits.cpus = {millis / _MILLI:g}, and this machine has {processors}"
            yield Doubt(f"rule {rule.name} cpus", told)
        if memory is not None and memory_bytes is not None and memory > memory_bytes:
            told = (
                f"limits.memory_mib = {memory // _MIB}, and this machine has "
                f"{memory_bytes // _MIB} MiB"
            )
            yield Doubt(f"rule {rule.name} memory", told)


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None
