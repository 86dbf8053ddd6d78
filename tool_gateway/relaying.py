"""The use cases besides calls: what upstreams offer is listed as one, and asked of its owner."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import anyio

from governor.access import Offer
from governor.ids import ToolName, UpstreamName
from governor.manifest import INSTRUCTIONS, prompt_part
from governor.policy import COMPLETE, GET_PROMPT, READ_RESOURCE
from tool_gateway.caching import AnswerCache
from tool_gateway.catalog import ToolEntry
from tool_gateway.changes import Change, Changes, Watches
from tool_gateway.errors import (
    CallerLimitError,
    UnknownOfferError,
    UpstreamError,
    UpstreamFailedError,
)
from tool_gateway.exchange import Exchange
from tool_gateway.identity import CallContext, Caller
from tool_gateway.known_tasks import TASK_ID, KnownTasks
from tool_gateway.list_turns import ListTurns
from tool_gateway.memory.resources import MemoryResources
from tool_gateway.offer_calls import Asked, OfferCalls, name_of
from tool_gateway.offers import Collision, Offers, merged_face
from tool_gateway.outcomes import OUTCOME_META, Outcomes
from tool_gateway.ports import PolicySource
from tool_gateway.relays import PresenceState, Relay, ServerFace
from tool_gateway.results import Json
from tool_gateway.telemetry import count_failure

logger = logging.getLogger(__name__)

Exposing = Callable[[UpstreamName, str, Json | None], bool | None]

LIST_MS_MAX = 10_000
PAGES_MAX = 100
ITEMS_MAX = 10_000
TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
COLLISION_META = "flyball/collisions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One kind of list: its method, the member that holds it, and the capability it needs."""

    method: str
    member: str
    capability: str


RESOURCES = Listing(method="resources/list", member="resources", capability="resources")
TEMPLATES = Listing(
    method="resources/templates/list", member="resourceTemplates", capability="resources"
)
PROMPTS = Listing(method="prompts/list", member="prompts", capability="prompts")
LISTINGS: Mapping[str, Listing] = {
    listing.method: listing for listing in (RESOURCES, TEMPLATES, PROMPTS)
}


