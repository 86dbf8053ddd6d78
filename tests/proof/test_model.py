"""Random histories agree with a reference that shares no line with the ledger."""

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from proof.model import LedgerMachine, world_of
from proof.scale import IS_SCALED, scaled
from proof.stores import StoreFactory

STEPS_PER_HISTORY = 15
_HISTORIES = {"memory": 30, "sqlite": 200, "postgresql": 30}


@pytest.mark.requirement("proof.model-agrees")
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_random_histories_agree_with_the_reference(factory: StoreFactory) -> None:
    histories = scaled(_HISTORIES[factory.name])
    with world_of(factory) as world:
        machine = type("Machine", (LedgerMachine,), {"world": world})
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=histories,
                stateful_step_count=STEPS_PER_HISTORY,
                phases=(Phase.generate, *([] if IS_SCALED else [Phase.shrink])),
            ),
        )

    assert world.steps > 20 * histories
