"""The proofs can fail: each seeded bug is found, and without one nothing is."""

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from proof.planted import FOUND, PASSED, outcome
from proof.scale import SCALE_VARIABLE
from proof.seeded_bugs import BUGS, USUAL, SeededBug

CONTROL = "no_bug"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(SCALE_VARIABLE in os.environ, reason="a proof inside a proof"),
]


@pytest.fixture(scope="module")
def outcomes(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, Future[tuple[int, str]]]]:
    """Yield how each copy fared; they run beside one another, on as many cores as there are."""
    control = sorted({bug.found_by for bug in USUAL})
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield {
            CONTROL: pool.submit(outcome, tmp_path_factory.mktemp(CONTROL), control, None),
            **{
                bug.name: pool.submit(
                    outcome, tmp_path_factory.mktemp(bug.name), [bug.found_by], bug
                )
                for bug in USUAL
            },
        }


@pytest.mark.requirement("proof.finds-seeded-bugs")
@pytest.mark.parametrize("bug", USUAL, ids=lambda bug: bug.name)
def test_a_seeded_bug_is_found(
    outcomes: dict[str, Future[tuple[int, str]]], bug: SeededBug
) -> None:
    code, said = outcomes[bug.name].result()

    assert code == FOUND, f"{bug.name} was not found by {bug.found_by}:\n{said}"


@pytest.mark.requirement("proof.finds-seeded-bugs")
def test_without_a_bug_nothing_is_found(outcomes: dict[str, Future[tuple[int, str]]]) -> None:
    code, said = outcomes[CONTROL].result()

    assert code == PASSED, said


@pytest.mark.requirement("proof.finds-seeded-bugs")
def test_an_edit_that_no_longer_fits_fails_loudly(tmp_path: Path) -> None:
    for bug in BUGS:
        for edit in bug.edits:
            path = tmp_path / edit.file
            path.parent.mkdir(exist_ok=True)
            path.write_text("something else", encoding="utf-8")
            with pytest.raises(AssertionError, match="mend this bug's edit"):
                edit.plant(tmp_path)
