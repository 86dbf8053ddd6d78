"""Where launchers of agents are heard: a socket in the state directory, for this user alone."""

import logging
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import msgspec
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from ebpf.agents import Agent
from ebpf.errors import EbpfError
from ebpf.executor import LocalExecutor
from governor.access import Access
from governor.account import carve_budget
from governor.call import Enforcement
from governor.denial import Denied
from governor.ids import CallId, ReservationId
from governor.limits import ExecutionLimits, Isolation
from governor.policy import AGENT_RUN, Policy, ToolRule
from governor.scope import ScopeChain
from governor.slices import SLICE_MS_FIRST, used_up_words
from memory_store.errors import StoreError
from memory_store.identities import Identity, Role
from memory_store.sessions import session_id_for
from memory_store.tokens import IssuedToken
from runtime.agent_runs.keys import RunKeys
from runtime.agent_runs.life import Life
from runtime.agent_runs.purse import Purse, Terms
from runtime.agent_runs.words import (
    LINE_BYTES_MAX,
    Begin,
    Ended,
    FromSidecar,
    MachineLimits,
    Ready,
    Refused,
    Settled,
    Started,
    heard_from_launcher,
    line_of,
    socket_in,
)
from runtime.ground import Ground
from runtime.link.frames import is_of_this_user
from runtime.local_commands import LocalCommands
from runtime.sub_sessions import SubSessions
from tool_gateway.denials import denial_json, isolation_unavailable, policy_denied
from tool_gateway.redaction import render_arguments

logger = logging.getLogger(__name__)

RUNS_MAX = 64
FIRST_LINE_SECONDS_MAX = 10.0
# Between "its domain is made" and "it was started" somebody may have to wait for a disk.
START_SECONDS_MAX = 60.0
SAY_SECONDS_MAX = 5.0
_MIB = 1024 * 1024
_NO_WALL_MS = 366 * 24 * 60 * 60 * 1000
_UNNAMED = ExecutionLimits(
    memory_bytes=None, pids=None, cpu_millis=None, cpu_ms=None, wall_ms=_NO_WALL_MS, output_bytes=1
)


