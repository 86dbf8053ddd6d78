"""How much of the evidence memory finds, beside other memories, on the same conversations.

Each party ranks the turns of each conversation for each question, by protocol `locomo-turn-v1`:
peers get a turn as "speaker: text", and where they take vectors those that Flyball ships. Flyball
gets text, speaker, session and time as it stores them. A peer runs in an environment of its own;
one that is not there is left out, and how to put it there is printed.

Usage: python -m benchmarks.memory LOCOMO.json [--peers FOLDER] [--only NAME ...] [--seed 0]
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from runtime.evaluate.memory.conversations import Conversation, read_conversations
from runtime.evaluate.memory.figures import KEYS, Figures, main_of, score
from runtime.evaluate.memory.shelves import shelved
from runtime.memory_ranker import memory_ranker
from runtime.word_vectors import word_vectors

SCRIPT = Path(__file__).with_name("memory_peers.py")
SECONDS_MAX = 1_800
# Environment, and what is installed into it; the first two need nothing but Python.
PEERS = {
    "fts5": ("", "SQLite FTS5"),
    "fts5_stop": ("", "SQLite FTS5, question words left out"),
    "bm25s": ("bm25s PyStemmer numpy", "bm25s"),
    "chroma": ("chromadb", "Chroma"),
    "lancedb": ("lancedb pyarrow", "LanceDB hybrid"),
    "txtai": ("txtai", "txtai hybrid"),
    "mms": ("mcp-memory-service pysqlite3-binary", "mcp-memory-service"),
    "mem0": ("mem0ai", "mem0, infer=False"),
}
WIDTH = 38


def given(conversations: Sequence[Conversation]) -> str:
    """Return what a peer is told, as JSON."""
    vectors = word_vectors()
    told = []
    for at, conversation in enumerate(conversations):
        texts = [f"{turn.speaker}: {turn.text}" for turn in conversation.turns]
        questions = [question.text for question in conversation.questions]
        told.append(
            {
                "name": f"conversation{at}",
                "texts": texts,
                "vectors": [vectors.embed(text).tolist() for text in texts],
                "questions": questions,
                "question_vectors": [vectors.embed(text).tolist() for text in questions],
            }
        )
    return json.dumps(told)


def of_peer(
    name: str, python: str, conversations: Sequence[Conversation], told: str
) -> Figures | None:
    """Return how a peer does, None where it failed."""
    done = subprocess.run(
        [python, str(SCRIPT), name],
        input=told,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
        print(f"  {PEERS[name][1]:<{WIDTH}}failed: {last[0]:.100}", flush=True)
        return None
    rankings = [
        [[conversation.turns[number].turn_id for number in ranking] for ranking in ranked]
        for conversation, ranked in zip(conversations, json.loads(done.stdout), strict=True)
    ]
    return score(conversations, rankings)


def ours(conversations: Sequence[Conversation], *, by_words: bool) -> Figures:
    """Return how Flyball does with what it ships, with vectors or by words alone."""
    vectors, ranker = None if by_words else word_vectors(), memory_ranker()
    return score(
        conversations,
        [shelved(conversation, vectors).rankings(ranker) for conversation in conversations],
    )


def show(name: str, figures: Figures, *, seed: int) -> None:
    """Print a line: the means, and between what recall@10 lies."""
    means, (low, high) = figures.means(), figures.interval("recall@10", seed=seed)
    columns = "".join(f"{means[key]:>18.3f}" for key in KEYS)
    print(f"  {name:<{WIDTH}}{columns}   {low:.3f} to {high:.3f}", flush=True)


def interpreter(name: str, folder: Path) -> str | None:
    """Return the Python that runs a peer, None where its environment is not there."""
    if not PEERS[name][0]:
        return sys.executable
    found = folder / name / "bin" / "python"
    return str(found) if found.exists() else None


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--peers", type=Path, default=Path("peers"), metavar="FOLDER")
    parser.add_argument("--only", action="append", choices=sorted(PEERS), default=[])
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    conversations = read_conversations(asked.file)
    told = given(conversations)
    print("  " + " " * WIDTH + "".join(f"{key:>18}" for key in KEYS) + "   recall@10, 95 %")
    show("Flyball", main_of(ours(conversations, by_words=False)), seed=asked.seed)
    show("Flyball, no model", main_of(ours(conversations, by_words=True)), seed=asked.seed)
    for name in asked.only or PEERS:
        python = interpreter(name, asked.peers)
        if python is None:
            print(
                f"  {PEERS[name][1]:<{WIDTH}}not there: python -m venv {asked.peers}/{name} && "
                f"{asked.peers}/{name}/bin/pip install {PEERS[name][0]}"
            )
            continue
        figures = of_peer(name, python, conversations, told)
        if figures is not None:
            show(PEERS[name][1], main_of(figures), seed=asked.seed)


if __name__ == "__main__":
    main()
