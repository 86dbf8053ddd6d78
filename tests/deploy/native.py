"""A service of the compose file, run on this machine: its command, environment and files."""

import json
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from deploy.composed import ROOT, services
from deploy.test_image import of

HEALTH = ROOT / "deploy" / "container" / "health.py"
SCRIPTS = Path(sys.executable).parent
START_SECONDS_MAX = 150
STOP_SECONDS_MAX = 60


@dataclass
class Container:
    """What the image and the compose file give a service, with its paths moved into `folder`."""

    folder: Path
    config: str
    store: str
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("etc", "state", "secrets"):
            (self.folder / name).mkdir()
        (self.folder / "etc" / "flyball.toml").write_text(self.config, encoding="utf-8")
        image = dict(pair.split("=", 1) for line in of("ENV", "flyball") for pair in line.split())
        service = services()["flyball"]["environment"]
        moved = {
            "/etc/flyball": str(self.folder / "etc"),
            "/var/lib/flyball": str(self.folder / "state"),
            "/run/secrets": str(self.folder / "secrets"),
            "/opt/flyball/bin": str(SCRIPTS),
            "postgres:5432": self.store,
            "${FLYBALL_LOG_LEVEL:-WARNING}": "DEBUG",
        }
        # The sources of this checkout stand for the package that the image has installed.
        self.environment["PYTHONPATH"] = str(ROOT)
        for name, value in {**image, **service}.items():
            self.environment[name] = value
            for there, here in moved.items():
                self.environment[name] = self.environment[name].replace(there, here)

    def secret(self, name: str, value: str) -> None:
        (self.folder / "secrets" / name).write_text(value + "\n", encoding="utf-8")

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [SCRIPTS / "flyball", *words],
            env=self.environment,
            cwd=self.folder / "state",
            capture_output=True,
            text=True,
            timeout=START_SECONDS_MAX,
            check=False,
        )

    @contextmanager
    def up(self) -> Iterator[Mapping[str, str]]:
        """Yield where it serves; stopped as an engine stops it, it ends well."""
        with (self.folder / "log").open("w", encoding="utf-8") as log:
            process = subprocess.Popen(
                [SCRIPTS / "flyball", "up", "--json"],
                env=self.environment,
                cwd=self.folder / "state",
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert process.stdout is not None
        try:
            ready, _, _ = select.select([process.stdout], [], [], START_SECONDS_MAX)
            line = process.stdout.readline() if ready else ""
            assert line, self.log()
            yield json.loads(line)
            process.terminate()
            assert process.wait(STOP_SECONDS_MAX) == 0, self.log()
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    def log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8")


def health(url: str) -> subprocess.CompletedProcess[str]:
    """Ask as the image's health check does."""
    return subprocess.run(
        [sys.executable, "-I", "-S", HEALTH],
        env={"FLYBALL_HEALTH_URL": url},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
