"""`flyball up`: serve until told to stop."""

import argparse
import json
import logging
import signal
import sys

import anyio

from runtime.configuration.load import load_config
from runtime.listeners import Listeners
from runtime.serving import serving
from runtime.settings import Settings
from runtime.wiring import Sidecar

NAME = "up"
HELP = "Serve agents and administrators until SIGTERM or Ctrl-C."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing of its own."""


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Serve; return 0 after an orderly stop."""
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    anyio.run(_serve, settings, arguments)
    return 0


async def _serve(settings: Settings, arguments: argparse.Namespace) -> None:
    config = load_config(settings.config)
    async with serving(config, state_dir=settings.state) as (sidecar, listeners):
        _announce(sidecar, listeners, as_json=arguments.json)
        await until_signal()


async def until_signal() -> None:
    """Return at the first SIGTERM or SIGINT."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            return


def _announce(sidecar: Sidecar, listeners: Listeners, *, as_json: bool) -> None:
    shown = {
        "agents": f"{listeners.agents_url}/mcp",
        "models": f"{listeners.agents_url}/v1",
        "admin": f"{listeners.admin_url}/admin/v1",
        "agent_token_file": str(sidecar.tokens.agent),
        "admin_token_file": str(sidecar.tokens.admin),
        "tools": sum(len(connection.entries) for connection in sidecar.fleet.connections),
    }
    if as_json:
        sys.stdout.write(json.dumps(shown) + "\n")
    else:
        sys.stdout.write(
            "Flyball serves. Ctrl-C stops it.\n"
            f"  MCP for agents      {shown['agents']}\n"
            f"  models for agents   {shown['models']}\n"
            f"  admin API           {shown['admin']}\n"
            f"  agent token in      {shown['agent_token_file']}\n"
            f"  admin token in      {shown['admin_token_file']}\n"
        )
        for connection in sidecar.fleet.connections:
            state = f"{connection.state}, {len(connection.entries)} tools"
            problem = f" ({connection.problem})" if connection.problem else ""
            sys.stdout.write(f"  upstream {connection.name:<11}{state}{problem}\n")
    sys.stdout.flush()
