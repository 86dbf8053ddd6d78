"""The version of this distribution."""

from importlib.metadata import PackageNotFoundError, version


def _installed() -> str:
    try:
        return version("flyball")
    except PackageNotFoundError:
        return "0+checkout"


VERSION = _installed()
