"""What every suite shares: the async backend and how hypothesis reports."""

import random

import pytest
from hypothesis import HealthCheck, settings

# A deadline per example would measure the machine; pytest-timeout bounds the whole test.
settings.register_profile(
    "house", print_blob=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("long", settings.get_profile("house"), max_examples=2_000)
settings.load_profile("house")


@pytest.fixture
def anyio_backend() -> str:
    """Run `@pytest.mark.anyio` tests on asyncio, the one backend of the house."""
    return "asyncio"


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose hypothesis's seed here, so that it can be named."""
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = random.randrange(2**32)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say how to draw the same examples again."""
    terminalreporter.write_line(f"hypothesis: --hypothesis-seed={config.option.hypothesis_seed}")
