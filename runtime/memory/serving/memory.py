"""The experience memory as one sidecar has it: its desk, its tools, what records."""

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from starlette.routing import Route

from governor.retrieval.vectors import StaticVectors
from runtime.configuration.memory import terms_in_force
from runtime.ground import Ground
from runtime.memory.administration.experiences import MemoryAdministration
from runtime.memory.desk.desk import Advisers, ExperienceDesk, Shelves
from runtime.memory.desk.findings import Showing
from runtime.memory.desk.recorder import Recorder
from runtime.memory.front.elsewhere import switched_off
from runtime.memory.front.routes import MemoryFront
from runtime.memory.namespaces.granted import Namespaces
from runtime.memory.serving.choosing import MemoryLearning
from runtime.memory.serving.lessons import Lessons
from runtime.memory.sharing.quorum import QuorumPromotion
from runtime.memory.working.advised import AdvisedContext
from runtime.memory.working.context import SessionContext
from runtime.model_gateway.answering import Models
from runtime.word_vectors import vectors_if_any
from tool_gateway.gateway import Gateway
from tool_gateway.memory.charging import MemoryCharging
from tool_gateway.memory.resources import MemoryResources
from tool_gateway.memory.tools import MemoryTools
from tool_gateway.ports import Clock

_KEY_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What the rest of a sidecar has of the memory; no desk and no recorder where it is off."""

    tools: MemoryTools
    charging: MemoryCharging
    desk: ExperienceDesk | None = None
    recorder: Recorder | None = None
    lessons: Lessons | None = None
    choosing: MemoryLearning | None = None
    is_keeper: bool = False

    def resources(self, gateway: Gateway) -> MemoryResources | None:
        """Return experiences as resources, None where there are none."""
        return None if self.desk is None else MemoryResources(gateway, self.desk)

    def routes(self, gateway: Gateway) -> list[Route]:
        """Return the routes of the memory over HTTP."""
        return switched_off() if self.desk is None else MemoryFront(gateway, self.desk).routes()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep what is noted beside the answers while the block runs."""
        if self.desk is None or self.choosing is None:
            yield
            return
        choosing = self.choosing.running(is_keeper=self.is_keeper)
        async with self.desk.uses.kept(), choosing:
            yield

    @asynccontextmanager
    async def learning(self, models: Models) -> AsyncIterator[None]:
        """Learn, and work in quiet hours, while the block runs; `models` may be asked."""
        if self.lessons is None:
            yield
            return
        tiers = None if self.choosing is None else self.choosing.tiers
        if tiers is not None:
            tiers.summariser = self.lessons.summaries(models)
        try:
            async with self.lessons.running(models):
                yield
        finally:
            if tiers is not None:
                tiers.summariser = None


def memory_of(
    ground: Ground,
    advisers: Advisers | None = None,
    *,
    vectors: Callable[[], StaticVectors | None] = vectors_if_any,
) -> Memory:
    """Return the memory on an open store; nothing is started."""
    terms = terms_in_force(lambda: ground.config.memory)
    charging = MemoryCharging(
        lambda: terms().prices,
        is_copied=lambda name: terms().chooses(name),
        item_bytes_max=lambda: terms().item_bytes_max,
    )
    if not ground.config.memory.enabled:
        return Memory(tools=MemoryTools(archive=ground.archive), charging=charging)
    store, clock = ground.store, ground.clock
    namespaces = Namespaces(store.namespaces, clock=clock, terms=terms)
    lessons = Lessons(ground, namespaces, vectors=vectors)
    choosing = MemoryLearning(ground, lessons.searching, vectors)
    advised = Advisers() if advisers is None else advisers
    advised = replace(
        advised,
        cases=lessons.cases if advised.cases is None else advised.cases,
        tiers=choosing.tiers,
        banks=choosing.banks,
        credited=(
            *advised.credited,
            lessons.cases.credited,
            choosing.tier_credit,
            choosing.banks.credited,
        ),
    )
    shelves = Shelves(
        book=store.experiences,
        searching=lessons.searching,
        namespaces=namespaces,
        marks=ground.flow,
        vectors=vectors,
    )
    # What frames are marked with need not outlive the process: nobody reads a mark again.
    key = secrets.token_bytes(_KEY_BYTES)
    if advised.working is None:
        working = AdvisedContext(_working(shelves, clock, key), lessons.advice, key=key)
        advised = replace(advised, working=working)
    quorum = QuorumPromotion(shelves.book, shelves.marks, clock=clock)
    advised = replace(advised, credited=(*advised.credited, quorum))
    desk = ExperienceDesk(shelves, clock=clock, terms=terms, key=key, advisers=advised)
    return Memory(
        tools=MemoryTools(archive=ground.archive, memory=desk, charging=charging),
        charging=charging,
        desk=desk,
        choosing=choosing,
        is_keeper=ground.seat.worker is None,
        recorder=Recorder(desk.writes, terms=terms, traits_of=ground.flow.traits_of),
        lessons=lessons,
    )


def _working(shelves: Shelves, clock: Clock, key: bytes) -> SessionContext:
    return SessionContext(
        shelves.book,
        shelves.namespaces,
        shelves.searching,
        Showing(shelves.book, shelves.namespaces, marks=shelves.marks),
        clock=clock,
        key=key,
    )


def memory_administration_of(ground: Ground) -> MemoryAdministration:
    """Return what administrators do with the memory; what is kept is theirs though it is off."""
    store = ground.store
    return MemoryAdministration(
        store.experiences,
        store.namespaces,
        searching=store.experience_search,
        clock=ground.clock,
        vectors=vectors_if_any,
        terms=terms_in_force(lambda: ground.config.memory),
    )
