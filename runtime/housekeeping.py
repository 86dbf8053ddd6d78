"""What runs beside the calls: what a process follows, and what one of them does for all."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import anyio
from anyio.abc import TaskGroup

from memory_store.experiences.values import KeepRule
from runtime.configuration.memory_keeping import keep_rules_of
from runtime.configuration.translate import retention_ms_of
from runtime.ground import Ground
from runtime.notifying import Notifier, start_notifying, tell_denials_for_ever
from runtime.reaper import (
    audit_for_ever,
    close_idle_for_ever,
    end_approvals_for_ever,
    follow_pins_for_ever,
    follow_prices_for_ever,
    follow_sessions_for_ever,
    learn_for_ever,
    purge_for_ever,
    purge_log_for_ever,
    reap_for_ever,
)
from tool_gateway.freezing import SessionFreezer
from tool_gateway.guards.pins import Pins


@asynccontextmanager
async def keeping_house(
    ground: Ground, notifiers: Sequence[Notifier], pins: Pins, freezer: SessionFreezer
) -> AsyncIterator[None]:
    """Run what runs beside the calls.

    The group is not to be entered on an exit stack: it raises a cancellation again as the same
    object, of which the stack makes the cause of itself and then follows that for ever.
    """
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pins.pin_for_ever, name="pins")
        tasks.start_soon(learn_for_ever, ground.needing, name="learning")
        tell = partial(tell_denials_for_ever, ground.denials, ground.store.notices, ground.clock)
        tasks.start_soon(tell, name="denials")
        ground.routing.start(tasks, is_keeper=ground.seat.worker is None)
        if ground.config.commons:
            tasks.start_soon(ground.turnstile.keep_pace, name="commons")
        if ground.seat.is_shared(ground.store):
            _follow(tasks, ground, pins, freezer)
        if ground.seat.worker is None:
            _do_for_all(tasks, ground)
            start_notifying(tasks, ground.store.notices, ground.clock, notifiers)
        try:
            yield
        finally:
            tasks.cancel_scope.cancel()


def _follow(tasks: TaskGroup, ground: Ground, pins: Pins, freezer: SessionFreezer) -> None:
    """Start to look for what other processes put in force."""
    tasks.start_soon(follow_pins_for_ever, pins.refresh, name="approvals of manifests")
    tasks.start_soon(follow_prices_for_ever, ground.prices.refresh, name="prices")
    sessions = ground.store.sessions
    tasks.start_soon(
        follow_sessions_for_ever, sessions, ground.running, freezer, name="states of sessions"
    )


def _do_for_all(tasks: TaskGroup, ground: Ground) -> None:
    """Start to end and remove by time what nobody else does."""
    store, clock = ground.store, ground.clock
    tasks.start_soon(reap_for_ever, store.ledger, clock, ground.running, name="reaper")
    tasks.start_soon(end_approvals_for_ever, ground.approver, name="approvals")
    tasks.start_soon(audit_for_ever, store, name="conservation")
    keep_ms = retention_ms_of(ground.config)
    purge = partial(
        purge_for_ever, store.retention, clock, keep_ms, experiences=partial(_keep_rules, ground)
    )
    tasks.start_soon(purge, name="retention")
    router_log, router_ms = store.router_log, ground.routing.terms().retention_ms
    for log, name in ((router_log, "router_retention"), (store.choices, "choice_retention")):
        tasks.start_soon(purge_log_for_ever, log, clock, router_ms, name, name=name)
    idle_ms = ground.config.session.idle_s * 1000
    close_idle = partial(close_idle_for_ever, store.sessions, clock, idle_ms=idle_ms)
    tasks.start_soon(close_idle, name="idle sessions")


def _keep_rules(ground: Ground, now_ms: int) -> tuple[KeepRule, ...]:
    memory = ground.config.memory
    return keep_rules_of(memory.kept_days, memory.keep, now_ms=now_ms)
