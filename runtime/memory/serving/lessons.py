"""What is learned of the memory as one sidecar has it: cases, playbooks, work in quiet hours."""

import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import numpy as np
from anyio.abc import TaskGroup

from governor.amounts import Amounts, Unit
from governor.call import ToolCall
from governor.experience.experience import Draft, Experience
from governor.experience.namespace import OWN, SHARED
from governor.experience.search import LANES_ASKED
from governor.experience.trust import lanes_for
from governor.ids import PrincipalId, TaskClass
from governor.retrieval.vectors import StaticVectors
from governor.scope import ScopeChain
from memory_store.errors import StoreError
from memory_store.experiences.values import Written
from memory_store.lessons.ended import EndedSession
from memory_store.lessons.quiet_turn import QuietTurn
from runtime.configuration.memory import memory_terms_of
from runtime.configuration.memory_learning import sleep_terms_of
from runtime.ground import Ground
from runtime.memory.house.allowance import Allowance
from runtime.memory.house.model import HouseModel
from runtime.memory.house.summaries import TOKENS_MAX as SUMMARY_TOKENS_MAX
from runtime.memory.house.summaries import Summaries
from runtime.memory.indexing import indexed
from runtime.memory.lessons.cases import CaseDesk
from runtime.memory.lessons.playbooks import Place, PlaybookDesk
from runtime.memory.limits import limits_of
from runtime.memory.namespaces.granted import Namespaces
from runtime.memory.ports import Searching
from runtime.memory.quiet.prepared import PreparedSearching
from runtime.memory.quiet.sleeping import Sleeper
from runtime.memory.seen import has_seen_untrusted
from runtime.memory.working.advised import Advice
from runtime.model_gateway.answering import Models
from tool_gateway import telemetry

logger = logging.getLogger(__name__)
LEARN_EVERY_SECONDS = 5.0
NOTE_EVERY_SECONDS = 1.0
REMOVE_EVERY_SECONDS = 3_600.0
_KEY_BYTES = 32
_DAY_MS = 86_400_000
_SEED_MAX = 2**32
_KEPT_MAX = 200


