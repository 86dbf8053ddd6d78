"""What `flyball doctor` looks at: the host, the configuration, the installation."""

import importlib.util
import os
import shutil
import tempfile
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path
from urllib.parse import urlsplit

from ebpf.capability import Capability, Host, probe_host
from ebpf.errors import CapabilityMissingError
from ebpf.executor import LocalExecutor
from ebpf.pressure import read_pressure
from governor.amounts import Unit
from governor.call import Enforcement
from governor.limits import Isolation
from governor.turn_policy import TurnMode
from runtime.configuration.load import config_version, load_sound_part
from runtime.configuration.model import Config
from runtime.configuration.translate import (
    local_rules_of,
    policy_of,
    prices_of,
    python_of,
    tiers_of,
)
from runtime.configuration.upstreams import upstreams_of
from runtime.doubts import Doubt, doubts_about_rules, doubts_about_servers
from runtime.errors import ConfigError
from runtime.findings import Finding, Mark, bad, ok, warning
from runtime.machine import executor_of
from runtime.place_findings import (
    console_findings,
    disk_finding,
    listener_findings,
    state_finding,
)
from runtime.plugins.loading import load_plugins
from runtime.provider_doubts import (
    doubts_about_addresses,
    doubts_about_providers,
    doubts_about_tiers,
    told_of,
    told_of_tier,
)
from runtime.settings import Settings
from runtime.sound_parts import sound_parts_of
from runtime.store_findings import store_findings
from runtime.told_elsewhere import doubts_about_collector, told_elsewhere
from tool_gateway.python_run import PYTHON_RUN
from tool_gateway.upstreams.spec import PluggedSpec, StdioSpec, UpstreamSpec