class Relaying:
    """Lists and asks what the upstreams offer besides tools."""

    def __init__(
        self,
        *,
        relays: Mapping[UpstreamName, Relay],
        outcomes: Outcomes | None = None,
        calls: OfferCalls,
        policy: PolicySource,
        changes: Changes,
        elapsed_ms: Callable[[], int],
        is_exposed: Exposing = lambda *_: True,
        tasks: KnownTasks | None = None,
        own: MemoryResources | None = None,
    ) -> None:
        """Take the upstreams in the order of the configuration: the first has a shared URI.

        `tasks` are those that calls have begun, `own` the house's own resources.
        `is_exposed` tells whether a part of an upstream's manifest is what was approved, and None
        of one that there is not.
        """
        self._is_exposed = is_exposed
        self._cache = AnswerCache(elapsed_ms)
        changes.subscribe(self._cache.forget)
        self._relays = relays
        self._outcomes = outcomes or Outcomes(relays)
        self._calls = calls
        self._policy = policy
        self.changes = changes
        self._offers = Offers()
        self._turns = ListTurns()
        self._watches = Watches()
        self._watched_at: dict[str, Relay] = {}
        self._tasks = KnownTasks() if tasks is None else tasks
        self._reported: set[Collision] = set()
        self._own = own

    @property
    def sole(self) -> Relay | None:
        """Return the one upstream whose names are shown as they are, if that is the setting."""
        return self._outcomes.sole

    @property
    def face(self) -> ServerFace:
        """Return what the upstreams together say about themselves."""
        sole = self.sole
        if sole is not None and sole.face is not None:
            says = self._is_exposed(sole.name, INSTRUCTIONS, None)
            return sole.face if says else replace(sole.face, instructions=None)
        faces = [relay.face for relay in self._relays.values() if relay.face is not None]
        return ServerFace(
            capabilities=merged_face(face.capabilities for face in faces),
            instructions=None,
            implementation=None,
            has_sessions=False,
        )

    async def listed(
        self, listing: Listing, caller: Caller, params: Json, exchange: Exchange
    ) -> Json:
        """Return a list of what every upstream offers; one that is down is left out and named.

        Raises:
            UpstreamError: the sole upstream did not answer.
        """
        answer = await self._listed(listing, caller, params, exchange)
        if self._own is None or "cursor" in params:
            return answer
        own = await self._own.listed(listing.member, caller)
        return {**answer, listing.member: [*own, *_items(answer, listing)]}

    async def _listed(
        self, listing: Listing, caller: Caller, params: Json, exchange: Exchange
    ) -> Json:
        sole = self.sole
        if sole is not None:
            if not self._may_list(sole, listing, caller):
                return {listing.member: []}
            answer = await self._listed_by(sole, listing.method, params, caller, exchange)
            if listing is PROMPTS:
                listed = _items(answer, listing)
                items = [
                    one
                    for one in self._as_approved(sole.name, listed)
                    if self._may_prompt(str(one["name"]), caller)
                    and self._may_ask(sole, GET_PROMPT, caller)
                ]
                return {**answer, listing.member: items}
            return answer
        found, failed = await self._of_all(listing, caller, exchange)
        if listing is PROMPTS:
            approved = [(name, self._as_approved(name, listed)) for name, listed in found]
            merged, collisions = self._offers.merge_prompts(approved)
            open_to = self._open_to(GET_PROMPT, caller)
            shown = [
                at
                for at in merged
                if at[0] in open_to and self._may_prompt(str(at[1]["name"]), caller)
            ]
        else:
            key = "uri" if listing is RESOURCES else "uriTemplate"
            merged, collisions = self._offers.merge_resources(found, key=key)
            # Whose a URI is does not depend on who asks; what they are shown does.
            open_to = {
                name
                for name in self._open_to(READ_RESOURCE, caller)
                if self._may_read(self._relays[name], caller)
            }
            shown = [at for at in merged if at[0] in open_to]
        self._report(collisions)
        meta: dict[str, object] = {}
        outcome = self._outcomes.of_list(
            (name for name, _ in shown),
            failed,
            may_see=lambda relay: self._is_open(relay, caller),
        )
        if outcome is not None:
            meta[OUTCOME_META] = outcome
        items = [one for _, one in shown]
        if collisions:
            meta[COLLISION_META] = [
                {"key": one.key, "kept": one.kept, "dropped": one.dropped} for one in collisions
            ]
        return {listing.member: items, "_meta": meta} if meta else {listing.member: items}

    async def read(
        self, caller: Caller, params: Json, exchange: Exchange, *, context: CallContext
    ) -> Json:
        """Return a resource's contents: a governed call.

        Raises:
            OfferDeniedError: the policy or a budget refuses it.
            UnknownOfferError: no upstream that can be reached has it.
            UpstreamError: its upstream did not answer.
        """
        uri = str(params["uri"])
        if self._own is not None and self._own.has(uri):
            return await self._own.read(caller, context, uri)
        relay = await self._owner_of(uri, caller, exchange)
        asker = (caller.agent, exchange.session)
        known = self._cache.find(relay.name, READ_RESOURCE, params, asker)
        asked = Asked(
            method=READ_RESOURCE,
            params=params,
            relay=relay,
            is_listed=self._offers.has_listed(uri),
            known=known,
        )
        answer, said = await self._calls.run(caller, context, asked, exchange)
        if known is None:
            self._cache.keep(relay.name, READ_RESOURCE, params, asker, answer)
        return _annotated(answer, said)

    async def get_prompt(
        self, caller: Caller, params: Json, exchange: Exchange, *, context: CallContext
    ) -> Json:
        """Return a prompt: a governed call.

        Raises:
            OfferDeniedError: the policy or a budget refuses it.
            UnknownOfferError: no upstream has it.
            UpstreamError: its upstream did not answer.
        """
        relay, name = self._prompt_of(str(params["name"]), caller)
        asked = Asked(method=GET_PROMPT, params={**params, "name": name}, relay=relay)
        return _annotated(*await self._calls.run(caller, context, asked, exchange))

    async def complete(
        self, caller: Caller, params: Json, exchange: Exchange, *, context: CallContext
    ) -> Json:
        """Return how an argument may be completed: a call that is free by default.

        Raises:
            OfferDeniedError: the policy refuses it, or its session is stopped.
            UnknownOfferError: no upstream has the prompt or template.
            UpstreamError: its upstream did not answer.
        """
        reference = params["ref"]
        assert isinstance(reference, Mapping), "the front has checked the shape"
        if reference.get("type") == "ref/prompt":
            relay, name = self._prompt_of(str(reference["name"]), caller)
            params = {**params, "ref": {**reference, "name": name}}
        else:
            relay = await self._owner_of(str(reference["uri"]), caller, exchange)
        asked = Asked(method=COMPLETE, params=params, relay=relay)
        return _annotated(*await self._calls.run(caller, context, asked, exchange))

    async def set_level(self, params: Json, exchange: Exchange) -> None:
        """Have every upstream that logs for a session log at a level.

        An upstream that cannot is left as it is: what it logs is filtered here as well.
        """
        for relay in self._relays.values():
            if relay.face is None or "logging" not in relay.face.capabilities:
                continue
            try:
                await relay.request("logging/setLevel", params, exchange, wall_ms=LIST_MS_MAX)
            except UpstreamError as error:
                logger.info("upstream %s: its log level stays: %s", relay.name, error)

    async def watch(self, uri: str, caller: Caller, exchange: Exchange) -> None:
        """Publish changes to a resource until `unwatch` was called as often.

        Raises:
            CallerLimitError: too many resources are watched.
            UnknownOfferError: no upstream has it.
            UpstreamError: its upstream refuses.
        """
        if self._watches.is_full:
            raise CallerLimitError("too many resources are watched; unsubscribe from some")
        if self._own is not None and self._own.has(uri):
            # It never changes: there is nothing to begin, and its correction is another one.
            await self._own.check(caller, uri)
            await self._watches.add(uri, partial(self._own.check, caller))
            return
        relay = await self._owner_of(uri, caller, exchange)

        async def begin(uri: str) -> None:
            await relay.watch(uri)
            self._watched_at[uri] = relay

        await self._watches.add(uri, begin)

    async def unwatch(self, uri: str) -> None:
        """Publish no more changes for one of those that watch a resource."""

        async def end(uri: str) -> None:
            relay = self._watched_at.pop(uri, None)
            if relay is None:
                return
            try:
                await relay.unwatch(uri)
            except UpstreamError as error:
                logger.info("upstream %s: still tells of %s: %s", relay.name, uri, error)

        await self._watches.remove(uri, end)

    def publish(self, change: Change) -> None:
        """Tell everybody who listens of a change."""
        self.changes.publish(change)

    def forget(self, upstream: UpstreamName) -> None:
        """Give no answer of an upstream again: it is another server now, or none."""
        self._cache.forget_upstream(upstream)
        self._turns.forget(upstream)

    async def ask_about_task(
        self, method: str, caller: Caller, params: Json, exchange: Exchange, *, context: CallContext
    ) -> Json:
        """Return what its upstream says of a task that the caller began: a call, free by default.

        Raises:
            OfferDeniedError: the policy refuses it, or its session is stopped.
            UnknownOfferError: the caller has no such task.
            UpstreamError: it did not answer.
        """
        task = params.get(TASK_ID)
        tool = self._tasks.tool_of(str(task), tenant=caller.tenant, agent=caller.agent)
        relay = None if tool is None else self._relays.get(tool.backend)
        if tool is None or relay is None or not self._may_have(tool, caller):
            raise UnknownOfferError("you have no such task, or it began too long ago")
        asked = Asked(method=method, params=params, relay=relay, tool=tool)
        answer = _annotated(*await self._calls.run(caller, context, asked, exchange))
        # It is the caller's own word, whatever a secret may look like.
        return {**answer, TASK_ID: task} if TASK_ID in answer else answer

    def _is_open(self, relay: Relay, caller: Caller) -> bool:
        """Tell whether the policy lets `caller` have what is not named one by one.

        Rules are about names. What has none of an upstream is governed by the rule that
        covers the beginning of all its names.
        """
        return self._may_get(f"{relay.name}__" if relay.is_prefixed else "", caller)

    def _may_list(self, relay: Relay, listing: Listing, caller: Caller) -> bool:
        if listing is PROMPTS:
            return self._is_open(relay, caller)
        return self._may_read(relay, caller) and self._may_ask(relay, READ_RESOURCE, caller)

    def _open_to(self, method: str, caller: Caller) -> set[UpstreamName]:
        """Return the upstreams that a caller may ask this of by the rule that names it."""
        return {name for name, one in self._relays.items() if self._may_ask(one, method, caller)}

    def _may_ask(self, relay: Relay, method: str, caller: Caller) -> bool:
        return self._may_get(name_of(relay, method), caller)

    def _may_read(self, relay: Relay, caller: Caller) -> bool:
        """Tell whether a caller may have an upstream's resources."""
        return self._is_open(relay, caller) and self._is_given(Offer.RESOURCE, relay.name, caller)

    def _as_approved(self, upstream: UpstreamName, prompts: Sequence[Json]) -> list[Json]:
        """Return the prompts that are what was approved."""
        return [
            one for one in prompts if self._is_exposed(upstream, prompt_part(str(one["name"])), one)
        ]

    def _may_prompt(self, name: str, caller: Caller) -> bool:
        return self._may_get(name, caller) and self._is_given(Offer.PROMPT, name, caller)

    def _may_have(self, tool: ToolEntry, caller: Caller) -> bool:
        """Tell whether a caller may have what a tool of an upstream answers."""
        name = tool.exposed
        return self._may_get(name, caller) and self._is_given(Offer.TOOL, name, caller)

    def _is_given(self, offer: Offer, name: str, caller: Caller) -> bool:
        """Tell whether no access rule keeps something from a caller."""
        access = self._policy().access
        return not access.rules or (
            access.refusing(offer, name, tenant=caller.tenant, agent=caller.agent) is None
        )

    def _may_get(self, name: str, caller: Caller) -> bool:
        rule = self._policy().rule_for(
            tool=ToolName(name), tenant=caller.tenant, agent=caller.agent
        )
        return rule.allow

    async def _of_all(
        self, listing: Listing, caller: Caller, exchange: Exchange
    ) -> tuple[Sequence[tuple[UpstreamName, Sequence[Json]]], dict[UpstreamName, str]]:
        """Return what each upstream lists, in order, and why those that failed did."""
        found: dict[UpstreamName, Sequence[Json]] = {}
        failed: dict[UpstreamName, str] = {}

        async def ask(relay: Relay) -> None:
            try:
                found[relay.name] = await self._pages_of(relay, listing, caller, exchange)
            except UpstreamError as error:
                failed[relay.name] = str(error)
                count_failure("upstream list")

        async with anyio.create_task_group() as tasks:
            for relay in self._relays.values():
                offers = relay.face is not None and listing.capability in relay.face.capabilities
                # One that is left alone would keep the whole list waiting.
                if offers and self._outcomes.of(relay).state is not PresenceState.FAILING:
                    tasks.start_soon(ask, relay)
        return [(name, found[name]) for name in self._relays if name in found], failed

    async def _pages_of(
        self, relay: Relay, listing: Listing, caller: Caller, exchange: Exchange
    ) -> list[Json]:
        """Return every page of an upstream's list."""
        items: list[Json] = []
        params: Json = {}
        for _ in range(PAGES_MAX):
            page = await self._listed_by(relay, listing.method, params, caller, exchange)
            items.extend(_items(page, listing))
            cursor = page.get("nextCursor")
            if cursor is None:
                return items
            if len(items) > ITEMS_MAX:
                break
            params = {"cursor": cursor}
        raise UpstreamFailedError(f"{relay.name} lists more than {ITEMS_MAX} items or never ends")

    async def _listed_by(
        self, relay: Relay, method: str, params: Json, caller: Caller, exchange: Exchange
    ) -> Json:
        """Return a page of an upstream's list, an earlier one where it may be given again."""
        asker = (caller.agent, exchange.session)
        known = self._cache.find(relay.name, method, params, asker)
        if known is not None:
            return known
        async with self._turns.turn(relay.name):
            answer = await relay.request(method, params, exchange, wall_ms=LIST_MS_MAX)
        self._cache.keep(relay.name, method, params, asker, answer)
        return answer

    async def _owner_of(self, uri: str, caller: Caller, exchange: Exchange) -> Relay:
        """Return whose a URI is; what nobody has listed yet is listed now.

        Raises:
            UnknownOfferError: no upstream that the caller may use has it.
        """
        able = [
            relay
            for relay in self._relays.values()
            if relay.face is not None and "resources" in relay.face.capabilities
        ]
        owner = self._offers.owner_of(uri)
        if owner not in self._relays:
            owner = None
        if owner is None and len(able) == 1:
            owner = able[0].name
        if owner is None:
            await self._listed(RESOURCES, caller, {}, exchange)
            await self._listed(TEMPLATES, caller, {}, exchange)
            owner = self._offers.owner_of(uri)
        relay = None if owner is None else self._relays.get(owner)
        if relay is None or not self._may_read(relay, caller):
            message = (
                f"unknown resource {uri!r:.200}; call resources/list for those that exist"
                f"{self._outcomes.absent()}"
            )
            raise UnknownOfferError(message)
        return relay

    def _prompt_of(self, name: str, caller: Caller) -> tuple[Relay, str]:
        sole = self.sole
        found = (
            (sole.name, name)
            if sole is not None
            else self._offers.prompt_of(name, sorted(self._relays, key=len, reverse=True))
        )
        exposed = None
        if found is not None and found[0] in self._relays and self._may_prompt(name, caller):
            exposed = self._is_exposed(found[0], prompt_part(found[1]), None)
        if found is None or exposed is None:
            message = f"unknown prompt {name!r:.100}; call prompts/list for those that exist"
            raise UnknownOfferError(message)
        if not exposed:
            message = f"prompt {name!r:.100} waits until an administrator approves it"
            raise UnknownOfferError(message)
        return self._relays[found[0]], found[1]

    def _report(self, collisions: Sequence[Collision]) -> None:
        for one in set(collisions) - self._reported:
            self._reported.add(one)
            logger.error(
                "%s is offered by %s and by %s; the first has it", one.key, one.kept, one.dropped
            )


def _items(page: Json, listing: Listing) -> list[Json]:
    found = page.get(listing.member)
    assert isinstance(found, list), "the SDK has checked the shape"
    return found


def _annotated(answer: Json, said: Json) -> Json:
    """Return an answer with what the governor says beside what its upstream does."""
    meta = answer.get("_meta")
    return {**answer, "_meta": {**(meta if isinstance(meta, Mapping) else {}), **said}}
