"""The bill of materials of a release: what is locked, as CycloneDX 1.6."""

import datetime as dt
import json
import uuid
from collections import defaultdict
from collections.abc import Sequence
from importlib import metadata

from deploy.locked import Package

__all__ = ["bill_of", "licence_of"]

_SPACE = uuid.UUID("5f0c2f5e-2d0e-5a55-9c55-0c9d5d6f1a7b")
_UNKNOWN = ("", "UNKNOWN")
# A whole licence text instead of its name.
_NAME_CHARS_MAX = 100


def bill_of(name: str, version: str, packages: Sequence[Package], *, made_s: int) -> str:
    """Return the bill as JSON; the same lock and time give the same bytes."""
    root = f"pkg:pypi/{name}@{version}"
    # A name may be locked at several versions, each for other machines.
    refs: dict[str, list[str]] = defaultdict(list)
    for package in packages:
        refs[package.name].append(_ref(package))
    wanted: dict[str, set[str]] = defaultdict(set)
    for package in packages:
        for asker in package.via:
            for ref in refs.get(asker, [root]):
                wanted[ref].add(_ref(package))
    content = {
        "metadata": {
            "timestamp": dt.datetime.fromtimestamp(made_s, tz=dt.UTC).isoformat(),
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": name,
                "version": version,
                "purl": root,
                "licenses": [{"expression": "Apache-2.0"}],
            },
        },
        "components": [_component(package) for package in packages],
        "dependencies": [
            {"ref": ref, "dependsOn": sorted(wanted[ref])}
            for ref in (root, *sorted(_ref(package) for package in packages))
        ],
    }
    serial = uuid.uuid5(_SPACE, json.dumps(content, sort_keys=True))
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        **content,
    }
    return json.dumps(bill, indent=2) + "\n"


def licence_of(package: Package) -> str | None:
    """Return the licence that a package states, where exactly this version is installed."""
    try:
        found = metadata.distribution(package.name)
    except metadata.PackageNotFoundError:
        return None
    if found.version != package.version:
        return None
    stated = found.metadata
    for text in (stated.get("License-Expression"), stated.get("License")):
        if text not in {None, *_UNKNOWN} and len(text) <= _NAME_CHARS_MAX and "\n" not in text:
            return text
    classifiers = stated.get_all("Classifier") or ()
    named = [text.rpartition(" :: ")[2] for text in classifiers if text.startswith("License ::")]
    return " AND ".join(named) or None


def _ref(package: Package) -> str:
    return f"pkg:pypi/{package.name}@{package.version}"


def _component(package: Package) -> dict[str, object]:
    licence = licence_of(package)
    # One package has several files, of which a machine takes one.
    facts = [("flyball:sha256", digest) for digest in package.hashes]
    facts += [("flyball:marker", package.marker)] if package.marker else []
    return {
        "type": "library",
        "bom-ref": _ref(package),
        "name": package.name,
        "version": package.version,
        "scope": "optional" if package.marker else "required",
        **({"licenses": [{"license": {"name": licence}}]} if licence else {}),
        "purl": _ref(package),
        "properties": [{"name": name, "value": value} for name, value in facts],
    }
