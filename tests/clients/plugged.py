"""The example plug-ins, installed beside packages that fail in every way."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = sorted(path.parent for path in (ROOT / "recipes" / "plugins").glob("*/pyproject.toml"))
INSTALL_SECONDS_MAX = 120

BAD = """
from contextlib import asynccontextmanager

class Estimator:
    def __init__(self, settings): pass
    async def estimate(self, call, held): raise SystemExit("no more")

class Notifier:
    def __init__(self, settings): pass
    async def notify(self, notices): raise OSError("nobody takes them")

def unloadable(settings): raise ImportError("the library of the lawyers is missing")

class Server:
    async def tools(self):
        return [{"name": name, "inputSchema": {"type": "object"}} for name in ("fail", "nonsense")]
    async def call(self, tool, arguments):
        if tool == "fail": raise RuntimeError("the cellar is flooded")
        return {"content": 7}

@asynccontextmanager
async def weak(name, settings): yield Server()

@asynccontextmanager
async def closed(name, settings):
    raise SystemExit("closed for the season")
    yield
"""
POINTS = """
[flyball.estimators]
bad-estimator = bad_plugins:Estimator
unloadable = bad_plugins:unloadable
[flyball.notifiers]
bad-notifier = bad_plugins:Notifier
[flyball.upstream_kinds]
weak = bad_plugins:weak
closed = bad_plugins:closed
[flyball.guards]
bad-guard = bad_plugins:unloadable
"""


def install_plugins(target: Path) -> None:
    """Install the examples as their users would, and what fails as if it were installed."""
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    offline = ("--no-index", "--no-deps", "--no-build-isolation", "--target", str(target))
    subprocess.run((*pip, *offline, *map(str, EXAMPLES)), check=True, timeout=INSTALL_SECONDS_MAX)
    (target / "bad_plugins.py").write_text(BAD, encoding="utf-8")
    about = target / "bad_plugins-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: bad-plugins\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(POINTS)