class _RefusedError(Exception):
    """An agent may not be started."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.text)
        self.refused = refused


class Runs:
    """Every agent that launchers have started here."""

    def __init__(
        self, ground: Ground, executor: LocalExecutor, local: LocalCommands, keys: RunKeys
    ) -> None:
        """Take what admits and records, what makes domains and measures them, and the keys."""
        self._ground = ground
        self._keys = keys
        self._executor = executor
        self._local = local
        self._count = 0

    async def serve(self, stream: SocketStream) -> None:
        """Start one agent for a launcher, and live with it to its end."""
        async with stream:
            link = _Link(stream)
            peer = stream.extra(SocketAttribute.raw_socket)  # noqa: S610 - anyio's, no query
            if not is_of_this_user(peer):
                text = "the sidecar runs as another user; start the agent as that user"
                await link.say(Refused(text=text))
                return
            try:
                await self._served(link)
            except _RefusedError as error:
                await link.say(error.refused)
            except (EbpfError, StoreError) as error:
                logger.warning("an agent's run failed: %s", error)
                await link.say(Refused(text=str(error)))
            except _UnheardError as error:
                await link.say(Refused(text=f"the launcher cannot be understood: {error}"))
            except (_GoneError, TimeoutError):
                logger.debug("a launcher went away before its agent was started")
            except OSError as error:
                logger.warning("an agent's run failed: %s", error)
                await link.say(Refused(text=f"the sidecar cannot write its state: {error}"))
            except Exception:  # a task's top: no fault of one run may end the others
                logger.exception("an agent's run failed")

    async def _served(self, link: "_Link") -> None:
        with anyio.fail_after(FIRST_LINE_SECONDS_MAX):
            begin = await link.heard()
        if not isinstance(begin, Begin):
            raise _GoneError
        if self._count >= RUNS_MAX:
            raise _RefusedError(Refused(text=f"{RUNS_MAX} agents run already"))
        self._count += 1  # before anything is waited for, or others come in meanwhile
        try:
            identity = await self._identity(begin)
            await self._check_key(identity, begin)
            terms = self._terms(begin, identity)
            await self._run(link, begin, identity, terms)
        finally:
            self._count -= 1

    async def _identity(self, begin: Begin) -> Identity:
        ground = self._ground
        now_ms = ground.clock.now_ms()
        identity = await ground.store.principals.authenticate(begin.token, now_ms=now_ms)
        if identity is None or identity.role is not Role.AGENT:
            raise _RefusedError(Refused(text="the token is no agent's"))
        access: Access = ground.policy.access
        rule = access.read_only_by(tenant=identity.tenant, agent=identity.principal)
        if rule is not None:
            text = f"this agent may only read (access rule {rule.name!r})"
            raise _RefusedError(Refused(text=text))
        return identity

    async def _check_key(self, identity: Identity, begin: Begin) -> None:
        """Refuse an agent that starts another out of its own session."""
        pin = self._keys.pin_of(identity.token_id)
        if pin in (None, begin.session):
            return
        own = session_id_for(identity.principal, pin)
        session_id = session_id_for(identity.principal, begin.session)
        sessions = SubSessions(self._ground.store, clock=self._ground.clock)
        if not await sessions.is_beneath(session_id, above=own):
            raise _RefusedError(Refused(text=f"there is no session {begin.session}"))

    def _terms(self, begin: Begin, identity: Identity) -> Terms:
        ground, policy = self._ground, self._ground.policy
        rule = _rule_for(policy, identity)
        if not rule.allow:
            denied = policy_denied(rule.name, AGENT_RUN)
            text = (
                f"the rule {rule.name!r} does not allow agents (its tool is {rule.match.tool!r}, "
                "and an agent's run is agent_run); an administrator can allow them in flyball.toml"
            )
            raise _RefusedError(Refused(text=text, denial=denial_json(denied)))
        session = session_id_for(identity.principal, begin.session)
        return Terms(
            run_id=CallId(ground.clock.fresh("run")),
            chain=ScopeChain(
                tenant=identity.tenant,
                agent=identity.principal,
                session=session,
            ),
            session_name=begin.session,
            rule=rule,
            policy_version=policy.version,
            limits=narrowed(rule.limits, begin.limits),
            unmeasurable=self._local.unmeasurable,
            milliwatts_per_core=policy.milliwatts_per_core,
            arguments=render_arguments(AGENT_RUN, {"command": begin.command}, ground.kept),
            allowance=carve_budget(session) if begin.is_carved else None,
        )

    async def _run(self, link: "_Link", begin: Begin, identity: Identity, terms: Terms) -> None:
        ground = self._ground
        purse = Purse(terms=terms, books=ground.books, clock=ground.clock)
        with ground.running.track(terms.run_id, terms.chain.session) as running:
            async with (
                self._executor.agent(
                    terms.run_id,
                    terms.limits,
                    cwd=begin.cwd,
                    tenant=terms.chain.tenant,
                    session=terms.chain.sessions[0],
                    user=begin.user,
                    is_joinable=begin.is_joinable,
                ) as agent,
                self._keys.key(identity.principal, session_name=terms.session_name) as key,
            ):
                _check(agent, terms)
                try:
                    running.runs_on(terms.run_id, await _opened(purse))
                    await self._start(link, agent, terms, key)
                except BaseException:
                    with anyio.move_on_after(SAY_SECONDS_MAX, shield=True):
                        await purse.release("the agent was not started")
                    raise
                life = Life(agent=agent, purse=purse, say=link.say)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_hear, link, life)
                    usage = await life.live(running)
                    tasks.cancel_scope.cancel()
                settled = Settled(
                    usage=usage.measured.as_dict(),
                    unmeasured={unit.value: why for unit, why in usage.unmeasured.items()},
                    memory_peak_bytes=usage.memory_peak_bytes,
                )
        await link.say(settled)

    async def _start(self, link: "_Link", agent: Agent, terms: Terms, key: IssuedToken) -> None:
        """Have the launcher start the agent.

        Raises:
            _GoneError: it did not.
        """
        inside, isolated = agent.inside, agent.isolated
        account, carve = inside.account, inside.containment.carve
        await link.say(
            Ready(
                run=terms.run_id,
                session_id=terms.chain.session,
                key=key.secret,
                join=inside.entry.join,
                rlimits=inside.entry.rlimits,
                marker=inside.entry.marker,
                account=None if account is None else (account.uid, account.gid),
                carve=carve,
                enforcement=isolated.enforcement.value,
                contained=isolated.contained,
                by=isolated.by,
                why=isolated.why,
            )
        )
        with anyio.fail_after(START_SECONDS_MAX):
            started = await link.heard()
        if not isinstance(started, Started):
            raise _GoneError
        agent.started(started.pid)


class _GoneError(Exception):
    """The launcher is gone, or says what cannot be understood."""


class _UnheardError(_GoneError):
    """It says what cannot be understood."""


class _Link:
    """The lines of one launcher."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._lines = BufferedByteReceiveStream(stream)
        self._turn = anyio.Lock()

    async def heard(self) -> Begin | Started | Ended:
        """Return what it says next.

        Raises:
            _GoneError: nothing.
            _UnheardError: nothing that is known.
        """
        try:
            line = await self._lines.receive_until(b"\n", LINE_BYTES_MAX)
            return heard_from_launcher(line)
        except (
            anyio.EndOfStream,
            anyio.IncompleteRead,
            anyio.DelimiterNotFound,
            anyio.BrokenResourceError,
            anyio.ClosedResourceError,
        ) as error:
            raise _GoneError from error
        except msgspec.MsgspecError as error:
            raise _UnheardError(str(error)) from error

    async def say(self, said: FromSidecar) -> None:
        """Tell it something, unless it is gone or does not listen."""
        with anyio.move_on_after(SAY_SECONDS_MAX):
            try:
                async with self._turn:
                    await self._stream.send(line_of(said))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return


