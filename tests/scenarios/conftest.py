from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from scenarios.process import SidecarProcess


@pytest.fixture
def sidecar(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SidecarProcess]:
    """A running sidecar; parametrize it indirectly to add to its configuration."""
    with _started(tmp_path, getattr(request, "param", "")) as process:
        yield process


@pytest.fixture(scope="module")
def shared_sidecar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SidecarProcess]:
    """A running sidecar for tests that leave nothing behind for each other."""
    with _started(tmp_path_factory.mktemp("shared"), "") as process:
        yield process


@contextmanager
def _started(folder: Path, extra: str) -> Iterator[SidecarProcess]:
    process = SidecarProcess(folder=folder, extra=extra)
    process.start()
    try:
        yield process
    finally:
        process.stop()
