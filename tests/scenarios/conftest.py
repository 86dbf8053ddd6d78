from collections.abc import Iterator
from pathlib import Path

import pytest
from scenarios.process import SidecarProcess


@pytest.fixture
def sidecar(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SidecarProcess]:
    """A running sidecar; parametrize it indirectly to add to its configuration."""
    process = SidecarProcess(folder=tmp_path, extra=getattr(request, "param", ""))
    process.start()
    try:
        yield process
    finally:
        process.stop()
