"""`flyball eval memory`: how often the evidence of a question is found in memory."""

import argparse
import json
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

from runtime.errors import RuntimeFaultError
from runtime.evaluate.memory.conversations import MAIN_KINDS, read_conversations
from runtime.evaluate.memory.evaluation import MemoryEvaluation, evaluate
from runtime.evaluate.memory.figures import KEYS, Figures, main_of
from runtime.evaluate.memory.messages import CUT, read_messages, recall_of
from runtime.memory_ranker import memory_ranker
from runtime.word_vectors import vectors_if_any

NAME = "memory"
HELP = "Measure whether memory finds the turns of a conversation that answer a question."
_KINDS = {1: "several turns", 2: "when", 3: "open", 4: "one turn", 5: "never said"}
_WIDTH = 22


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the files, and what is measured besides."""
    parser.add_argument(
        "--locomo", type=Path, metavar="FILE.json", help="conversations in LoCoMo's format"
    )
    parser.add_argument(
        "--learned",
        action="store_true",
        help="measure each conversation again with a ranker learned from the others",
    )
    parser.add_argument(
        "--memdaily",
        type=Path,
        nargs="+",
        default=(),
        metavar="FILE.json",
        help="messages in MemDaily's format (Chinese)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the bootstrap; default: 0")


def run(arguments: argparse.Namespace) -> int:
    """Print the measurement; return 0.

    Raises:
        RuntimeFaultError: no file was named, or one is not usable.
    """
    if arguments.locomo is None and not arguments.memdaily:
        raise RuntimeFaultError("eval memory: give --locomo FILE.json or --memdaily FILE.json")
    shape: dict[str, Any] = {}
    lines: list[str] = []
    if arguments.locomo is not None:
        found = _of_conversations(arguments)
        shape |= found.shape()
        lines += _conversation_lines(found, seed=arguments.seed)
    if arguments.memdaily:
        recalls = _of_messages(arguments.memdaily)
        shape["memdaily"] = {f"recall@{CUT}": fmean(recalls.values()), "files": recalls}
        lines += _message_lines(recalls)
    text = json.dumps(shape, allow_nan=False) if arguments.json else "\n".join(lines)
    sys.stdout.write(text + "\n")
    return 0


def _of_conversations(arguments: argparse.Namespace) -> MemoryEvaluation:
    return evaluate(
        read_conversations(arguments.locomo),
        ranker=memory_ranker(),
        vectors=vectors_if_any(),
        learned=arguments.learned,
    )


def _of_messages(paths: list[Path]) -> dict[str, float]:
    ranker, vectors = memory_ranker(), vectors_if_any()
    return {
        path.name: recall_of(read_messages(path), ranker=ranker, vectors=vectors) for path in paths
    }


def _conversation_lines(found: MemoryEvaluation, *, seed: int) -> list[str]:
    rows = [("shipped", found.with_meaning), ("shipped, no model", found.by_words)]
    if found.learned is not None:
        rows += [
            ("learned", found.learned.with_meaning),
            ("learned, no model", found.learned.by_words),
        ]
    total = len(main_of(found.with_meaning).scored)
    lines = [
        f"Evidence found for {total} questions, each asked of its own conversation:",
        f"  {'':<{_WIDTH}}" + "".join(f"{key:>19}" for key in KEYS),
        *(_line(name, main_of(figures)) for name, figures in rows),
        "",
        "  95 % intervals (bootstrap over conversations):",
        *(_between(name, main_of(figures), seed=seed) for name, figures in rows),
        "",
        "  recall@10 by kind of question:",
        *_by_kind(rows),
    ]
    if found.learned is not None:
        lines.append("  Learned: from all conversations but the one it is tried on; not shipped.")
    return lines


def _line(name: str, figures: Figures) -> str:
    means = figures.means()
    return f"  {name:<{_WIDTH}}" + "".join(f"{means[key]:>19.3f}" for key in KEYS)


def _between(name: str, figures: Figures, *, seed: int) -> str:
    intervals = (figures.interval(key, seed=seed) for key in KEYS)
    columns = (f"{f'{low:.3f} to {high:.3f}':>19}" for low, high in intervals)
    return f"  {name:<{_WIDTH}}" + "".join(columns)


def _by_kind(rows: list[tuple[str, Figures]]) -> list[str]:
    kinds = [kind for kind in _KINDS if rows[0][1].of_kinds(kind).scored]
    lines = ["  " + " " * _WIDTH + "".join(f"{_titled(kind):>19}" for kind in kinds)]
    for name, figures in rows:
        means = (figures.of_kinds(kind).means()["recall@10"] for kind in kinds)
        lines.append(f"  {name:<{_WIDTH}}" + "".join(f"{mean:>19.3f}" for mean in means))
    return lines


def _titled(kind: int) -> str:
    return _KINDS[kind] if kind in MAIN_KINDS else f"({_KINDS[kind]})"


def _message_lines(recalls: dict[str, float]) -> list[str]:
    return [
        f"Messages found among the first {CUT}, each asked of its own trajectory:",
        *(f"  {name:<40}{recall:>8.3f}" for name, recall in recalls.items()),
        f"  {'mean':<40}{fmean(recalls.values()):>8.3f}",
    ]
