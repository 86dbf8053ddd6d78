"""`flyball up`: serve until told to stop."""

import argparse
import json
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from urllib.parse import urlsplit, urlunsplit

import anyio

from runtime.collector import spare_what_lasts
from runtime.configuration.listen import WORKERS_MAX
from runtime.configuration.load import load_config
from runtime.configuration.model import Config
from runtime.configuration.store_url import store_url_of
from runtime.configuration.translate import budgets_of
from runtime.examination import local_command_findings
from runtime.findings import Mark
from runtime.hangup import reloading_on_hangup
from runtime.http_guard import LOOPBACK, bare_host
from runtime.listeners import DRAIN_SECONDS, Listeners, bind
from runtime.logs import remark, start_log
from runtime.machine import executor_of
from runtime.serving import serving, upstreams_shown
from runtime.settings import Settings
from runtime.standing_budgets import names_in
from runtime.stopping import StopSignals, run_to_its_end
from runtime.store_findings import budget_findings
from runtime.token_files import TENANT, token_files
from runtime.wiring import Sidecar
from runtime.workers.child import EXIT_FAULT
from runtime.workers.supervisor import (
    KEEPER_STOP_SECONDS_MAX,
    WORKERS_STOP_SECONDS_MAX,
    Supervisor,
)
from tool_gateway.upstreams.standing import UpstreamState

_STARTING = UpstreamState.STARTING.value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add how many processes serve agents."""
    parser.add_argument(
        "--workers",
        type=int,
        choices=range(1, WORKERS_MAX + 1),
        metavar="N",
        help="how many processes serve agents (default: listen.workers, else 1)",
    )


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Serve; return 0 after an orderly stop, 128 and the signal's number before it served."""
    start_log(settings)
    return run_to_its_end(_serve, settings, arguments)


async def _serve(signals: StopSignals, settings: Settings, arguments: argparse.Namespace) -> int:
    with anyio.CancelScope() as starting:
        signals.do(starting.cancel)
        config = load_config(settings.config)
        workers: int = arguments.workers or config.listen.workers
        if workers > 1:
            return await _serve_workers(signals, config, settings, arguments, workers)
        url = store_url_of(config, settings.store_url)
        async with serving(
            config,
            state_dir=settings.state,
            store_url=url,
            reread=lambda: load_config(settings.config),
        ) as (sidecar, listeners):
            signals.do(None)
            spare_what_lasts()
            async with reloading_on_hangup(sidecar), anyio.create_task_group() as tasks:
                if signals.first is None:
                    await _warn(sidecar, config, settings)
                    upstreams = upstreams_shown(sidecar)
                    tools = sum(one["tools"] for one in upstreams)
                    urls = listeners.agents_url, listeners.admin_url
                    shown = _shown(*urls, tools, config, settings)
                    _announce(shown, upstreams, config, arguments)
                    if not arguments.json:
                        late = [one["name"] for one in upstreams if one["state"] == _STARTING]
                        tasks.start_soon(_tell_late, sidecar, late, name="late upstreams")
                await _until_stopped(signals, sidecar, listeners)
                tasks.cancel_scope.cancel()
    return signals.status if starting.cancelled_caught else 0


async def _tell_late(sidecar: Sidecar, late: Sequence[str]) -> None:
    """Say of each upstream that was still starting how it is, once that is known."""
    for connection in sidecar.fleet.connections:
        if connection.name not in late:
            continue
        await connection.settled()
        shown = next(one for one in upstreams_shown(sidecar) if one["name"] == connection.name)
        # Whoever started this may have read enough and closed the pipe.
        with suppress(OSError):
            sys.stdout.write(_upstream_line(shown))
            sys.stdout.flush()


async def _until_stopped(signals: StopSignals, sidecar: Sidecar, listeners: Listeners) -> None:
    """Return at the first signal; from then on another one ends the wait for calls."""
    await signals.asked()
    signals.do(listeners.hurry)
    count = len(sidecar.running)
    if count:
        calls = "1 call" if count == 1 else f"{count} calls"
        drain = f"stopping; waiting up to {DRAIN_SECONDS:.0f} s for {calls}"
        remark(f"{drain}; Ctrl-C again ends it now")


