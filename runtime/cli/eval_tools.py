"""`flyball eval tools`: how often tool search finds the tool that a step takes."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from runtime.clock import SystemClock
from runtime.evaluate.tools import (
    Measured,
    learned_recalls,
    measure,
    own_search,
    plain_bm25,
)
from runtime.evaluate.tools_files import read_corpus, read_requests
from runtime.word_vectors import vectors_if_any

HELP = (
    "Measure tool search on a catalogue and requests with known tools. Nothing is learned from "
    "the requests."
)
_SCORES = ("recall@1", "recall@5", "recall@10", "ndcg@10")
_COLUMNS = (*_SCORES, "mean_tools_shown", "p50_ms")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the files, and what is compared."""
    parser.add_argument(
        "--corpus",
        type=Path,
        required=True,
        metavar="FILE.jsonl",
        help="a tool a line: id, name, description, server, server_desc, inputSchema",
    )
    parser.add_argument(
        "--queries",
        type=Path,
        required=True,
        metavar="FILE.jsonl",
        help="a request a line: query and gold; or a task: steps, tools, gold, missing, aligned",
    )
    parser.add_argument("--baseline", action="store_true", help="compare with plain BM25")
    parser.add_argument(
        "--learned",
        action="store_true",
        help="measure each line again once the other lines have been worked on",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the bootstrap; default: 0")


def run(arguments: argparse.Namespace) -> int:
    """Print the measurement; return 0.

    Raises:
        ToolsFileError: a file is not usable.
    """
    corpus = read_corpus(arguments.corpus)
    requests = read_requests(arguments.queries, corpus)
    vectors = vectors_if_any()
    timer, seed = SystemClock().elapsed_ns, arguments.seed
    ours = measure(own_search(corpus, vectors=vectors), requests.steps, timer=timer)
    shape = ours.shape(seed=seed)
    if arguments.baseline:
        plain = measure(plain_bm25(corpus), requests.steps, timer=timer)
        shape["baseline"] = _compared(ours, plain, seed=seed)
    if arguments.learned:
        learned = learned_recalls(corpus, requests.steps, vectors=vectors).shape(seed=seed)
        shape["learned"] = {key: learned[key] for key in _SCORES}
    if arguments.json:
        sys.stdout.write(json.dumps(shape, allow_nan=False) + "\n")
    else:
        sys.stdout.write(_text(shape, tools=len(corpus.ids), left_out=requests.left_out))
    return 0


def _compared(ours: Measured, plain: Measured, *, seed: int) -> dict[str, Any]:
    gain, between = ours.gain_over(plain, seed=seed)
    return {
        "name": "bm25",
        **plain.shape(seed=seed),
        "gain@5": gain,
        "gain@5_ci95": list(between),
    }


def _text(shape: dict[str, Any], *, tools: int, left_out: int) -> str:
    low, high = shape["recall@5_ci95"]
    lines = [
        f"Tool search, {shape['n']} steps over {tools} tools"
        + (f" ({left_out} steps without a tool of their own left out):" if left_out else ":"),
        f"  {'':<12}" + "".join(f"{column:>18}" for column in _COLUMNS),
        _line("flyball", shape),
    ]
    if "learned" in shape:
        lines.append(_line("learned", shape["learned"]))
    baseline = shape.get("baseline")
    if baseline is not None:
        lines.append(_line("plain BM25", baseline))
    lines.append(f"  recall@5 lies between {low:.3f} and {high:.3f} (95 %, bootstrap over steps).")
    if baseline is not None:
        least, most = baseline["gain@5_ci95"]
        lines.append(
            f"  It is {baseline['gain@5']:+.3f} above plain BM25 "
            f"({least:+.3f} to {most:+.3f}, 95 %, paired)."
        )
    return "\n".join(lines) + "\n"


def _line(name: str, shape: dict[str, Any]) -> str:
    figures = (f"{shape[column]:>18.3f}" for column in _COLUMNS if column in shape)
    return f"  {name:<12}" + "".join(figures)
