"""Watching one command's memory, and taking it up the ladder rung by rung."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import anyio
import anyio.to_thread

from ebpf.command import EndCause
from ebpf.domains.domain import Domain
from ebpf.domains.groups import read
from ebpf.errors import DomainError
from ebpf.grips import grip_of, resident
from ebpf.pausing import Holder, Pause
from governor.ladder import (
    Act,
    LadderTerms,
    Look,
    Standing,
    answered,
    stepped,
)
from governor.limits import ExecutionLimits
from governor.raising import Culprit, MemoryAnswer, MemoryQuestion, Story

LOOK_SECONDS = 0.1
# Who holds the most is looked for seldom: it costs a look at every process.
_CULPRIT_SECONDS = 0.5
_POLL_SECONDS = 0.001
# Without version 2 nobody tells that the freezer has begun: more than it takes to begin.
_UNSEEN_SECONDS = 0.02
_WEIGHT_SLOWED = 20
_WEIGHT_USUAL = 100

Ask = Callable[[MemoryQuestion], Awaitable[MemoryAnswer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderPlan:
    """The terms of one command's ladder; `ask` is None where nobody is asked.

    Whoever is asked answers within a bound of its own.
    """

    terms: LadderTerms
    ask: Ask | None = None


def ladder_on(
    name: str, domain: Domain, pause: Pause, limits: ExecutionLimits, plan: LadderPlan | None
) -> "Ladder | None":
    """Return the ladder of a command that has not begun; None without a plan or a memory limit.

    Raises:
        DomainError: the kernel refused to hold its memory so.
    """
    if plan is None or limits.memory_bytes is None:
        return None
    return Ladder(name, domain, pause, limits, plan)


class Ladder:
    """One command on its way up; `story` tells how far it came."""

    def __init__(
        self, name: str, domain: Domain, pause: Pause, limits: ExecutionLimits, plan: LadderPlan
    ) -> None:
        """Take a command that has not begun, and hold its memory as its terms say.

        Raises:
            DomainError: the kernel refused.
        """
        assert limits.memory_bytes is not None, "without a limit there is nothing to climb to"
        self._name = name
        self._domain = domain
        self._pause = pause
        self._limits = limits
        self._plan = plan
        self._grip = grip_of(domain)
        self._limit_bytes = limits.memory_bytes
        self._high_bytes = self._first_high_bytes()
        self._standing = Standing()
        self._said: tuple[str, ...] = ()
        self._culprit: Culprit | None = None
        self._culprit_at = 0.0
        self._questions = 0
        if limits.weight_wished is not None and domain.memory is not None:
            self._weigh(limits.weight_wished)
        self._hold()

    @property
    def story(self) -> Story:
        """Return how the command went up the ladder so far."""
        return Story(
            path=self._standing.path,
            limit_bytes=self._limit_bytes,
            raises=self._standing.raises,
            culprit=self._culprit,
            said=self._said,
        )

    async def climb(self) -> EndCause:
        """Look again and again and do what is decided; return when the command is to be killed.

        Raises:
            DomainError: its memory can no longer be read or held.
        """
        while True:
            await anyio.sleep(LOOK_SECONDS)
            seen = await self._grip.look(limit_bytes=self._limit_bytes, high_bytes=self._high_bytes)
            look = replace(seen, high_is_expected=self._is_high_expected)
            await self._find_culprit(look)
            self._standing, acts = stepped(
                self._standing,
                look,
                self._plan.terms,
                can_be_raised=self._can_be_raised,
                is_held=self._pause.is_held_besides(Holder.LADDER),
            )
            for act in acts:
                if await self._is_ended_by(act, look):
                    return EndCause.STUCK

    @property
    def _can_be_raised(self) -> bool:
        return self._plan.ask is not None and self._ceiling_bytes > self._limit_bytes

    @property
    def _usual_weight(self) -> int:
        return self._limits.weight_wished or self._limits.cpu_weight or _WEIGHT_USUAL

    @property
    def _ceiling_bytes(self) -> int:
        return self._limits.memory_ceiling_bytes or 0

    async def _is_ended_by(self, act: Act, look: Look) -> bool:
        """Do what is decided; tell whether the command is to be killed."""
        match act:
            case Act.SLOW:
                self._weigh(_WEIGHT_SLOWED)
            case Act.EASE:
                self._weigh(self._usual_weight)
            case Act.LIFT:
                self._high_bytes = self._throttle_bytes
                self._hold()
            case Act.FREEZE:
                await self._freeze()
            case Act.ASK:
                return await self._is_ended_by_answer(look)
            case Act.YIELD:
                self._high_bytes = None
                self._grip.let_go(limit_bytes=self._limit_bytes)
            case Act.THAW:
                await self._pause.thaw(Holder.LADDER)
            case Act.KILL:
                return True
            case Act.RAISE:
                raise AssertionError("an answer raises, with its figure")
        return False

    async def _is_ended_by_answer(self, look: Look) -> bool:
        """Ask, and do what the answer comes to; tell whether the command is to be killed."""
        assert self._plan.ask is not None, "only what can be raised is asked about"
        self._questions += 1
        await self._find_culprit(look, is_urgent=True)
        answer = await self._plan.ask(self._question(look))
        if answer.said:
            self._said = (*self._said, answer.said)
        self._standing, acts = answered(self._standing, answer.sight)
        for act in acts:
            if act is Act.RAISE:
                assert answer.memory_bytes is not None, "a raise has a figure"
                self._raise_to(min(answer.memory_bytes, self._ceiling_bytes))
            elif await self._is_ended_by(act, look):
                return True
        return False

    def _question(self, look: Look) -> MemoryQuestion:
        left_seconds = max(0.0, min(self._pause.left_seconds, self._limits.wall_ms / 1000))
        return MemoryQuestion(
            call=self._name,
            number=self._questions,
            limit_bytes=self._limit_bytes,
            used_bytes=look.used_bytes,
            peak_bytes=self._domain.measure().memory_peak_bytes,
            ceiling_bytes=self._ceiling_bytes,
            wall_left_ms=round(left_seconds * 1000),
            is_stuck=look.is_out_of_room is not True,
            culprit=self._culprit,
        )

    def _raise_to(self, memory_bytes: int) -> None:
        self._limit_bytes = memory_bytes
        # Whoever raises the limit means the point before it as well.
        self._limits = replace(self._limits, memory_bytes=memory_bytes, memory_high_bytes=None)
        if self._grip.throttles:
            self._high_bytes = self._throttle_bytes
        self._domain.set_limits(self._limits)
        self._hold()

    @property
    def _throttle_bytes(self) -> int:
        """Return where the command is held back at the latest."""
        usual = self._plan.terms.throttle_bytes(self._limit_bytes)
        said = self._limits.memory_high_bytes
        return usual if said is None else min(usual, said)

    @property
    def _is_high_expected(self) -> bool:
        return self._high_bytes is not None and self._high_bytes < self._throttle_bytes

    def _first_high_bytes(self) -> int | None:
        """Return where the command is held back first: where it was expected to stay below."""
        if not self._grip.throttles:
            return None
        expected = self._limits.memory_expected_bytes
        return self._throttle_bytes if expected is None else min(self._throttle_bytes, expected)

    def _hold(self) -> None:
        self._grip.hold(
            limit_bytes=self._limit_bytes,
            high_bytes=self._high_bytes,
            can_wait=self._can_be_raised,
        )

    def _weigh(self, weight: int) -> None:
        """Give the command that share of the processors, where there is such a thing."""
        self._domain.set_limits(replace(self._limits, cpu_weight=weight))
        self._hold()

    async def _freeze(self) -> None:
        """Freeze the command, what waits in the kernel for memory as well.

        Raises:
            DomainError: some process went on.
        """
        errors: list[DomainError] = []

        async def freeze() -> None:
            try:
                await self._pause.freeze(Holder.LADDER)
            except DomainError as error:
                errors.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(freeze)
            # Not raised in here: a group of tasks would wrap it into an error of its own kind.
            try:
                # In this order: whoever is let out of its wait must meet the freezer at once.
                await self._wait_until_freezing(errors)
                self._grip.make_room(limit_bytes=self._limit_bytes)
            except DomainError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    async def _wait_until_freezing(self, errors: list[DomainError]) -> None:
        unified = self._domain.unified
        if not self._grip.waits:
            return
        if unified is None:
            await anyio.sleep(_UNSEEN_SECONDS)
            return
        while True:
            if errors or read(unified / "cgroup.freeze").strip() == "1":
                return
            await anyio.sleep(_POLL_SECONDS)

    async def _find_culprit(self, look: Look, *, is_urgent: bool = False) -> None:
        """Remember which process holds the most, while there is one to be looked at."""
        now = anyio.current_time()
        is_due = now - self._culprit_at >= _CULPRIT_SECONDS
        is_near = look.used_bytes * 2 >= self._limit_bytes
        if not (is_urgent or (is_due and is_near)):
            return
        self._culprit_at = now
        found = await anyio.to_thread.run_sync(lambda: resident(self._domain.members()))
        if found:
            pid, name, rss_bytes = max(found, key=lambda one: one[2])
            self._culprit = Culprit(pid=pid, name=name, rss_bytes=rss_bytes)
