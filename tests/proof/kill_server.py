"""A ledger in a process of its own, to be killed: `python -m proof.kill_server`.

The first process loads everything once and then only forks, so that a thousand kills do not
import a thousand times. It never runs a thread or a loop itself. On its standard input
stands one order a line, on its standard output one answer:

    {"start": {...}}   -> the pid of a new server
    {"wait": pid}      -> how it ended, once it is gone

A server connects to the socket that it was given and answers requests there, line by line.
"""

import gc
import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import ByteSendStream
from anyio.streams.buffered import BufferedByteReceiveStream
from proof.values import chain_of, record_for, request_of, units_of, usage_of

from governor.denial import Denied
from governor.errors import InvalidTransitionError
from governor.events import KeyReused, Replayed, Reserved
from governor.ids import ReservationId
from memory_store import crash_points
from memory_store.engine import Durability
from memory_store.errors import StoreUnavailableError
from memory_store.ledger import SqlLedger
from memory_store.store import open_store

LINE_BYTES_MAX = 65_536


def main() -> None:
    """Fork a server for each order; return when nobody orders any more."""
    gc.freeze()
    for line in sys.stdin:
        order = json.loads(line)
        if "start" in order:
            pid = os.fork()
            if pid == 0:
                _serve_and_exit(order["start"])
            _say(pid)
        else:
            _, status = os.waitpid(order["wait"], 0)
            _say(os.waitstatus_to_exitcode(status))


def _say(answer: int) -> None:
    sys.stdout.write(f"{answer}\n")
    sys.stdout.flush()


def _serve_and_exit(options: dict[str, Any]) -> None:
    try:
        anyio.run(_serve, options)
    except (OSError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.IncompleteRead):
        """Whoever asked is gone."""
    finally:
        os._exit(0)


async def _serve(options: dict[str, Any]) -> None:
    if options.get("point"):
        crash_points.arm(options["point"], options["nth"])
    durability = Durability(options["durability"])
    async with (
        open_store(Path(options["state"]), url=options["url"], durability=durability) as store,
        await anyio.connect_unix(options["socket"]) as stream,
        anyio.create_task_group() as group,
    ):
        lines = BufferedByteReceiveStream(stream)
        while True:
            asked = json.loads(await lines.receive_until(b"\n", LINE_BYTES_MAX))
            group.start_soon(_answer, store.ledger, stream, asked)


async def _answer(ledger: SqlLedger, stream: ByteSendStream, asked: dict[str, Any]) -> None:
    try:
        said = await _done(ledger, asked)
    except InvalidTransitionError:
        said = {"ended_before": True}
    except StoreUnavailableError:
        said = {"unavailable": True}
    await stream.send(json.dumps({"id": asked["id"], **said}).encode() + b"\n")


async def _done(ledger: SqlLedger, asked: dict[str, Any]) -> dict[str, Any]:
    chain, now_ms = chain_of(*asked.get("chain", ("", "", ""))), asked["now_ms"]
    match asked["op"]:
        case "admit":
            return _decision(
                await ledger.admit(
                    request_of(
                        # A retry has ids of its own, as from a gateway that starts anew.
                        f"{asked['name']}.{asked['attempt']}",
                        chain,
                        units_of(asked["held"]),
                        now_ms=now_ms,
                        expires_at_ms=now_ms + asked["ttl_ms"],
                        key=(asked["key"], "hash"),
                    )
                )
            )
        case "forward":
            await ledger.forward(ReservationId(asked["reservation"]))
        case "settle":
            usage = usage_of(units_of(asked["used"]))
            record = record_for(asked["call"], chain, ended_at_ms=now_ms, usage=usage)
            await ledger.settle(ReservationId(asked["reservation"]), usage, record)
        case "release":
            record = record_for(asked["call"], chain, ended_at_ms=now_ms, usage=None)
            await ledger.release(ReservationId(asked["reservation"]), record)
        case "expire":
            expired = await ledger.expire_due(now_ms=now_ms, all_live=asked["all_live"])
            return {"expired": [one.reservation.reservation_id for one in expired]}
    return {}


def _decision(decision: Reserved | Denied | Replayed | KeyReused) -> dict[str, Any]:
    match decision:
        case Denied():
            return {"denied": decision.reason.value}
        case KeyReused():
            return {"key_reused": True}
        case Replayed(original=held) | Reserved(reservation=held):
            return {
                "reservation": held.reservation_id,
                "call": held.call_id,
                "state": held.state.value,
                "is_replay": isinstance(decision, Replayed),
            }


if __name__ == "__main__":
    main()