class Lessons:
    """Cases, playbooks and quiet hours on one ground."""

    def __init__(
        self,
        ground: Ground,
        namespaces: Namespaces,
        *,
        vectors: Callable[[], StaticVectors | None],
    ) -> None:
        """Take what they stand on; nothing is started."""
        self._ground = ground
        self._namespaces = namespaces
        self._vectors = vectors
        self._table = ground.config.memory
        store, clock = ground.store, ground.clock
        self._prepared: PreparedSearching | None = None
        if self._table.sleep.enabled:
            self._prepared = PreparedSearching(
                store.experience_search, store.questions, store.experiences
            )
        self.cases = CaseDesk(
            store.cases,
            store.experience_search.search,
            clock=clock,
            class_of=self._class_of,
            dice=np.random.default_rng(clock.below(_SEED_MAX)),
            terms=self._table.cases.case_terms(),
            guidance=self._table.cases.guidance_terms(),
        )
        self.playbooks = PlaybookDesk(
            store.playbooks,
            store.calls,
            kept=self._kept,
            saw_untrusted=self._saw_untrusted,
            clock=clock,
            # Nobody reads a mark again, so the key need not outlive the process.
            key=secrets.token_bytes(_KEY_BYTES),
            deltas_max=self._table.playbooks.bullets_per_reflection,
        )
        ground.routing.feedback.ended_by = self.cases.session_ended

    @property
    def searching(self) -> Searching:
        """Return what finds experiences, or has the answer already."""
        return self._prepared or self._ground.store.experience_search

    async def advice(self, call: ToolCall, tokens_max: int) -> Advice:
        """Return how closely the task of a call is guided, with the bullets that fit.

        Bullets stand in the lanes of what they are made of, and are shown as memory is: those
        from strangers only to who has seen such before.

        Raises:
            StoreError: nobody can say.
        """
        chain = call.chain
        task_class = self._class_of(chain.agent, call.task_class)
        guided = await self.cases.guided(chain.agent, chain.tenant, task_class)
        if not guided.shows_playbook:
            return Advice(guided=guided, bullets=())
        spaces = await self._namespaces.to_read(chain, (OWN, SHARED))
        places = [
            Place(tenant=chain.tenant, namespace=one.namespace, task_class=task_class)
            for one in spaces
        ]
        saw = await has_seen_untrusted(self._ground.flow, chain, where_unknown=False)
        lanes = lanes_for(LANES_ASKED, saw_untrusted=saw)
        bullets = await self.playbooks.shown(places, lanes=lanes, tokens_max=tokens_max)
        return Advice(guided=guided, bullets=bullets)

    @asynccontextmanager
    async def running(self, models: Models | None = None) -> AsyncIterator[None]:
        """Learn, and work in quiet hours, while the block runs.

        What is asked is noted in every process; all else is done by the one that has the ledger.
        """
        async with anyio.create_task_group() as tasks:
            if self._prepared is not None:
                flush = self._prepared.flush
                tasks.start_soon(self._repeated, flush, NOTE_EVERY_SECONDS, name="questions")
            if self._ground.seat.worker is None:
                self._work(tasks, models)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    def _work(self, tasks: TaskGroup, models: Models | None) -> None:
        tasks.start_soon(self._repeated, self.cases.learn, LEARN_EVERY_SECONDS, name="cases")
        tasks.start_soon(self._repeated, self._remove, REMOVE_EVERY_SECONDS, name="lessons")
        if self._table.sleep.enabled:
            logger.info("the memory is worked for in quiet hours")
            tasks.start_soon(self.sleeper(models).work_for_ever, name="quiet hours")

    def sleeper(self, models: Models | None = None) -> Sleeper:
        """Return who works in quiet hours; `models` answer where a tier is configured."""
        ground, table = self._ground, self._table
        terms = sleep_terms_of(table.sleep)
        tier = table.playbooks.tier
        model = None
        if tier is not None and models is not None:
            model = HouseModel(
                models,
                tier=tier,
                output_tokens=table.playbooks.output_tokens_max,
                clock=ground.clock,
            )
        return Sleeper(
            ground.store,
            ground.store.experience_search,
            self.playbooks,
            self._allowance(),
            keep=self._keep,
            place_of=self._place_of,
            is_idle=_Idleness(ground, idle_ms=terms.idle_ms).is_idle,
            clock=ground.clock,
            terms=lambda: terms,
            turn=QuietTurn(reader=ground.store.reader).taken,
            model=model,
        )

    def summaries(self, models: Models) -> Summaries | None:
        """Return who sums up what a search shows; None where no tier is named for that.

        Nor is there one in a worker process, which makes no budgets.
        """
        tier, seat = self._table.tiers.tier, self._ground.seat
        if tier is None or seat.worker is not None:
            return None
        model = HouseModel(
            models, tier=tier, output_tokens=SUMMARY_TOKENS_MAX, clock=self._ground.clock
        )
        return Summaries(model, self._allowance(), key=secrets.token_bytes(_KEY_BYTES))

    def _allowance(self) -> Allowance:
        """Return what the house may use for each tenant, whatever it does with it."""
        ground, terms = self._ground, sleep_terms_of(self._table.sleep)
        return Allowance(
            ground.books,
            ground.store.budgets,
            ground.store.questions,
            clock=ground.clock,
            limits=Amounts(
                {
                    Unit.COST_MICROUSD: terms.cost_microusd_per_day,
                    Unit.MEMORY_READ_TOKENS: terms.read_tokens_per_day,
                }
            ),
        )

    def _class_of(self, agent: PrincipalId, asked: TaskClass | None) -> TaskClass:
        return self._ground.turns.policy.class_of(agent, asked=asked)

    async def _place_of(self, ended: EndedSession) -> Place:
        chain = ScopeChain(tenant=ended.tenant, agent=ended.agent, session=ended.session)
        if self._table.playbooks.shared:
            (space,) = await self._namespaces.to_read(chain, (SHARED,))
        else:
            space = await self._namespaces.own(chain)
        return Place(tenant=ended.tenant, namespace=space.namespace, task_class=ended.task_class)

    async def _kept(self, ended: EndedSession) -> tuple[Experience, ...]:
        chain = ScopeChain(tenant=ended.tenant, agent=ended.agent, session=ended.session)
        own = await self._namespaces.own(chain)
        return await self._ground.store.experiences.of_session(
            ended.session, tenant=ended.tenant, namespaces=(own.namespace,), most=_KEPT_MAX
        )

    async def _saw_untrusted(self, ended: EndedSession) -> bool:
        chain = ScopeChain(tenant=ended.tenant, agent=ended.agent, session=ended.session)
        return await has_seen_untrusted(self._ground.flow, chain, where_unknown=True)

    async def _keep(self, draft: Draft, *, is_found: bool) -> bool:
        ready = await indexed(draft, self._vectors())
        if not is_found:
            ready = replace(ready, terms="", vector=None)
        terms = memory_terms_of(self._ground.config.memory)
        limits = limits_of(terms, now_ms=self._ground.clock.now_ms())
        (written,) = await self._ground.store.experiences.write((ready,), limits=limits)
        return isinstance(written, Written) and written.is_new

    async def _remove(self) -> None:
        now_ms = self._ground.clock.now_ms()
        before_ms = now_ms - self._table.cases.retention_days * _DAY_MS
        await self._ground.store.cases.remove(before_ms=before_ms)
        await self._ground.store.questions.remove(before_ms=before_ms)

    async def _repeated(self, do: Callable[[], Awaitable[object]], seconds: float) -> None:
        while True:
            await anyio.sleep(seconds)
            try:
                await do()
            except StoreError as error:
                telemetry.count_failure("lessons")
                logger.warning("lessons could not be kept: %s; it is tried again", error)
            except Exception:
                telemetry.count_failure("lessons")
                logger.exception("lessons could not be kept; it is tried again")


class _Idleness:
    """Tells whether nobody has asked anything of this process for a while."""

    def __init__(self, ground: Ground, *, idle_ms: int) -> None:
        """Begin as if something had just been asked."""
        self._running = ground.running
        self._ledger = ground.store.ledger
        self._clock = ground.clock
        self._idle_ms = idle_ms
        self._seen = self._asked
        self._since_ms = ground.clock.now_ms()

    @property
    def _asked(self) -> int:
        return self._ledger.asked

    def is_idle(self) -> bool:
        """Tell whether no call runs here and none was admitted for so long, by whomever."""
        asked, now_ms = self._asked, self._clock.now_ms()
        if asked != self._seen or len(self._running):
            self._seen, self._since_ms = asked, now_ms
        return now_ms - self._since_ms >= self._idle_ms
