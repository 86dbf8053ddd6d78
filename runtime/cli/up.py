"""`flyball up`: serve until told to stop."""

import argparse
import json
import logging
import sys

import anyio

from ebpf.executor import LocalExecutor
from runtime.cli.reloading import reloading_on_hangup
from runtime.cli.stopping import StopSignals, stop_signals
from runtime.collector import spare_what_lasts
from runtime.configuration.load import load_config
from runtime.configuration.model import Config
from runtime.configuration.store_url import store_url_of
from runtime.configuration.translate import budgets_of
from runtime.examination import Mark, budget_findings, local_command_findings
from runtime.listeners import DRAIN_SECONDS, Listeners
from runtime.serving import serving
from runtime.settings import Settings
from runtime.standing_budgets import names_in
from runtime.token_files import TENANT
from runtime.wiring import Sidecar

NAME = "up"
HELP = "Serve agents and administrators until SIGTERM or Ctrl-C."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing of its own."""


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Serve; return 0 after an orderly stop, 128 and the signal's number before it served."""
    logging.basicConfig(
        level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    return anyio.run(_serve, settings, arguments)


async def _serve(settings: Settings, arguments: argparse.Namespace) -> int:
    async with stop_signals() as signals:
        with anyio.CancelScope() as starting:
            signals.do(starting.cancel)
            config = load_config(settings.config)
            url = store_url_of(config, settings.store_url)
            async with serving(
                config,
                state_dir=settings.state,
                store_url=url,
                reread=lambda: load_config(settings.config),
            ) as (sidecar, listeners):
                signals.do(None)
                spare_what_lasts()
                async with reloading_on_hangup(sidecar):
                    if signals.first is None:
                        await _warn(sidecar, config, settings)
                        _announce(sidecar, listeners, config, as_json=arguments.json)
                    await _until_stopped(signals, sidecar, listeners)
        return signals.status if starting.cancelled_caught else 0


async def _until_stopped(signals: StopSignals, sidecar: Sidecar, listeners: Listeners) -> None:
    """Return at the first signal; from then on another one ends the wait for calls."""
    await signals.asked()
    signals.do(listeners.hurry)
    count = len(sidecar.running)
    if count:
        calls = "1 call" if count == 1 else f"{count} calls"
        sys.stderr.write(
            f"flyball: stopping; waiting up to {DRAIN_SECONDS:.0f} s for {calls}; "
            "Ctrl-C again ends it now\n"
        )


async def _warn(sidecar: Sidecar, config: Config, settings: Settings) -> None:
    """Say once at start what this host cannot hold, and which budgets are not as the file says."""
    executor = LocalExecutor(host=sidecar.host, state_dir=settings.state, user=config.local.user)
    budgets = budgets_of(config, tenant=TENANT)
    found = await sidecar.store.glance(names_in(budgets))
    for finding in (
        *local_command_findings(config, executor, settings.state),
        *budget_findings(budgets, found),
    ):
        if finding.mark is Mark.WARNING:
            sys.stderr.write(f"flyball: warning: {finding.what}: {finding.told}\n")


def _announce(sidecar: Sidecar, listeners: Listeners, config: Config, *, as_json: bool) -> None:
    is_open = config.auth.mode == "none"
    shown = {
        "agents": f"{listeners.agents_url}/mcp",
        "models": f"{listeners.agents_url}/v1",
        "admin": f"{listeners.admin_url}/admin/v1",
        "agent_token_file": None if is_open else str(sidecar.tokens.agent),
        "admin_token_file": str(sidecar.tokens.admin),
        "tools": sum(len(connection.entries) for connection in sidecar.fleet.connections),
    }
    token = (
        f"agents need no token: everybody on this machine is {config.auth.principal!r}"
        if is_open
        else f"agent token in      {shown['agent_token_file']}"
    )
    if as_json:
        sys.stdout.write(json.dumps(shown) + "\n")
    else:
        sys.stdout.write(
            "Flyball serves. Ctrl-C stops it.\n"
            f"  MCP for agents      {shown['agents']}\n"
            f"  models for agents   {shown['models']}\n"
            f"  admin API           {shown['admin']}\n"
            f"  {token}\n"
            f"  admin token in      {shown['admin_token_file']}\n"
        )
        for connection in sidecar.fleet.connections:
            state = f"{connection.state}, {len(connection.entries)} tools"
            problem = f" ({connection.problem})" if connection.problem else ""
            sys.stdout.write(f"  upstream {connection.name:<11}{state}{problem}\n")
    sys.stdout.flush()
