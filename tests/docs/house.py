"""The one sidecar that the snippets of the documentation are executed against."""

import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import uvicorn
from ports import a_port

from runtime.tour import scripted_model
from tests.docs.shell import Shell

BIN = Path(sys.executable).parent
CONFIG = Path(__file__).with_name("house.toml")
WORKER = Path(__file__).with_name("python_worker.py")
START_SECONDS_MAX = 150
STOP_SECONDS_MAX = 60
# As the pages have them.
AGENTS_PORT, ADMIN_PORT = "8700", "8701"
READY = "admin token in"
LOOK_SECONDS = 0.05
# What the pages call `repository`: its first commit is all that it has.
_REPOSITORY = (
    "git init -q repository && git -C repository -c user.name=Ada -c user.email=ada@example.org "
    "commit -q --allow-empty -m 'Hold the engine at a steady speed'"
)

_CALL = f"""curl -sf http://127.0.0.1:{AGENTS_PORT}/v1/chat/completions \\
    -H "Authorization: Bearer $(cat .flyball/agent.token)" \\
    -d '{{"model": "auto", "messages": [{{"role": "user", "content": "Say hello."}}]}}'"""


@dataclass(frozen=True, kw_only=True)
class Place:
    """A folder with an environment, where the ports of the pages are others."""

    folder: Path
    agents_port: int
    admin_port: int
    env: Mapping[str, str]

    def here(self, text: str) -> str:
        """Return a text of a page with the ports of this place."""
        return text.replace(AGENTS_PORT, str(self.agents_port)).replace(
            ADMIN_PORT, str(self.admin_port)
        )

    def shown(self, text: str) -> str:
        """Return what was printed here as a page would show it."""
        return text.replace(str(self.agents_port), AGENTS_PORT).replace(
            str(self.admin_port), ADMIN_PORT
        )

    def serve(self, shell: Shell) -> str:
        """Start the sidecar; return what it printed, once its upstreams are there too."""
        printed = shell.serve("flyball up", until=READY)
        token = (self.folder / ".flyball" / "admin.token").read_text(encoding="utf-8").strip()
        ends = time.monotonic() + START_SECONDS_MAX
        with httpx.Client(
            base_url=f"http://127.0.0.1:{self.admin_port}/admin/v1",
            headers={"Authorization": f"Bearer {token}"},
            timeout=START_SECONDS_MAX,
            trust_env=False,
        ) as admin:
            # One who reads and types is slower than they are to start; a test is not.
            while any(one["state"] != "ready" for one in admin.get("/upstreams").json()["items"]):
                assert time.monotonic() < ends, admin.get("/upstreams").text
                time.sleep(LOOK_SECONDS)
        return printed

    @contextmanager
    def shell(self) -> Iterator[Shell]:
        """Yield a shell in the folder."""
        shell = Shell(self.folder, self.env)
        try:
            yield shell
        finally:
            shell.close()


def place_in(folder: Path) -> Place:
    """Return a new place, whose commands are those of this environment."""
    agents_port, admin_port = a_port(), a_port()
    passing = {name: os.environ[name] for name in ("LANG", "LC_ALL", "TZ") if name in os.environ}
    env = {
        **passing,
        "PATH": f"{BIN}:{os.environ.get('PATH', '/usr/bin:/bin')}",
        "HOME": str(folder),
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
        "COLUMNS": "160",
        "NO_COLOR": "1",
    }
    return Place(folder=folder, agents_port=agents_port, admin_port=admin_port, env=env)


@contextmanager
def house_in(folder: Path) -> Iterator[Place]:
    """Yield a place where a sidecar serves, with a scripted model and a repository."""
    place = place_in(folder)
    with _scripted_model() as model_url:
        text = CONFIG.read_text(encoding="utf-8").replace("{model_url}", model_url)
        (folder / "flyball.toml").write_text(place.here(text), encoding="utf-8")
        with place.shell() as shell:
            status, printed = shell.run(_REPOSITORY)
            assert status == 0, printed
            place.serve(shell)
            # Whichever page comes first, there has been a call.
            status, printed = shell.run(place.here(_CALL))
            assert status == 0, printed
            yield place


@contextmanager
def _scripted_model() -> Iterator[str]:
    config = uvicorn.Config(scripted_model.create_app(), log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    held = socket.socket()
    held.bind(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [held]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{held.getsockname()[1]}/v1"
    finally:
        server.should_exit = True
        thread.join(STOP_SECONDS_MAX)
        held.close()


class PythonWorker:
    """An interpreter that executes the Python snippets of all pages, each page by itself."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._process: subprocess.Popen[str] | None = None

    def execute(self, text: str, *, page: str, at: str) -> str:
        """Return what a snippet printed; one that raises fails the test."""
        process = self._process = self._process or self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"text": text, "page": page, "place": at}) + "\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], START_SECONDS_MAX)
        assert ready, f"{at}: it did not end"
        answer = json.loads(process.stdout.readline() or '{"fault": "the interpreter ended"}')
        assert answer["fault"] is None, f"{at}:\n{answer['fault']}"
        return str(answer["printed"])

    def _started(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(WORKER)],
            cwd=self._place.folder,
            env=dict(self._place.env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.close()
            self._process.wait(STOP_SECONDS_MAX)
            self._process.stdout.close()
