"""What `flyball doctor` finds of the places that a sidecar needs: directory, disk, addresses."""

import errno
import os
import shutil
import socket
from ipaddress import ip_address
from pathlib import Path
from threading import Thread

from memory_store.lock import holder_of
from runtime.configuration.model import Config
from runtime.errors import ListenError
from runtime.findings import Finding, bad, ok, warning
from runtime.listeners import bind, check_open_access

_MIB = 1024 * 1024
# With less, the ledger's next pages, and a backup of it, may find no room.
DISK_BYTES_LOW = 1024 * _MIB
DISK_BYTES_MIN = 64 * _MIB
RESOLVE_SECONDS_MAX = 1.0


def state_finding(state: Path) -> Finding:
    """Return whether the state directory can be used, by nobody else."""
    if not state.exists():
        above = _standing(state)
        if not os.access(above, os.W_OK | os.X_OK):
            told = f"{state} cannot be made: {above} cannot be written; name another with --state"
            return bad("state", told)
        return ok("state", f"{state} will be made at the first start")
    if not state.is_dir():
        return bad("state", f"{state} is no directory; name another with --state, or move it")
    mode = state.stat().st_mode & 0o777
    if mode & 0o077:
        return bad(
            "state", f"{state} can be entered by others (mode {mode:o}); run: chmod 700 {state}"
        )
    if not os.access(state, os.W_OK | os.X_OK):
        told = f"{state} cannot be written by this user; run as its owner, or: chown it"
        return bad("state", told)
    return ok("state", f"{state} is yours alone")


def disk_finding(state: Path) -> Finding:
    """Return how much room there is for what the state directory takes."""
    place = _standing(state)
    try:
        free = shutil.disk_usage(place).free
    except OSError as error:
        return bad("disk", f"{place}: {error.strerror}; name another directory with --state")
    told = f"{_shown(free)} free for {state}"
    if free < DISK_BYTES_MIN:
        return bad("disk", f"{told}: calls are denied once it is full; free some, or move it")
    if free < DISK_BYTES_LOW:
        return warning("disk", f"{told}: calls are denied once it is full; free some soon")
    return ok("disk", told)


def listener_findings(config: Config, state: Path) -> list[Finding]:
    """Return whether the addresses can be listened on, and by whom agents may be played."""
    found = [_listener(config, name, state) for name in ("agents", "admin")]
    try:
        check_open_access(config)
    except ListenError as error:
        found.append(bad("auth.mode", f"{error}; listen on 127.0.0.1, or remove auth.mode"))
    return found


def console_findings(config: Config) -> list[Finding]:
    """Return where the console is, if it is served, and who finds it there."""
    if not config.console.enabled:
        return [ok("console", "not served: console.enabled = false")]
    host = config.console.own_host(has_tls=config.listen.tls_cert is not None)
    port = config.listen.admin.rpartition(":")[2]
    if not host:
        return [ok("console", f"served at {config.listen.admin} under /console")]
    told = f"http://{host}:{port}/console"
    strange = [one for one in _addresses_of(host) if not ip_address(one).is_loopback]
    if strange:
        remedy = f"let it be 127.0.0.1 in /etc/hosts, or name another as console.host ({host!r})"
        return [warning("console", f"{told}: {host} is another machine ({strange[0]}); {remedy}")]
    return [ok("console", told)]


def _listener(config: Config, name: str, state: Path) -> Finding:
    address = getattr(config.listen, name)
    try:
        bind(address, config.listen).listening.close()
    except ListenError as error:
        cause = error.__cause__
        is_taken = isinstance(cause, OSError) and cause.errno == errno.EADDRINUSE
        holder = holder_of(state) if is_taken else None
        if holder is not None:
            told = f"{address} is served by the sidecar that runs here (pid {holder})"
            return ok(f"listen.{name}", told)
        return bad(f"listen.{name}", str(error))
    return ok(f"listen.{name}", f"{address} is free")


def _addresses_of(host: str) -> list[str]:
    """Return the addresses of a name, none where nobody says soon; browsers know some alone."""
    found: list[str] = []

    def resolve() -> None:
        try:
            entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError:
            return
        found.extend(str(entry[4][0]).partition("%")[0] for entry in entries)

    resolving = Thread(target=resolve, name="flyball-resolve", daemon=True)
    resolving.start()
    resolving.join(RESOLVE_SECONDS_MAX)
    return list(found)


def _standing(path: Path) -> Path:
    """Return the nearest directory above that is there."""
    return next(one for one in (path, *path.parents) if one.is_dir())


def _shown(size: int) -> str:
    return f"{size // _MIB} MiB" if size < 10 * 1024 * _MIB else f"{size // (1024 * _MIB)} GiB"
