"""`flyball run`: an agent, whatever program it is, as one governed session."""

import argparse
import json
import secrets
import sys
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec

from governor.amounts import Unit
from runtime.agent_runs.launcher import (
    EXIT_BUDGET,
    EXIT_LIMIT,
    EXIT_SESSION,
    EXIT_SIDECAR,
    Outcome,
    Start,
    complain,
    run_agent,
)
from runtime.agent_runs.outfit import gate_of, outfit_of, place_for_config, write_config
from runtime.agent_runs.words import Begin, MachineLimits, Ready, check_session
from runtime.cli.agent_sessions import AgentSessions, agent_sessions_of
from runtime.configuration.named_secrets import secret_variables_in
from runtime.errors import RuntimeFaultError
from runtime.settings import Settings, agent_environment

_PARENT = "flyball-run"
_MACHINE = frozenset(MachineLimits.__struct_fields__)
_NO_LIMIT = "is no limit"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the agent's command and how it is governed."""
    parser.add_argument("--task", help="what the user wants, in their own words")
    parser.add_argument(
        "--session", type=_session, metavar="NAME", help="the session; default: a new one"
    )
    parser.add_argument(
        "--limits",
        type=_limits,
        default={},
        metavar="NAME=N,…",
        help=(
            "an allowance of its own (cost_microusd, tool_calls, cpu_ms, …) and what it may take "
            "of the machine (memory_mib, pids, cpus)"
        ),
    )
    parser.add_argument("--user", help="whom it runs as, where this is root")
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="-- CMD ARGS")
    parser.epilog = (
        "The agent finds OPENAI_BASE_URL, OPENAI_API_KEY, ANTHROPIC_BASE_URL, "
        "ANTHROPIC_AUTH_TOKEN, FLYBALL_URL, FLYBALL_MCP_URL, FLYBALL_TOKEN, FLYBALL_SESSION and "
        "FLYBALL_MCP_CONFIG, an mcpServers file with the sidecar in it; claude, codex and opencode "
        "are told of it in their own way. The status is "
        f"the agent's own (128 and the number of a signal), else {EXIT_BUDGET}: a budget is used "
        f"up; {EXIT_SESSION}: the session was ended; {EXIT_LIMIT}: a limit of the machine; "
        f"{EXIT_SIDECAR}: the sidecar went away; 126 and 127: the program cannot be run; 2: it "
        "was refused."
    )


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Start the agent and return its status, or why it was ended."""
    command = arguments.program
    if command[:1] == ["--"]:
        command = command[1:]
    if not command:
        raise RuntimeFaultError("name the agent's program: flyball run -- CMD ARGS")
    name = arguments.session or f"run-{secrets.token_hex(4)}"
    carved = {unit: n for unit, n in arguments.limits.items() if unit not in _MACHINE}
    machine = {key: n for key, n in arguments.limits.items() if key in _MACHINE}
    kept_back = secret_variables_in(settings.config)
    with agent_sessions_of(settings) as sessions, place_for_config() as mcp_config:
        if carved:
            sessions.spawn(name, parent=_PARENT, limits=carved)
        try:
            if arguments.task is not None:
                sessions.say_task(name, arguments.task)
            outcome = anyio.run(
                partial(
                    run_agent,
                    Begin(
                        token=sessions.token,
                        session=name,
                        command=command,
                        cwd=str(Path.cwd()),
                        user=arguments.user,
                        limits=msgspec.convert(machine, MachineLimits),
                        is_carved=bool(carved),
                    ),
                    state=settings.state,
                    started_as=partial(
                        _start, sessions, name, command, mcp_config, kept_back=kept_back
                    ),
                    tell=complain,
                )
            )
        finally:
            # What was opened here is closed here, and gives back what is left of its allowance.
            if arguments.session is None or carved:
                sessions.close(name)
    _tell(outcome, name, as_json=arguments.json)
    return outcome.status


def _start(
    sessions: AgentSessions,
    name: str,
    command: Sequence[str],
    mcp_config: Path,
    ready: Ready,
    *,
    kept_back: Collection[str],
) -> Start:
    """Return what the agent is started with: the caller's, with the ways through the sidecar."""
    gate = gate_of(ready, base_url=sessions.base_url, session=name, mcp_config=mcp_config)
    write_config(gate, ready.account)
    outfit = outfit_of(command, gate, known=agent_environment({}, secrets=kept_back))
    return Start(
        command=outfit.command, environment=agent_environment(outfit.added, secrets=kept_back)
    )


def _limits(text: str) -> Mapping[str, int | float]:
    """Return the limits of a text like `tool_calls=20,memory_mib=512`."""
    found: dict[str, int | float] = {}
    for part in filter(None, text.split(",")):
        name, separator, value = part.partition("=")
        if not separator or (name not in _MACHINE and name not in set(Unit)):
            known = ", ".join([*Unit, *sorted(_MACHINE)])
            raise argparse.ArgumentTypeError(f"{part!r} {_NO_LIMIT}; use NAME=N with {known}")
        try:
            number: int | float = float(value) if name == "cpus" else int(value)
            if name in _MACHINE:
                msgspec.convert({name: number}, MachineLimits)
        except msgspec.ValidationError as error:
            why, _, _ = str(error).partition(" - at ")
            raise argparse.ArgumentTypeError(f"{part!r}: {why.lower()}") from error
        except ValueError:
            number = -1
        if number < 0:
            raise argparse.ArgumentTypeError(f"{part!r}: expected a number above zero")
        found[name] = number
    return found


def _session(text: str) -> str:
    """Return a session's name."""
    try:
        check_session(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def _tell(outcome: Outcome, session: str, *, as_json: bool) -> None:
    """Say on standard error what was used, or all of it in JSON on standard output."""
    settled = outcome.settled
    if as_json:
        shape: dict[str, Any] = {
            "ok": outcome.status == 0,
            "run": outcome.run,
            "session": session,
            "session_id": outcome.session_id,
            "status": outcome.status,
            "exit_code": outcome.exit_code,
            "signal": outcome.signal,
            "ended_by": outcome.ended_by,
            "why": outcome.text or None,
            "usage": None if settled is None else settled.usage,
            "unmeasured": None if settled is None else settled.unmeasured,
            "memory_peak_bytes": None if settled is None else settled.memory_peak_bytes,
        }
        sys.stdout.write(json.dumps(shape) + "\n")
    elif settled is None:
        complain(f"session {session}: what the agent used is not known")
    else:
        used = settled.usage
        cpu = used.get("cpu_ms")
        took = "an unknown time" if cpu is None else f"{cpu / 1000:.2f} s"
        wall = used.get("wall_ms", 0) / 1000
        complain(f"session {session}: {wall:.1f} s, {took} of processors")
