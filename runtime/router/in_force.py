"""The models that are in force here: the incumbent, the one in its shadow, what was learned since.

Whatever is wrong with a model, a damaged file, one from a newer Flyball, one that is not there,
is told once and counted, and the tier rules decide.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import anyio.to_thread
import numpy as np

from governor.learning.bandit import Bandit, BanditTerms, Vector
from governor.learning.online import OnlineTerms
from memory_store.errors import NotFoundError
from memory_store.router_models import NOTHING_IN_FORCE, RouterStanding
from runtime.errors import RuntimeFaultError
from runtime.router.learned_file import KeptLearning, LearnedFileError, unpacked
from runtime.router.predictor import Prediction, RouterModel
from tool_gateway import telemetry

logger = logging.getLogger(__name__)
Unpack = Callable[[bytes], RouterModel]
# How much evidence the expectation of the model alone counts for.
_RIDGE = 2.0
# How far it looks around: on recorded outcomes less gained more, down to here (RESULTS.md).
_SCATTER = 0.12
_CONSTANT: Vector = np.ones(1)


class Shelf(Protocol):
    """Where models are kept."""

    async def standing(self, *, known_learned: int = -1) -> RouterStanding:
        """Return what is in force, and of what was learned what is newer."""
        ...

    async def content(self, version: str) -> bytes:
        """Return a model."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Versioned:
    """A model and its version."""

    version: str
    model: RouterModel


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterInForce:
    """What chooses now; without an incumbent the tier rules do."""

    standing: RouterStanding = NOTHING_IN_FORCE
    incumbent: Versioned | None = None
    shadow: Versioned | None = None
    learned: KeptLearning | None = None


def bandit_terms(model: RouterModel, terms: OnlineTerms) -> BanditTerms:
    """Return how the bandit beside a model learns."""
    return BanditTerms(
        dimensions=model.context_axes + 1, ridge=_RIDGE, scatter=_SCATTER, keep=terms.keep
    )


def context_of(forecast: Prediction) -> Vector:
    """Return a prompt as the bandit sees it: something constant first, then what the model says."""
    return np.concatenate([_CONSTANT, forecast.context])


def nothing_learned(known: Versioned, terms: OnlineTerms) -> KeptLearning:
    """Return what a bandit has learned that begins beside a model."""
    return KeptLearning(model=known.version, bandit=Bandit(bandit_terms(known.model, terms)))


class ModelsInForce:
    """Follows what is put in force, in whichever process of whichever sidecar."""

    def __init__(
        self,
        shelf: Shelf,
        *,
        unpack: Unpack,
        terms: Callable[[], OnlineTerms],
        has_shadow: Callable[[], bool],
    ) -> None:
        """Take where models are kept and how they are read; at first nothing is in force."""
        self._shelf = shelf
        self._unpack = unpack
        self._terms = terms
        self._has_shadow = has_shadow
        self._now = RouterInForce()
        self._useless: set[str] = set()
        self._refreshing = anyio.Lock()

    @property
    def now(self) -> RouterInForce:
        """Return what is in force, as of the last refresh."""
        return self._now

    async def refresh(self) -> RouterInForce:
        """Take over what was put in force and learned since.

        Raises:
            StoreError: it cannot be read; what was in force still is.
        """
        async with self._refreshing:
            known = self._now
            standing = await self._shelf.standing(known_learned=known.standing.learned_revision)
            if standing == known.standing:
                self._now = replace(known, learned=self._by_terms(known))
                return self._now
            incumbent = await self._loaded(standing.incumbent, known)
            wanted = standing.candidate if self._has_shadow() else None
            after = RouterInForce(
                standing=replace(standing, learned=None),
                incumbent=incumbent,
                shadow=await self._loaded(wanted, known),
                learned=self._learned(incumbent, standing),
            )
            self._now = replace(after, learned=self._by_terms(after))
            return self._now

    async def loaded(self, version: str) -> Versioned | None:
        """Return a model by its version, None if it is of no use."""
        return await self._loaded(version, self._now)

    async def _loaded(self, version: str | None, known: RouterInForce) -> Versioned | None:
        if version is None or version in self._useless:
            return None
        for one in (known.incumbent, known.shadow):
            if one is not None and one.version == version:
                return one
        try:
            content = await self._shelf.content(version)
            model = await anyio.to_thread.run_sync(self._unpack, content)
        except (NotFoundError, RuntimeFaultError) as error:
            telemetry.count_failure("router_model")
            logger.warning(
                "router model %s is of no use: %s; the tier rules decide", version, error
            )
            self._useless = {*list(self._useless)[-100:], version}
            return None
        return Versioned(version=version, model=model)

    def _learned(
        self, incumbent: Versioned | None, standing: RouterStanding
    ) -> KeptLearning | None:
        if incumbent is None:
            return None
        before = self._now.learned
        is_same = before is not None and before.model == incumbent.version
        if is_same and standing.revision == self._now.standing.revision and not standing.learned:
            return before
        if standing.learned is None:
            return nothing_learned(incumbent, self._terms())
        try:
            terms = bandit_terms(incumbent.model, self._terms())
            return unpacked(standing.learned, terms=terms, model=incumbent.version)
        except LearnedFileError as error:
            telemetry.count_failure("router_learned")
            logger.warning("%s", error)
            return nothing_learned(incumbent, self._terms())

    def _by_terms(self, known: RouterInForce) -> KeptLearning | None:
        """Return what was learned, forgotten from now on as the terms in force say."""
        if known.incumbent is None or known.learned is None:
            return known.learned
        terms, bandit = bandit_terms(known.incumbent.model, self._terms()), known.learned.bandit
        if terms == bandit.terms:
            return known.learned
        return replace(known.learned, bandit=Bandit(terms, bandit.arms))