async def _warn(sidecar: Sidecar, config: Config, settings: Settings) -> None:
    """Say once at start what this host cannot hold, and which budgets are not as the file says."""
    executor = executor_of(config, host=sidecar.host, state_dir=settings.state)
    budgets = budgets_of(config, tenant=TENANT)
    found = await sidecar.store.glance(names_in(budgets))
    for finding in (
        *local_command_findings(config, executor, settings.state),
        *budget_findings(budgets, found),
    ):
        if finding.mark is Mark.WARNING:
            remark(f"warning: {finding.what}: {finding.told}")


async def _serve_workers(
    signals: StopSignals,
    config: Config,
    settings: Settings,
    arguments: argparse.Namespace,
    workers: int,
) -> int:
    """Have a keeper and so many workers serve; what they cannot do they say themselves."""
    agents = bind(config.listen.agents, config.listen)
    admin = bind(config.listen.admin, config.listen)
    with agents.listening, admin.listening:
        supervisor = Supervisor(
            settings,
            workers=workers,
            agents=agents.listening.fileno(),
            admin=admin.listening.fileno(),
        )
        async with supervisor.running() as is_up:
            if not is_up:
                return EXIT_FAULT
            signals.do(None)
            said = supervisor.keeper.said
            shown = {**_shown(agents.url, admin.url, said["tools"], config, settings)}
            _announce({**shown, "workers": workers}, said["upstreams"], config, arguments)
            await _until_asked(signals, supervisor)
            signals.do(supervisor.hurry)
            # Longer than by itself: it waits for others, each of which is watched.
            signals.end_within(WORKERS_STOP_SECONDS_MAX + KEEPER_STOP_SECONDS_MAX)
    return 0


async def _until_asked(signals: StopSignals, supervisor: Supervisor) -> None:
    """Return at the first signal to stop; SIGHUP goes on to every process."""
    with anyio.open_signal_receiver(signal.SIGHUP) as hangups:
        async with anyio.create_task_group() as tasks:

            async def forward() -> None:
                async for hangup in hangups:
                    supervisor.forward(hangup)

            tasks.start_soon(forward, name="hangups")
            await signals.asked()
            tasks.cancel_scope.cancel()


def _console_url(admin_url: str, config: Config) -> str:
    """Return where browsers find the console: on this machine under a name of its own."""
    place = urlsplit(admin_url)
    own = config.console.own_host(has_tls=config.listen.tls_cert is not None)
    is_led = own and bare_host(place.netloc) in LOOPBACK
    netloc = f"{own}:{place.port}" if is_led else place.netloc
    return urlunsplit((place.scheme, netloc, "/console", "", ""))


def _shown(
    agents_url: str, admin_url: str, tools: int, config: Config, settings: Settings
) -> dict[str, object]:
    """Return where everything is, as programs read it."""
    tokens = token_files(settings.state)
    return {
        "agents": f"{agents_url}/mcp",
        "models": f"{agents_url}/v1",
        "admin": f"{admin_url}/admin/v1",
        "console": _console_url(admin_url, config) if config.console.enabled else None,
        "agent_token_file": None if config.auth.mode == "none" else str(tokens.agent),
        "admin_token_file": str(tokens.admin),
        "tools": tools,
    }


def _announce(
    shown: Mapping[str, object],
    upstreams: Sequence[Mapping[str, object]],
    config: Config,
    arguments: argparse.Namespace,
) -> None:
    token = (
        f"agents need no token: everybody on this machine is {config.auth.principal!r}"
        if config.auth.mode == "none"
        else f"agent token in      {shown['agent_token_file']}"
    )
    console = f"  console             {shown['console']}\n" if shown["console"] else ""
    if arguments.json:
        sys.stdout.write(json.dumps(shown) + "\n")
    else:
        sys.stdout.write(
            "Flyball serves. Ctrl-C stops it.\n"
            f"  MCP for agents      {shown['agents']}\n"
            f"  models for agents   {shown['models']}\n"
            f"  admin API           {shown['admin']}\n"
            f"{console}"
            f"  {token}\n"
            f"  admin token in      {shown['admin_token_file']}\n"
        )
        if "workers" in shown:
            sys.stdout.write(f"  workers             {shown['workers']}\n")
        for upstream in upstreams:
            sys.stdout.write(_upstream_line(upstream))
    sys.stdout.flush()


def _upstream_line(upstream: Mapping[str, object]) -> str:
    tools = "1 tool" if upstream["tools"] == 1 else f"{upstream['tools']} tools"
    problem = f" ({upstream['problem']})" if upstream["problem"] else ""
    return f"  upstream {upstream['name']:<11}{upstream['state']}, {tools}{problem}\n"
