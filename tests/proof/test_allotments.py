"""Allotments never overspend, whatever goes wrong; the protocols that are almost theirs do."""

import pytest
from drawn import SEED
from proof.allotments import CALM, STORM, Flaw, Simulation, Story
from proof.scale import scaled


@pytest.mark.requirement("allotment.never-overspent")
@pytest.mark.parametrize("number", range(scaled(6)))
def test_no_window_is_overspent_in_a_storm(number: int) -> None:
    seed = SEED + number
    figures = Simulation(
        Story(replicas=30, limit=30_000, window_s=120.0, windows=3, trouble=STORM), seed
    ).run()

    assert figures["crashed"] > 0, f"seed {seed}"
    assert figures["spent"] <= figures["limit"], f"seed {seed}"


@pytest.mark.requirement("allotment.waste-bounded")
def test_in_calm_weather_all_but_a_little_of_a_limit_can_be_spent() -> None:
    # Twice as much is asked for as there is.
    figures = Simulation(
        Story(replicas=50, limit=15_000, window_s=120.0, windows=2, trouble=CALM), SEED
    ).run()

    assert figures["denied"] > 0, f"seed {SEED}"
    assert figures["spent"] >= 0.97 * figures["limit"], f"seed {SEED}"


@pytest.mark.requirement("allotment.never-overspent")
@pytest.mark.parametrize("flaw", Flaw)
def test_a_protocol_that_is_almost_right_is_found_out(flaw: Flaw) -> None:
    for seed in range(SEED, SEED + 40):
        story = Story(replicas=20, limit=6_000, window_s=120.0, windows=3, trouble=STORM, flaw=flaw)
        try:
            Simulation(story, seed).run()
        except AssertionError:
            return
    pytest.fail(f"{flaw}: not found from seed {SEED}")
