"""`flyball eval flow`: play attack suites against the flow rules."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from governor.flow.policy import FlowPolicy
from runtime.errors import RuntimeFaultError
from runtime.evaluate.flow import Share, SuiteResult, evaluate_flow, total_of
from runtime.evaluate.flow_cases import read_injecagent, read_lines

NAME = "flow"
HELP = (
    "Play attack suites against the flow rules: attacks blocked, and benign tasks disturbed. The "
    "calls are given; no model is asked whether it would have made them."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add where the suites are."""
    parser.add_argument(
        "--agentdojo",
        type=Path,
        metavar="FILE.jsonl",
        help="suites as benchmarks/agentdojo_tasks.py writes them",
    )
    parser.add_argument(
        "--injecagent",
        type=Path,
        metavar="DIR",
        help="InjecAgent's data: tools.json and test_cases_*.json",
    )
    parser.add_argument("--details", action="store_true", help="name what was missed and asked")


def run(arguments: argparse.Namespace) -> int:
    """Print the evaluation; return 0.

    Raises:
        RuntimeFaultError: no suite was named, or one cannot be read.
    """
    families = []
    if arguments.agentdojo is not None:
        families.append(("agentdojo", read_lines(arguments.agentdojo)))
    if arguments.injecagent is not None:
        families.append(("injecagent", read_injecagent(arguments.injecagent)))
    if not families:
        raise RuntimeFaultError("eval flow: give --agentdojo FILE.jsonl, --injecagent DIR or both")
    policy = FlowPolicy()
    results = [(name, evaluate_flow(suites, policy)) for name, suites in families]
    if arguments.json:
        shape = {
            "families": [
                {
                    "name": name,
                    "suites": [one.shape() for one in found],
                    "total": total_of(found).shape(),
                }
                for name, found in results
            ]
        }
        sys.stdout.write(json.dumps(shape, allow_nan=False) + "\n")
    else:
        sys.stdout.write(_text(results, details=arguments.details))
    return 0


def _text(results: Sequence[tuple[str, Sequence[SuiteResult]]], *, details: bool) -> str:
    lines = [
        "Flow rules over recorded calls; no model chose them. Shares with 95 % intervals.",
        "",
        f"  {'suite':<26}{'attacks blocked':<34}benign tasks disturbed",
    ]
    for name, found in results:
        for one in (*found, total_of(found)):
            title = f"{name} {one.suite}"
            lines.append(f"  {title:<26}{_share(one.blocked):<34}{_share(one.disturbed)}")
            if details:
                lines += [f"      missed: {what}" for what in one.missed]
                lines += [f"      asked: {what}" for what in one.asked]
    return "\n".join(lines) + "\n"


def _share(share: Share) -> str:
    if share.rate is None or share.ci95 is None:
        return "-"
    low, high = share.ci95
    counted = f"{share.count} of {share.of}"
    return f"{100 * share.rate:5.1f} % ({100 * low:.1f}-{100 * high:.1f}), {counted}"
