"""Compare what is locked with what is known to be vulnerable, and say plainly where nobody knows.

    python -m deploy.audit [--json] [--strict]

Asks pip-audit, which asks a service. A service that does not know of a vulnerability that all of
them have listed for years is not believed about the others: then the answer is "not audited",
which is status 3 with --strict and 0 without. Vulnerable is status 1. What needs no service is
checked in any case: every package has its hashes, and what runs has a licence that may be shipped.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from deploy.bill import licence_of
from deploy.locked import LockError, Package, read_lock

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ("requirements.lock", "requirements-dev.lock")
SERVICES = ("osv", "pypi")
# Vulnerable since 2019, in every list: PYSEC-2019-217.
KNOWN = "jinja2==2.4.1"
EXIT_VULNERABLE = 1
EXIT_NOT_AUDITED = 3
_ASK_SECONDS_MAX = 20
_AUDIT_SECONDS_MAX = 300
# Strong copyleft would bind whoever ships Flyball; the lesser kinds bind only who changes them.
_BINDING = ("AGPL", "GPL-2", "GPL-3", "General Public License v", "SSPL", "BUSL")
_LESSER = ("LGPL", "Lesser General Public")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came out: `audited_by` is None where nobody could be asked."""

    audited_by: str | None
    packages: int
    vulnerable: tuple[str, ...]
    licences: tuple[str, ...]

    @property
    def is_bad(self) -> bool:
        """Tell whether something has to be done."""
        return bool(self.vulnerable or self.licences)


def main(words: Sequence[str] | None = None) -> int:
    """Audit and tell; return the status that the module's docstring gives."""
    parser = argparse.ArgumentParser(prog="python -m deploy.audit", description=__doc__)
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    parser.add_argument(
        "--strict", action="store_true", help="status 3 where nobody could be asked"
    )
    parsed = parser.parse_args(words)
    try:
        verdict = audit()
    except (LockError, OSError) as error:
        sys.stderr.write(f"audit: {error}\n")
        return EXIT_VULNERABLE
    sys.stdout.write(json.dumps(asdict(verdict)) + "\n" if parsed.json else told(verdict))
    if verdict.is_bad:
        return EXIT_VULNERABLE
    return EXIT_NOT_AUDITED if parsed.strict and verdict.audited_by is None else 0


def audit() -> Verdict:
    """Return what is known of the packages of both locks.

    Raises:
        LockError: a lock is not whole.
    """
    locked = {name: read_lock(ROOT / name) for name in LOCKS}
    service = next((name for name in SERVICES if is_informed(name)), None)
    found: list[str] = []
    if service is not None:
        for name in LOCKS:
            answer = _asked(ROOT / name, service, seconds_max=_AUDIT_SECONDS_MAX)
            if answer is None:
                service = None
                break
            found += vulnerabilities(answer)
    return Verdict(
        audited_by=service,
        packages=len({package.name for packages in locked.values() for package in packages}),
        vulnerable=tuple(sorted(set(found))),
        licences=tuple(binding(locked[LOCKS[0]])),
    )


def is_informed(service: str) -> bool:
    """Tell whether a service answers, and knows what every one of them must."""
    with tempfile.TemporaryDirectory(prefix="flyball-audit-") as folder:
        asked = Path(folder) / "known.txt"
        asked.write_text(f"{KNOWN}\n", encoding="utf-8")
        answer = _asked(asked, service, seconds_max=_ASK_SECONDS_MAX, hashed=False)
    return answer is not None and bool(list(vulnerabilities(answer)))


def vulnerabilities(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield each vulnerability of pip-audit's answer: package, version, id and what mends it."""
    for package in answer.get("dependencies", ()):
        for one in package.get("vulns", ()):
            fixes = ", ".join(one.get("fix_versions", ())) or "no release"
            yield f"{package['name']} {package['version']}: {one['id']}; mended in {fixes}"


def binding(packages: Sequence[Package]) -> Iterator[str]:
    """Yield the packages whose licence would bind whoever ships Flyball."""
    for package in packages:
        licence = licence_of(package) or ""
        choices = licence.split(" OR ")
        if all(_binds(choice) for choice in choices):
            yield f"{package.name} {package.version}: {licence}"


def _binds(licence: str) -> bool:
    is_lesser = any(word in licence for word in _LESSER)
    return not is_lesser and any(word in licence for word in _BINDING)


def told(verdict: Verdict) -> str:
    """Return the verdict in words."""
    faults = [*verdict.vulnerable, *(f"licence of {one}" for one in verdict.licences)]
    if verdict.audited_by is None:
        head = (
            f"NOT AUDITED: of {verdict.packages} packages nobody could be asked what is "
            "vulnerable; run this where pip-audit reaches its service"
        )
    else:
        head = f"audited by {verdict.audited_by}: {verdict.packages} packages"
    return "\n".join([head, *(faults or ["nothing to mend is known"])]) + "\n"


def _asked(
    requirements: Path, service: str, *, seconds_max: int, hashed: bool = True
) -> Mapping[str, Any] | None:
    """Return pip-audit's answer, None where there is none."""
    words = [
        *(sys.executable, "-m", "pip_audit", "--requirement", str(requirements)),
        *("--disable-pip", "--require-hashes" if hashed else "--no-deps"),
        *("--format", "json", "--progress-spinner", "off"),
        *("--vulnerability-service", service, "--timeout", "5"),
    ]
    try:
        done = subprocess.run(
            words, capture_output=True, timeout=seconds_max, check=False, cwd=requirements.parent
        )
        answer: Mapping[str, Any] = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        return None
    return answer


if __name__ == "__main__":
    sys.exit(main())
