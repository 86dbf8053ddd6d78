"""Pinned manifests: what an upstream offers is exposed only as it was approved."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import anyio

from governor.ids import UpstreamName
from governor.manifest import (
    Definition,
    Pin,
    Standing,
    ToolStanding,
    digest_of,
    is_part,
    manifest_digest,
    standings,
)
from governor.suspicion import suspicions
from tool_gateway import telemetry
from tool_gateway.catalog import ToolEntry
from tool_gateway.errors import LedgerOverloadedError, LedgerUnavailableError
from tool_gateway.ports import ManifestKnown, ManifestStore

logger = logging.getLogger(__name__)

RETRY_SECONDS = 5.0
NO_PARTS: Mapping[str, Definition] = MappingProxyType({})
BY_FIRST_USE = "first use"  # the space keeps principals from the name
_DOWN = (LedgerUnavailableError, LedgerOverloadedError)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReview:
    """One tool under review: how it stands, and what a person should look at.

    A prompt, or what the server says of itself, has no `entry`; what is no longer offered has no
    `definition` either.
    """

    tool: ToolStanding
    advice: tuple[str, ...]
    entry: ToolEntry | None
    definition: Definition | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """What an upstream offers beside what was approved of it.

    `version` names exactly this pair, so that nobody approves what they have not seen.
    """

    upstream: UpstreamName
    pin: Pin
    approved: ManifestKnown | None
    offered_digest: str
    tools: tuple[ToolReview, ...]

    @property
    def version(self) -> str:
        """Return a name that is another after each change of either side."""
        revision = 0 if self.approved is None else self.approved.revision
        return f"{revision}-{self.offered_digest[:16]}"

    @property
    def quarantined(self) -> tuple[str, ...]:
        """Return the tools that are offered and not exposed."""
        if self.pin is Pin.OFF:
            return ()
        kept_out = (Standing.CHANGED, Standing.NEW, Standing.RENAMED)
        return tuple(one.tool.name for one in self.tools if one.tool.standing in kept_out)


class Pins:
    """Sifts what upstreams offer by what was approved, and takes the first use for approved.

    What is trusted at its first use is stored before it is exposed, so that a restart cannot
    make a second first use of it.
    """

    def __init__(self, modes: Mapping[UpstreamName, Pin], *, store: ManifestStore) -> None:
        """Know of no approval until `refresh`."""
        self._modes = dict(modes)
        self._store = store
        self._approved: dict[UpstreamName, ManifestKnown] = {}
        self._offered: dict[UpstreamName, tuple[ToolEntry, ...]] = {}
        self._parts: dict[UpstreamName, Mapping[str, Definition]] = {}
        self._kept_out: dict[UpstreamName, Mapping[str, ToolEntry]] = {}
        self._to_pin = anyio.Event()
        self._pinning = anyio.Lock()
        self._told: dict[UpstreamName, str] = {}
        # Whoever exposes what is sifted; told when that may have changed.
        self.on_change: Callable[[], None] = lambda: None

    def adopt(self, modes: Mapping[UpstreamName, Pin]) -> None:
        """Go by these modes from now on; what was approved of any upstream stays approved."""
        self._modes = dict(modes)
        for name in self._offered.keys() - modes.keys():
            del self._offered[name]
            self._parts.pop(name, None)
            self._kept_out.pop(name, None)
            self._told.pop(name, None)

    async def refresh(self) -> None:
        """Go by what is stored now, by whichever sidecar.

        Raises:
            LedgerUnavailableError: it cannot be read; what was known still holds.
            LedgerOverloadedError: as above.
        """
        found = await self._store.all()
        if found != self._approved:
            self._approved = dict(found)
            self.on_change()

    def sift(
        self,
        upstream: UpstreamName,
        entries: Iterable[ToolEntry],
        parts: Mapping[str, Definition] = NO_PARTS,
    ) -> Sequence[ToolEntry]:
        """Return the tools that are exposed of what an upstream offers now.

        A name that is offered twice is exposed only where both are what was approved. `parts`
        are what else it offers; `exposes` tells of each.
        """
        offered = self._offered[upstream] = tuple(entries)
        self._parts[upstream] = parts
        mode, approved = self._mode(upstream), self._approved.get(upstream)
        self._kept_out.pop(upstream, None)
        if mode is Pin.OFF:
            return offered
        if approved is None and mode is Pin.FIRST_USE:
            if offered or parts:
                self._to_pin.set()
            return ()
        known = {} if approved is None else approved.tools
        digests = {name: digest_of(tool) for name, tool in known.items()}
        kept: list[ToolEntry] = []
        out: dict[str, ToolEntry] = {}
        for one in offered:
            is_as_approved = digests.get(one.original) == digest_of(one.definition)
            if is_as_approved and not is_part(one.original):
                kept.append(replace(one, is_approved=True))
            else:
                out[one.exposed] = replace(one, is_kept_out=True)
        self._kept_out[upstream] = out
        if approved is not None:
            self._tell(upstream, out.values())
        return kept

    def exposes(
        self, upstream: UpstreamName, part: str, definition: Definition | None = None
    ) -> bool | None:
        """Tell whether a part is what was approved: as `definition` says, or as last offered.

        None where nothing of that name is offered.
        """
        if not self.holds(upstream):
            return True
        approved = self._approved.get(upstream)
        now = self._parts.get(upstream, {}).get(part) if definition is None else definition
        before = None if approved is None else approved.tools.get(part)
        if now is None:
            return None
        if before is None:
            return False
        return digest_of(before) == digest_of(now)

    def kept_out(self, tool: str) -> ToolEntry | None:
        """Return a tool that is offered and not exposed, by its exposed name; None of others."""
        for entries in self._kept_out.values():
            if tool in entries:
                return entries[tool]
        return None

    async def pin_for_ever(self) -> None:
        """Store what is met for the first time, and expose it then."""
        while True:
            await self._to_pin.wait()
            self._to_pin = anyio.Event()
            if not await self.pin_met():
                telemetry.count_failure("pins")
                await anyio.sleep(RETRY_SECONDS)
                self._to_pin.set()

    async def pin_met(self) -> bool:
        """Store what was met for the first time so far; False if the store did not take it."""
        async with self._pinning:
            for upstream, offered in list(self._offered.items()):
                is_first = self._mode(upstream) is Pin.FIRST_USE and upstream not in self._approved
                is_met = bool(offered or self._parts.get(upstream))
                if is_first and is_met and not await self._pin(upstream):
                    return False
        return True

    def review(self, upstream: UpstreamName) -> Review | None:
        """Return how an upstream's offer stands; None of one that is not configured."""
        if upstream not in self._modes:
            return None
        approved, offered = self._approved.get(upstream), self._offered.get(upstream, ())
        entries = {entry.original: entry for entry in offered}
        tools = self._manifest_of(upstream)
        others = {
            entry.original
            for name, of_other in self._offered.items()
            if name != upstream
            for entry in of_other
        }
        found = standings({} if approved is None else approved.tools, tools)
        return Review(
            upstream=upstream,
            pin=self._mode(upstream),
            approved=approved,
            offered_digest=manifest_digest(tools),
            tools=tuple(
                ToolReview(
                    tool=one,
                    advice=()
                    if one.name not in tools
                    else suspicions(tools[one.name], own_names=tools, other_names=others),
                    entry=entries.get(one.name),
                    definition=tools.get(one.name),
                )
                for one in found
            ),
        )

    async def approve(
        self, review: Review, *, names: Sequence[str] | None, by: str
    ) -> ManifestKnown | None:
        """Approve what `review` shows as offered, or of it the tools of `names` alone.

        Return None if something else was approved meanwhile. With all of it approved, what is
        no longer offered is forgotten.
        """
        before: Mapping[str, Definition] = {} if review.approved is None else review.approved.tools
        offered = {
            one.tool.name: one.definition for one in review.tools if one.definition is not None
        }
        if names is not None:
            offered = {**before, **{name: offered[name] for name in names}}
        kept = await self._store.approve(
            review.upstream,
            offered,
            expected_revision=0 if review.approved is None else review.approved.revision,
            by=by,
        )
        if kept is None:
            await self.refresh()
            return None
        self._approved[review.upstream] = kept
        self.on_change()
        return kept

    def count_kept_out(self, upstream: UpstreamName) -> int:
        """Return how many of the tools that an upstream offers now are not exposed."""
        return len(self._kept_out.get(upstream, ()))

    def approved_of(self, upstream: UpstreamName) -> Mapping[str, Definition]:
        """Return the tools of an upstream that it may offer, where it is held to them."""
        approved = self._approved.get(upstream)
        if approved is None or not self.holds(upstream):
            return {}
        return {name: tool for name, tool in approved.tools.items() if not is_part(name)}

    def holds(self, upstream: UpstreamName) -> bool:
        """Tell whether an upstream is exposed only as it was approved."""
        return self._mode(upstream) is not Pin.OFF

    def _mode(self, upstream: UpstreamName) -> Pin:
        return self._modes.get(upstream, Pin.OFF)

    async def _pin(self, upstream: UpstreamName) -> bool:
        manifest = self._manifest_of(upstream)
        try:
            kept = await self._store.approve(
                upstream, manifest, expected_revision=0, by=BY_FIRST_USE
            )
            if kept is None:
                # Another sidecar met it first, and what that saw is what counts.
                await self.refresh()
                return True
        except _DOWN:
            return False
        self._approved[upstream] = kept
        review = self.review(upstream)
        for one in () if review is None else review.tools:
            for advice in one.advice:
                logger.warning("upstream %s: look at %s: %s", upstream, one.tool.name, advice)
        self.on_change()
        return True

    def _manifest_of(self, upstream: UpstreamName) -> dict[str, Definition]:
        """Return all that an upstream offers now; a tool with the name of a part is none of it."""
        tools = {
            entry.original: entry.definition
            for entry in self._offered.get(upstream, ())
            if not is_part(entry.original)
        }
        return {**tools, **self._parts.get(upstream, {})}

    def _tell(self, upstream: UpstreamName, out: Iterable[ToolEntry]) -> None:
        """Say once what is kept out."""
        words = ", ".join(sorted({one.original for one in out}))
        if words and self._told.get(upstream) != words:
            logger.warning(
                "upstream %s changed its manifest; quarantined until approved: %s", upstream, words
            )
        self._told[upstream] = words
