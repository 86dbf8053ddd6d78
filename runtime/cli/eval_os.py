"""`flyball eval os`: recorded sessions that share one machine, with and without governance."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio

from ebpf.errors import EbpfError
from runtime.errors import RuntimeFaultError
from runtime.evaluate.os.evaluation import Plan, evaluate_os, simulate_os
from runtime.evaluate.os.figures import METRICS, TIMED
from runtime.evaluate.os.outcome import ARMS, COMPARED, Arm

NAME = "os"
HELP = (
    "Replay recorded sessions with real processes that share one machine: one HIGH and two LOW, "
    "without isolation, with static limits, with memory.high only and with Flyball."
)
_MINUTES = 60
_WINDOW_S = 12
_MS_PER_S = 1_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what is replayed, where and for how long."""
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DIR", help="folder with replay_144.jsonl"
    )
    parser.add_argument(
        "--arms",
        default=",".join(COMPARED),
        metavar="ARM,...",
        help=f"any of {', '.join(ARMS)}; default: all but the last",
    )
    parser.add_argument(
        "--mixes",
        type=_count,
        default=20,
        metavar="N",
        help="default: 20; with --simulate as many rounds of all sessions as come closest",
    )
    parser.add_argument(
        "--memory-mib",
        type=_count,
        nargs="+",
        default=[1100],
        metavar="MIB",
        help="what three sessions share; default: 1100",
    )
    parser.add_argument("--seed", type=int, default=0, help="of mixes and intervals; default: 0")
    parser.add_argument(
        "--window-s",
        type=_count,
        default=_WINDOW_S,
        metavar="S",
        help=f"how much of a session is replayed; default: {_WINDOW_S}",
    )
    parser.add_argument(
        "--minutes",
        type=_count,
        default=_MINUTES,
        metavar="M",
        help=f"begin no mix that ends later; default: {_MINUTES}",
    )
    parser.add_argument(
        "--resume", type=Path, metavar="FILE", help="keep each replay here, and go on from it"
    )
    parser.add_argument(
        "--untimed",
        action="store_true",
        help="leave out what depends on the machine's speed: for small virtual machines",
    )
    parser.add_argument(
        "--simulate",
        action="store_true",
        help="all sessions, whole, in a simulated schedule: no processes, no root",
    )


def run(arguments: argparse.Namespace, show: Callable[[str], None]) -> int:
    """Print the evaluation; return 0.

    Raises:
        RuntimeFaultError: the data or the host is of no use, or the kernel refused a group; or
            nothing was replayed.
    """
    plan = Plan(
        data=arguments.data,
        arms=_arms(arguments.arms),
        mixes=arguments.mixes,
        memory_mib=tuple(arguments.memory_mib),
        window_ms=arguments.window_s * _MS_PER_S,
        seed=arguments.seed,
        minutes=arguments.minutes,
        resume=arguments.resume,
        left_out=TIMED if arguments.untimed else frozenset(),
    )
    try:
        if arguments.simulate:
            shape = simulate_os(plan, told=show)
        else:
            shape = anyio.run(lambda: evaluate_os(plan, told=show))
    except EbpfError as error:
        raise RuntimeFaultError(f"eval os: {error}") from error
    if not shape["arms"]:
        sizes = " or ".join(str(size) for size in plan.memory_mib)
        raise RuntimeFaultError(
            f"eval os: no mix fits in {sizes} MiB, or none was replayed to its end; try a larger "
            "--memory-mib or more --minutes"
        )
    sys.stdout.write(json.dumps(shape, allow_nan=False) + "\n" if arguments.json else _text(shape))
    return 0


def _count(text: str) -> int:
    count = int(text)
    if count <= 0:
        raise argparse.ArgumentTypeError("must be above 0")
    return count


def _arms(text: str) -> tuple[Arm, ...]:
    """Return the arms that are named.

    Raises:
        RuntimeFaultError: one is unknown.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in set(ARMS)]
    if unknown or not names:
        known = ", ".join(ARMS)
        raise RuntimeFaultError(f"eval os: --arms {text}: give some of {known}")
    return tuple(dict.fromkeys(Arm(name) for name in names))


def _text(shape: dict[str, Any]) -> str:
    kind = "simulated" if shape["simulated"] else "real processes"
    lines = [
        f"One HIGH and two LOW sessions that share one machine ({shape['backend']}, {kind}).",
        "Ratios are to the same sessions each alone; survival is the share of sessions that lost",
        "no call; throughput is work done in a time, one session after another being 1.",
    ]
    for arm in shape["arms"]:
        lines += ["", f"{arm['name']}, {arm['memory_mib']} MiB, {_mixes(arm['n'])}:"]
        for metric in METRICS:
            lines.append(f"  {metric:<18}{_figure(arm[metric], arm['ci95'][metric])}")
    return "\n".join(lines) + "\n"


def _mixes(count: int) -> str:
    return "1 mix" if count == 1 else f"{count} mixes"


def _figure(value: float | None, between: list[float] | None) -> str:
    if value is None:
        return f"{'-':>10}"
    if between is None:
        return f"{value:>10.3f}"
    return f"{value:>10.3f}  ({between[0]:.3f} to {between[1]:.3f})"