_MEND_REQUIRED = (
    "Start the sidecar as root or with control groups of its own; or set "
    'isolation = "best_effort" in the rule, which runs commands with what there is.'
)
_MEND_CONTAINMENT = (
    "Mend it with a state directory elsewhere (--state), in no directory where commands work, "
    "and local.workdir somewhere else."
)
PACKAGES = ("runtime", "governor", "memory_store", "tool_gateway", "ebpf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What the host can enforce and what was found of the rest."""

    capabilities: tuple[Capability, ...]
    findings: tuple[Finding, ...]

    @property
    def is_ok(self) -> bool:
        """Tell whether nothing is broken; a capability that is absent is not a fault."""
        return all(finding.is_ok for finding in self.findings)

    def shape(self) -> dict[str, object]:
        """Return the public JSON."""
        return {
            "ok": self.is_ok,
            "capabilities": [
                {"name": c.name, "state": c.state.value, "by": c.by, "why": c.why}
                for c in self.capabilities
            ],
            "config": {
                finding.what: {
                    "ok": finding.is_ok,
                    "mark": finding.mark.value,
                    "told": finding.told,
                }
                for finding in self.findings
            },
        }


def examine(settings: Settings) -> Examination:
    """Return how the host, the configuration and the installation are."""
    host = probe_host()
    findings = _configuration(settings, host)
    places = state_finding(settings.state), disk_finding(settings.state)
    findings.extend([*places, *_installation()])
    return Examination(capabilities=host.capabilities, findings=tuple(findings))


def local_command_findings(config: Config, executor: LocalExecutor, state: Path) -> list[Finding]:
    """Return for each rule that allows local commands whether this host holds what it says."""
    workdir = config.local.workdir or tempfile.gettempdir()
    findings = []
    for rule in local_rules_of(policy_of(config)):
        isolated = executor.isolation_for(rule.limits, workdir)
        held = isolated.enforcement is Enforcement.ENFORCED
        mark, told = Mark.OK, f"local commands are held by {isolated.by}"
        if rule.isolation is Isolation.REQUIRED and not (held and isolated.contained):
            mark = Mark.BAD
            told = (
                f"every call is denied, since this host cannot enforce what it requires: "
                f"{isolated.why or isolated.enforcement}.\n{_MEND_REQUIRED}"
            )
        elif not isolated.contained:
            mark = Mark.WARNING
            told = (
                f"a command could read and change {state}, with every token, call record and "
                f"archived result in it ({isolated.why}). {_MEND_CONTAINMENT}"
            )
        elif not held:
            mark = Mark.WARNING
            told = f"its limits are not all enforced here: {isolated.why}"
        findings.append(Finding(what=f"rule {rule.name}", mark=mark, told=told))
    return findings


def _configuration(settings: Settings, host: Host) -> list[Finding]:
    """Return what was found of the configuration and what it names."""
    name = str(settings.config)
    loaded, told = load_sound_part(settings.config)
    # Each fault names the file, which the finding does already.
    faults = [told.replace(f"{name}: ", "")] if told else []
    if loaded is None:
        return [bad(name, *faults)]
    parts = sound_parts_of(loaded)
    faults.extend(parts.faults)
    config, tiers, prices = parts.config, tiers_of(parts.config), prices_of(parts.config)
    version = f"valid, version {config_version(config)}"
    findings = [bad(name, "\n".join(faults)) if faults else ok(name, version)]
    findings.extend(store_findings(config, settings))
    findings.extend(map(_upstream, upstreams_of(config)))
    findings.extend(ok(f"provider {one.name}", told_of(one)) for one in config.provider)
    findings.extend(map(_doubtful, doubts_about_providers(config, parts.providers)))
    findings.extend(map(_doubtful, doubts_about_addresses(config)))
    findings.extend(ok(f"tier {one.name}", told_of_tier(one, prices)) for one in tiers)
    findings.extend(map(_doubtful, doubts_about_tiers(config, tiers, prices)))
    findings.extend(listener_findings(config, settings.state))
    findings.extend(console_findings(config))
    findings.extend(_local_commands(config, host, settings.state))
    findings.extend(map(_doubtful, doubts_about_rules(config, settings.state)))
    findings.extend(ok(what, told) for what, told in told_elsewhere(config))
    findings.extend(map(_doubtful, doubts_about_collector(config)))
    findings.append(_pressure())
    findings.extend(turn_findings(config))
    findings.extend(plugin_findings(config))
    return findings


def _upstream(spec: UpstreamSpec) -> Finding:
    """Return whether a program is installed; a server elsewhere is shown and not asked."""
    what = f"upstream {spec.name}"
    if isinstance(spec, PluggedSpec):
        return ok(what, f"of the kind {spec.kind} (`flyball up` says whether it answers)")
    if isinstance(spec, StdioSpec):
        found = shutil.which(spec.command[0])
        told = f"{spec.command[0]} is not on PATH; install it or give its full path"
        return bad(what, told) if found is None else ok(what, found)
    parts = urlsplit(spec.url)
    # Who asks, and with which key, can stand before the host and behind the path.
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return ok(what, f"{shown} (not asked; `flyball up` says whether it answers)")


def _local_commands(config: Config, host: Host, state: Path) -> list[Finding]:
    """Return what was found of the user that local commands run as, and of their rules."""
    user = config.local.user
    try:
        executor = executor_of(config, host=host, state_dir=state)
    except CapabilityMissingError as error:
        return [bad("local.user", f"{error}; name an unprivileged user of this machine")]
    found = [ok("local.user", f"local commands run as {user}")] if host.is_root else []
    servers = map(_doubtful, doubts_about_servers(config, executor))
    return [*found, *_python(config), *local_command_findings(config, executor, state), *servers]


def _python(config: Config) -> list[Finding]:
    """Return which interpreter runs python_run, where a rule allows it."""
    if all(rule.match.tool != PYTHON_RUN for rule in local_rules_of(policy_of(config))):
        return []
    python = python_of(config)
    if python is None or not os.access(python, os.X_OK):
        told = f"{python or 'python3'} cannot be run; install it, or name another interpreter"
        return [bad("local.python", told)]
    return [ok("local.python", f"python_run runs {python}")]


def plugin_findings(config: Config) -> list[Finding]:
    """Return what each plug-in is that the file names, and why one does not load."""
    try:
        plugins = load_plugins(config.plugins.enabled, config.plugins.settings)
    except ConfigError as error:
        return [bad("plugins", str(error))]
    return [
        bad(f"{one.group.word} {one.name}", f"plug-in of {one.package}: {one.fault}")
        if one.fault
        else ok(f"{one.group.word} {one.name}", f"plug-in of {one.package}")
        for one in plugins
    ]


def turn_findings(config: Config) -> list[Finding]:
    """Return a warning where turns are limited and calls that name none cannot be counted."""
    modes = [terms.mode for terms in (config.turns, *config.turn_rule)]
    is_limited = any(mode is not TurnMode.UNLIMITED for mode in modes) or any(
        Unit.TURNS in budget.limits for budget in config.budget
    )
    if not is_limited or any(terms.turn_per_call for terms in (config.default, *config.rule)):
        return []
    told = (
        "turns are limited: a client that neither names its turns nor asks for models here is "
        "denied (turn_unknown). For MCP clients that cannot, set turn_per_call = true in "
        "[default] or in the rule of their tools"
    )
    return [warning("turns", told)]


def _pressure() -> Finding:
    if read_pressure() is not None:
        return ok("contention.shed", "the kernel says what the machine is short of")
    return ok(
        "contention.shed",
        "the kernel gives no pressure figures (/proc/pressure), so nothing is shed for them",
    )


def _installation() -> list[Finding]:
    """Return whether the five packages are ours: their names are generic."""
    parents = set()
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin is not None:
            parents.add(Path(spec.origin).parent.parent)
    homes = ", ".join(sorted(map(str, parents)))
    one_home = (
        ok("packages", f"all in {homes}")
        if len(parents) == 1
        else bad("packages", f"found in {homes}: another package shadows ours")
    )
    # An editable install ships no file: missing is unknown, another owner is a clash.
    others = {one.name for one in distributions() if _ships_ours(one)} - {"flyball"}
    told = f"{', '.join(sorted(others))} ships a package of the same name; uninstall it"
    return [one_home, bad("owners", told) if others else ok("owners", "no other owner")]


def _ships_ours(distribution: Distribution) -> bool:
    """Tell whether it has a package of the name of one of ours.

    Its list of files is looked through as it is: taking each path apart, as importlib's own map
    of packages does, takes a second.
    """
    if declared := distribution.read_text("top_level.txt"):
        return not set(PACKAGES).isdisjoint(declared.split())
    files = "\n" + (distribution.read_text("RECORD") or "")
    return any(f"\n{name}/" in files or f"\n{name}.py," in files for name in PACKAGES)


def _doubtful(doubt: Doubt) -> Finding:
    mark = Mark.BAD if doubt.is_bad else Mark.WARNING
    return Finding(what=doubt.what, mark=mark, told=doubt.told)
