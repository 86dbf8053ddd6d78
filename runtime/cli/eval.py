"""`flyball eval`: measure Flyball's own decisions on recorded runs and known answers."""

import argparse
import io
import json
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path

from runtime.cli import (
    eval_context,
    eval_flow,
    eval_live,
    eval_memory,
    eval_os,
    eval_router,
    eval_router_log,
    eval_tools,
    showing,
)
from runtime.cli.admin_api import add_options
from runtime.errors import RuntimeFaultError
from runtime.evaluate.runs_file import read_runs
from runtime.evaluate.turns import GrowthResult, Score, TurnsEvaluation, evaluate_turns
from runtime.settings import Settings

_TURNS_HELP = (
    "Compare turn limits. A replay cuts a run and cannot show that a warned agent finishes "
    "sooner: the savings are lower bounds."
)

# Those that need nothing but the files they are given.
_OF_FILES = {
    "tools": eval_tools.run,
    eval_flow.NAME: eval_flow.run,
    eval_memory.NAME: eval_memory.run,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add one command per evaluation."""
    evaluations = parser.add_subparsers(
        title="evaluations", metavar="EVALUATION", dest="evaluation", required=True
    )
    turns = evaluations.add_parser("turns", help=_TURNS_HELP, description=_TURNS_HELP)
    turns.add_argument(
        "--runs",
        type=Path,
        metavar="FILE.csv",
        help="columns model, instance_id, resolved, cost_usd, api_calls",
    )
    turns.add_argument("--seed", type=int, default=0, help="of the splits by task; default: 0")
    eval_live.add_arguments(turns)
    tools = evaluations.add_parser("tools", help=eval_tools.HELP, description=eval_tools.HELP)
    eval_tools.add_arguments(tools)
    flow = evaluations.add_parser(eval_flow.NAME, help=eval_flow.HELP, description=eval_flow.HELP)
    eval_flow.add_arguments(flow)
    machine = evaluations.add_parser(eval_os.NAME, help=eval_os.HELP, description=eval_os.HELP)
    eval_os.add_arguments(machine)
    router = evaluations.add_parser(
        eval_router.NAME, help=eval_router.HELP, description=eval_router.HELP
    )
    eval_router.add_arguments(router)
    eval_router_log.add_arguments(router)
    memory = evaluations.add_parser(
        eval_memory.NAME, help=eval_memory.HELP, description=eval_memory.HELP
    )
    eval_memory.add_arguments(memory)
    context = evaluations.add_parser(
        eval_context.NAME, help=eval_context.HELP, description=eval_context.HELP
    )
    eval_context.add_arguments(context)
    add_options((turns, tools, flow, machine, router, memory, context))


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Print the evaluation; return 0.

    Raises:
        RuntimeFaultError: what is evaluated was not named, or cannot be read.
    """
    told = io.StringIO()
    # What was found is written when nothing moves at the terminal any more.
    with showing.stages("Reading") as stage, redirect_stdout(told):
        status = _run(arguments, settings, stage)
    sys.stdout.write(told.getvalue())
    return status


def _run(arguments: argparse.Namespace, settings: Settings, show: Callable[[str], None]) -> int:
    if (alone := _OF_FILES.get(arguments.evaluation)) is not None:
        return alone(arguments)
    if arguments.evaluation == eval_os.NAME:
        return eval_os.run(arguments, show)
    if arguments.evaluation == eval_context.NAME:
        return eval_context.run(arguments, show)
    if arguments.evaluation == eval_router.NAME:
        of_file = partial(eval_router.run, arguments, show)
        return eval_router_log.run_either(arguments, settings, of_file=of_file)
    if arguments.live == (arguments.runs is not None):
        raise RuntimeFaultError("eval turns: give either --runs FILE.csv or --live, and not both")
    if arguments.live:
        return eval_live.run(arguments, settings)
    evaluation = evaluate_turns(read_runs(arguments.runs), seed=arguments.seed, begun=show)
    if arguments.json:
        sys.stdout.write(json.dumps(evaluation.shape(), allow_nan=False) + "\n")
    else:
        sys.stdout.write(_text(evaluation))
    return 0


def _text(evaluation: TurnsEvaluation) -> str:
    lines = [
        f"Turn limits, replayed over {evaluation.splits} splits by task (seed {evaluation.seed}):",
        "learned on one half, judged on the other; every model counts the same. A replay cuts a",
        "run. It cannot show that a warned agent finishes sooner: savings are lower bounds.",
    ]
    for result in evaluation.results:
        lines += ["", f"Cost within a run grows {result.growth.value}:"]
        lines.append(f"  {'':<30}{'cost saved':>11}{'solve rate':>12}{'cost of pass':>14}")
        lines += [_line(name, score) for name, score in result.strategies.items()]
        lines.append(f"  {'fixed_model at that loss':<30}{_equal_loss(result)}")
        lines += ["", "  What explains it:"]
        lines += [_line(name, score) for name, score in result.ablation.items()]
    return "\n".join(lines) + "\n"


def _line(name: str, score: Score) -> str:
    ratio = "-" if score.cost_of_pass_ratio is None else f"{score.cost_of_pass_ratio:.3f}"
    return (
        f"  {name:<30}{100 * score.cost_saved:>9.1f} %"
        f"{score.solve_rate_delta_pp:>9.2f} pp{ratio:>14}"
    )


def _equal_loss(result: GrowthResult) -> str:
    saved = result.fixed_model_at_dynamic_loss
    if saved is None:
        return f"{'-':>11}"
    difference_pp = 100 * (result.strategies["dynamic"].cost_saved - saved)
    return f"{100 * saved:>9.1f} %  (dynamic: {difference_pp:+.1f} points of saving)"