async def _hear(link: _Link, life: Life) -> None:
    """Take note of how the agent ends, or that nobody is there who could tell."""
    try:
        while True:
            said = await link.heard()
            if isinstance(said, Ended):
                life.note_end(said)
                break
    except _GoneError:
        life.abandon()
        return
    try:
        await link.heard()
    except _GoneError:
        life.abandon()


def _rule_for(policy: Policy, identity: Identity) -> ToolRule:
    """Return the rule of agents: only one that names them says how much they may take.

    What is said of tools in general is meant for calls, which are over after a minute.
    """
    rule = policy.rule_for(tool=AGENT_RUN, tenant=identity.tenant, agent=identity.principal)
    if rule.match.tool == AGENT_RUN:
        return rule
    return replace(rule, limits=_UNNAMED, isolation=Isolation.BEST_EFFORT, cost_microusd=0)


def narrowed(limits: ExecutionLimits, asked: MachineLimits) -> ExecutionLimits:
    """Return the limits of the rule, or tighter ones that the launcher asks for."""
    cpus = None if asked.cpus is None else max(1, round(asked.cpus * 1000))
    memory = None if asked.memory_mib is None else asked.memory_mib * _MIB
    return replace(
        limits,
        memory_bytes=_least(limits.memory_bytes, memory),
        pids=_least(limits.pids, asked.pids),
        cpu_millis=_least(limits.cpu_millis, cpus),
        # The total is what budgets are for.
        cpu_ms=limits.cpu_ms,
    )


def _least(one: int | None, other: int | None) -> int | None:
    least = min(math.inf if one is None else one, math.inf if other is None else other)
    return None if least == math.inf else int(least)


async def _opened(purse: Purse) -> ReservationId:
    """Return the hold of the whole run, whose first slice is held too."""
    whole = await purse.open()
    if isinstance(whole, Denied):
        text = used_up_words(whole, purse.terms.allowance)
        raise _RefusedError(Refused(text=text, denial=denial_json(whole)))
    denied = await purse.pay(SLICE_MS_FIRST)
    if denied is not None:
        text = used_up_words(denied, purse.terms.allowance)
        raise _RefusedError(Refused(text=text, denial=denial_json(denied)))
    return whole


def _check(agent: Agent, terms: Terms) -> None:
    """Refuse an agent whose rule demands more of the host than it can do."""
    isolated = agent.isolated
    if terms.rule.isolation is Isolation.BEST_EFFORT:
        return
    if isolated.enforcement is not Enforcement.ENFORCED or not isolated.contained:
        why = isolated.why or f"limits are only {isolated.enforcement}"
        raise _RefusedError(_denied(isolation_unavailable(why)))


def _denied(denied: Denied) -> Refused:
    return Refused(text=denied.remedy.text, denial=denial_json(denied))


@asynccontextmanager
async def launchers_heard(
    ground: Ground, executor: LocalExecutor, local: LocalCommands, state_dir: Path
) -> AsyncIterator[None]:
    """Hear launchers while the block runs; their agents end with it."""
    if ground.seat.worker is not None:
        yield  # one process of a sidecar hears them for all
        return
    keeper = ground.seat.keeper
    keys = RunKeys(
        principals=ground.store.principals,
        binding=ground.sessions if keeper is None else keeper.binding,
        clock=ground.clock,
        state_dir=state_dir,
    )
    await keys.revoke_left()
    path = socket_in(state_dir)
    runs = Runs(ground, executor, local, keys)
    try:
        # The directory is this user's alone, so nobody comes in before the mode is set.
        listener = await anyio.create_unix_listener(path, mode=0o600)
    except OSError as error:
        logger.warning("`flyball run` cannot reach this sidecar: %s: %s", path, error)
        yield
        return
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, runs.serve, name="launchers")
        try:
            yield
        finally:
            tasks.cancel_scope.cancel()
            path.unlink(missing_ok=True)
