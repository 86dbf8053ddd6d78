"""Playing the tour: every step in order, each reported as it ends."""

import logging
from collections.abc import Awaitable, Callable

from runtime.tour.report import StepReport, failed
from runtime.tour.stage import Stage
from runtime.tour.steps.archive import archive_and_read_back
from runtime.tour.steps.bill import show_bill
from runtime.tour.steps.budgets import race_for_budget, raise_budget
from runtime.tour.steps.calls import call_git, call_notes, call_python, call_shell, call_time
from runtime.tour.steps.machine import exceed_memory
from runtime.tour.steps.models import chat_easy, chat_hard

logger = logging.getLogger(__name__)

STEPS: tuple[Callable[[Stage], Awaitable[StepReport]], ...] = (
    call_time,
    call_git,
    call_notes,
    call_shell,
    call_python,
    archive_and_read_back,
    exceed_memory,
    race_for_budget,
    raise_budget,
    chat_easy,
    chat_hard,
    show_bill,
)


async def play(stage: Stage, on_report: Callable[[int, StepReport], None]) -> list[StepReport]:
    """Play every step; one that breaks is reported and the tour goes on."""
    reports = []
    for number, step in enumerate(STEPS, start=1):
        try:
            report = await step(stage)
        except Exception as error:
            logger.debug("step %s broke", step.__name__, exc_info=True)
            report = failed(step.__name__, f"{type(error).__name__}: {error}")
        reports.append(report)
        on_report(number, report)
    return reports
