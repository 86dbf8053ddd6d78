"""Whatever database operation fails, the first, the second, and so on: no harm is done."""

from pathlib import Path

import pytest
from proof.failing_driver import Failure, failing_driver
from proof.failing_workload import fail_each
from proof.stores import SqliteFactory

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.requirement("proof.any-operation-may-fail")
@pytest.mark.parametrize("failure", list(Failure), ids=lambda failure: failure.name)
async def test_whatever_operation_fails_it_is_done_once_or_not_at_all(
    tmp_path: Path, failure: Failure
) -> None:
    with failing_driver() as driver:
        async with SqliteFactory().open(tmp_path) as stage:
            survived = await fail_each(stage, driver, failure)

    assert survived > 50
    assert {"BEGIN IMMEDIATE", "COMMIT"} <= driver.ever_failed
