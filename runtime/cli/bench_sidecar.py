"""A sidecar of its own for one measurement, in a process and a folder that go with it."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from runtime.errors import RuntimeFaultError
from runtime.settings import Settings

_STOP_SECONDS_MAX = 30
# A budget that every call is admitted and settled against, and that none exhausts.
_CONFIG = """\
[listen]
agents = "{agents}"
admin = "{admin}"

[[budget]]
id = "bench"
scope = "tenant"
limits = {{ tool_calls = 1000000000 }}
"""


@contextmanager
def temporary_sidecar() -> Iterator[Settings]:
    """Yield where a sidecar is that ends with the block.

    Raises:
        RuntimeFaultError: it does not start.
    """
    with tempfile.TemporaryDirectory(prefix="flyball-bench-") as folder:
        config, state = Path(folder) / "flyball.toml", Path(folder) / "state"
        anywhere = "127.0.0.1:0"
        config.write_text(_CONFIG.format(agents=anywhere, admin=anywhere), encoding="utf-8")
        words = ("-m", "runtime", "up", "--json", "--config", str(config), "--state", str(state))
        with subprocess.Popen(  # noqa: S603 - this program itself
            [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as sidecar:
            try:
                said = _first_line(sidecar)
                config.write_text(_CONFIG.format(**_places(said)), encoding="utf-8")
                yield Settings(config=config, state=state)
            finally:
                sidecar.terminate()
                try:
                    sidecar.wait(_STOP_SECONDS_MAX)
                except subprocess.TimeoutExpired:
                    sidecar.kill()


def _first_line(sidecar: subprocess.Popen[str]) -> dict[str, str]:
    assert sidecar.stdout is not None
    assert sidecar.stderr is not None
    line = sidecar.stdout.readline()
    try:
        said: dict[str, str] = json.loads(line)
    except ValueError:
        said = {"error": sidecar.stderr.read().strip() or line}
    if "error" in said:
        raise RuntimeFaultError(f"no sidecar could be started for this: {said['error']}")
    return said


def _places(said: dict[str, str]) -> dict[str, str]:
    return {name: urlsplit(said[name]).netloc for name in ("agents", "admin")}
