"""`flyball tour`: play the main job on real parts, then keep serving."""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import anyio

from runtime.logs import start_log
from runtime.settings import Settings
from runtime.stopping import stop_signals
from runtime.tour.play import STEPS, play
from runtime.tour.report import Ending, StepReport, exit_code
from runtime.tour.stage import Stage, staged


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what only the tour has."""
    parser.add_argument("--exit-after-tour", action="store_true", help="do not keep serving")
    parser.add_argument(
        "--strict", action="store_true", help="what this host cannot enforce is a failure too"
    )


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Play the tour; return 0 if no step failed, 128 and the signal's number if one cut it."""
    start_log(settings, is_for_people=True)
    return anyio.run(_tour, settings, arguments)


async def _tour(settings: Settings, arguments: argparse.Namespace) -> int:
    code = 0
    async with stop_signals() as signals:
        with (
            anyio.CancelScope() as touring,
            tempfile.TemporaryDirectory(prefix="flyball-tour-") as folder,
        ):
            signals.do(touring.cancel)
            async with staged(settings, Path(folder)) as stage:
                code = await _played(stage, arguments)
                # From here on to be stopped is the orderly end.
                signals.do(None)
                if not arguments.exit_after_tour and signals.first is None:
                    _say_serving(stage, settings)
                    await signals.asked()
        return signals.status if touring.cancelled_caught else code


async def _played(stage: Stage, arguments: argparse.Namespace) -> int:
    """Play every step, show how each ended, return the tour's status."""
    if not arguments.json:
        _say(f"The tour: {len(STEPS)} steps on real parts.")
    reports = await play(stage, _ignore if arguments.json else _print_report)
    code = exit_code(reports, strict=arguments.strict)
    if arguments.json:
        _say(json.dumps({"ok": code == 0, "steps": [_shape(r) for r in reports]}))
    else:
        _say(_summary(reports))
    return code


def _say_serving(stage: Stage, settings: Settings) -> None:
    _say(
        f"Serving MCP at {stage.agents_url}/mcp, models at {stage.agents_url}/v1, "
        f"the admin API at {stage.admin_url}/admin/v1 (tokens in {settings.state}/). "
        "Ctrl-C stops."
    )


def _shape(report: StepReport) -> dict[str, str | None]:
    return {
        "title": report.title,
        "ending": report.ending.value,
        "capability": report.capability,
        "measured": report.measured,
    }


def _summary(reports: list[StepReport]) -> str:
    counts = {ending: sum(r.ending is ending for r in reports) for ending in Ending}
    return ", ".join(f"{count} {ending.value}" for ending, count in counts.items() if count)


def _print_report(number: int, report: StepReport) -> None:
    _say(report.line(number))


def _ignore(number: int, report: StepReport) -> None:
    """Print nothing: the whole report follows in JSON."""


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
