"""What the parent starts: one process of the sidecar, which does not outlive its parent."""

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from ebpf.errors import EbpfError
from memory_store.errors import StoreError
from runtime.errors import RuntimeFaultError, leaves_of
from runtime.logs import remark, start_log
from runtime.settings import Settings
from runtime.stopping import StopSignals, run_to_its_end
from runtime.workers.keeper import keep
from runtime.workers.worker import WorkerTerms, work

EXIT_FAULT = 2
KEEPER = "keeper"
WORKER = "worker"
# From the parent's end on: calls are stopped and settled, servers ended, the ledger closed.
ORPHAN_SECONDS_MAX = 30.0
_HURRY_AFTER_SECONDS = 0.2
_SHOWN = (RuntimeFaultError, StoreError, EbpfError)


def main(words: Sequence[str]) -> int:
    """Run one process until it is told to stop, or its parent is gone."""
    parsed = _parser().parse_args(words)
    settings = Settings(config=parsed.config, state=parsed.state)
    os.set_inheritable(parsed.listening, False)  # noqa: FBT003 - the library's own signature
    # Whoever reads the configuration again does so at its parent's word.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    start_log(settings)
    threading.Thread(target=_watch_parent, name="flyball-parent", daemon=True).start()
    try:
        return run_to_its_end(_run, settings, parsed)
    except Exception as error:
        told = words_of(error)
        if told is None:
            raise
        remark(told)
        return EXIT_FAULT


def words_of(error: Exception) -> str | None:
    """Return what its user can do something about, None for a fault of ours.

    Task groups wrap what ends them, and one error often ends several tasks.
    """
    leaves = list(leaves_of(error))
    if not all(isinstance(leaf, _SHOWN) for leaf in leaves):
        return None
    return "\n".join(dict.fromkeys(map(str, leaves)))


async def _run(signals: StopSignals, settings: Settings, parsed: argparse.Namespace) -> int:
    if parsed.role == KEEPER:
        await keep(
            signals,
            settings,
            workers=parsed.workers,
            listening=parsed.listening,
            is_first=parsed.is_first,
        )
        return 0
    terms = WorkerTerms(worker=parsed.worker, workers=parsed.workers, listening=parsed.listening)
    await work(signals, settings, terms)
    return 0


def _watch_parent() -> None:
    """End this process when its parent is gone, in order if that takes no longer than it may.

    The parent holds the other end of our standard input and never writes: the kernel closes it
    however the parent ends.
    """
    while os.read(sys.stdin.fileno(), 1):
        """Nothing is ever said."""
    os.kill(os.getpid(), signal.SIGTERM)
    over = threading.Event()
    over.wait(_HURRY_AFTER_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
    over.wait(ORPHAN_SECONDS_MAX)
    os._exit(EXIT_FAULT)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="flyball", description=__doc__)
    parser.add_argument("role", choices=[KEEPER, WORKER])
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--worker", type=int, default=0)
    parser.add_argument("--listening", type=int, required=True)
    parser.add_argument("--is-first", action="store_true")
    return parser
