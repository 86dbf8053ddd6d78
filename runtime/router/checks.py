"""What is found out about a draft before it is kept: each check is one or more governed calls."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

import anyio

from governor.learning.signs import (
    Sign,
    agreement_sign,
    ending_sign,
    judge_sign,
    shape_sign,
)
from runtime.model_gateway.model_request import ModelRequest
from runtime.router.conversation import for_tier, with_fields
from runtime.router.fencing import Marker
from runtime.router.forecast import Forecast
from runtime.router.judging import judging, score_in
from runtime.router.likeness import alike_count
from runtime.router.rounds import Round
from runtime.router.shape import Shape, fault_of, is_checkable

JUDGING = "judge of a cascade"
SAMPLING = "sample of a cascade"

Ask = Callable[[ModelRequest, Forecast, str], Awaitable[Round]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a check found, and the answer that is the best after it."""

    sign: Sign | None
    best: Round


class Check(Protocol):
    """A way to find out whether a draft is good; the signs are the most that it can say."""

    @property
    def cost_microusd(self) -> int:
        """Return what the check is expected to cost."""
        ...

    @property
    def for_it(self) -> Sign | None:
        """Return the most that it can say for a draft; None where it can say nothing."""
        ...

    @property
    def against_it(self) -> Sign | None:
        """Return the most that it can say against a draft."""
        ...

    async def run(self, asked: ModelRequest, draft: Round, ask: Ask) -> Found:
        """Return what is found about a draft, which answers `asked`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Self-consistency: the same tier answers again, and right answers are alike."""

    rung: Forecast
    samples: int
    shape: Shape

    @property
    def cost_microusd(self) -> int:
        """Return what all samples cost."""
        return self.samples * self.rung.cost_microusd

    @property
    def for_it(self) -> Sign | None:
        """Return what it says that all samples agree."""
        return agreement_sign(self.samples, self.samples)

    @property
    def against_it(self) -> Sign | None:
        """Return what it says that no sample agrees."""
        return agreement_sign(0, self.samples)

    async def run(self, asked: ModelRequest, draft: Round, ask: Ask) -> Found:
        """Return how many samples agree with the answer that most of them give."""
        again = for_tier(with_fields(asked, {}, without=("seed",)), self.rung.tier.name)
        drawn: list[Round] = []

        async def draw() -> None:
            drawn.append(await ask(again, self.rung, SAMPLING))

        async with anyio.create_task_group() as tasks:
            for _ in range(self.samples):
                tasks.start_soon(draw)
        served = [draft, *(one for one in drawn if self._is_usable(one))]
        alike = [
            alike_count(one.said, [other.said for other in served if other is not one])
            for one in served
        ]
        # Of answers that as many agree with, the first: that is the draft where it is one.
        most = max(range(len(served)), key=lambda place: (alike[place], -place))
        sign = agreement_sign(alike[most], len(served) - 1)
        return Found(sign=sign, best=served[most])

    def _is_usable(self, one: Round) -> bool:
        return one.is_served and not one.said.is_empty and fault_of(self.shape, one.said) is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A tier scores the draft by a rubric."""

    judge: Forecast
    mark: Marker

    @property
    def cost_microusd(self) -> int:
        """Return what the judge costs."""
        return self.judge.cost_microusd

    @property
    def for_it(self) -> Sign | None:
        """Return what the best score says."""
        return judge_sign(1.0)

    @property
    def against_it(self) -> Sign | None:
        """Return what the worst score says."""
        return judge_sign(0.0)

    async def run(self, asked: ModelRequest, draft: Round, ask: Ask) -> Found:
        """Return what the judge's score says; nothing where it gave none."""
        put = judging(asked, draft.said, tier=self.judge.tier.name, marker=self.mark)
        one = await ask(put, self.judge, JUDGING)
        return Found(sign=judge_sign(score_in(one.said)), best=draft)


def own_signs(one: Round, shape: Shape) -> list[Sign]:
    """Return what an answer itself says of its being good, which costs nothing to find out."""
    signs = []
    ending = ending_sign(is_cut=one.said.is_cut, is_empty=one.said.is_empty)
    if ending is not None:
        signs.append(ending)
    if is_checkable(shape, one.said):
        signs.append(shape_sign(fault_of(shape, one.said)))
    return signs


def can_vary(asked: ModelRequest) -> bool:
    """Tell whether asking again can give another answer."""
    return asked.fields.get("temperature") != 0
