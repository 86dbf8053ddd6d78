"""What `flyball doctor` looks at: the host, the configuration, the installation."""

import importlib.util
import shutil
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path

from ebpf.capability import Capability, probe_host
from runtime.configuration.load import config_version, load_config
from runtime.configuration.model import Config
from runtime.configuration.translate import policy_of, providers_of, upstreams_of
from runtime.errors import ConfigError, ListenError
from runtime.listeners import bind
from runtime.settings import Settings
from tool_gateway.upstreams.spec import StdioSpec

PACKAGES = ("runtime", "governor", "memory_store", "tool_gateway", "ebpf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    what: str
    is_ok: bool
    told: str


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
                finding.what: {"ok": finding.is_ok, "told": finding.told}
                for finding in self.findings
            },
        }


def examine(settings: Settings) -> Examination:
    """Return how the host, the configuration and the installation are."""
    findings = _configuration(settings)
    findings.extend([_state(settings.state), *_installation()])
    host = probe_host()
    return Examination(capabilities=host.capabilities, findings=tuple(findings))


def _configuration(settings: Settings) -> list[Finding]:
    """Return what was found of the configuration and what it names."""
    try:
        config = load_config(settings.config)
        policy_of(config)
        providers_of(config)
        specs = upstreams_of(config)
    except ConfigError as error:
        return [Finding(what=str(settings.config), is_ok=False, told=str(error))]
    findings = [
        Finding(
            what=str(settings.config), is_ok=True, told=f"valid, version {config_version(config)}"
        )
    ]
    for spec in specs:
        if isinstance(spec, StdioSpec):
            found = shutil.which(spec.command[0])
            told = found or f"{spec.command[0]} is not on PATH; install it or give its full path"
            findings.append(
                Finding(what=f"upstream {spec.name}", is_ok=found is not None, told=told)
            )
    findings.extend(_listener(config, name) for name in ("agents", "admin"))
    return findings


def _listener(config: Config, name: str) -> Finding:
    address = getattr(config.listen, name)
    try:
        bind(address, config.listen).listening.close()
    except ListenError as error:
        return Finding(what=f"listen.{name}", is_ok=False, told=str(error))
    return Finding(what=f"listen.{name}", is_ok=True, told=f"{address} is free")


def _state(state: Path) -> Finding:
    if not state.exists():
        return Finding(what="state", is_ok=True, told=f"{state} will be made at the first start")
    mode = state.stat().st_mode & 0o777
    if mode & 0o077:
        told = f"{state} can be entered by others (mode {mode:o}); run: chmod 700 {state}"
        return Finding(what="state", is_ok=False, told=told)
    return Finding(what="state", is_ok=True, told=f"{state} is yours alone")


def _installation() -> list[Finding]:
    """Return whether the five packages are ours: their names are generic."""
    parents = set()
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin is not None:
            parents.add(Path(spec.origin).parent.parent)
    one_home = Finding(
        what="packages",
        is_ok=len(parents) == 1,
        told=f"all in {parents.pop()}"
        if len(parents) == 1
        else f"found in {', '.join(sorted(map(str, parents)))}: another package shadows ours",
    )
    owners = packages_distributions()
    # An editable install is not in that map: missing is unknown, two owners is a clash.
    others = {
        owner for package in PACKAGES for owner in owners.get(package, []) if owner != "flyball"
    }
    told = f"{', '.join(sorted(others))} ships a package of the same name; uninstall it"
    clash = Finding(what="owners", is_ok=not others, told=told if others else "no other owner")
    return [one_home, clash]
