"""What a step reports and what the tour's exit status makes of it."""

import pytest

from runtime.tour.report import Ending, StepReport, exit_code, failed, not_enforceable, ok

OK = ok("a call", "4 ms")
FAILED = failed("a call", "it was denied")
NOT_HERE = not_enforceable("a limit", "memory limit", "this host has no control groups")


@pytest.mark.parametrize(
    ("reports", "lenient", "strict"),
    [
        ([], 0, 0),
        ([OK], 0, 0),
        ([OK, NOT_HERE], 0, 1),
        ([OK, FAILED], 1, 1),
        ([FAILED, NOT_HERE, OK], 1, 1),
    ],
)
def test_a_failure_counts_and_what_the_host_cannot_do_counts_when_strict(
    reports: list[StepReport], lenient: int, strict: int
) -> None:
    assert exit_code(reports, strict=False) == lenient
    assert exit_code(reports, strict=True) == strict


def test_only_what_the_host_cannot_do_names_a_capability() -> None:
    assert (OK.ending, OK.capability) == (Ending.OK, None)
    assert (FAILED.ending, FAILED.capability) == (Ending.FAILED, None)
    assert (NOT_HERE.ending, NOT_HERE.capability) == (Ending.NOT_ENFORCEABLE, "memory limit")


@pytest.mark.parametrize(
    ("report", "number", "line"),
    [
        (OK, 1, " 1  ok      a call                              4 ms"),
        (FAILED, 10, "10  failed  a call                              it was denied"),
        (
            NOT_HERE,
            2,
            f" 2  not enforceable here: a limit  {NOT_HERE.measured}",
        ),
    ],
)
def test_a_step_is_one_line_for_people(report: StepReport, number: int, line: str) -> None:
    assert report.line(number) == line


def test_a_long_reason_is_cut_to_what_fits_a_line() -> None:
    denial = "This host cannot enforce what the rule requires: "
    long = not_enforceable("a limit", "memory limit", f"{denial}{'x' * 500}; and more. Do this.")
    two = not_enforceable("a limit", "memory limit", f"{denial}no groups; and more. Do this.")

    assert long.line(1) == f" 1  not enforceable here: a limit  {'x' * 119}…"
    assert two.line(1) == " 1  not enforceable here: a limit  no groups"
