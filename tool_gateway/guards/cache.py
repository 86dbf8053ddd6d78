"""The redundant-call cache: the same question to a tool that only reads, asked again in time.

What an agent was answered is for that agent of that tenant alone. Whatever it changes at an
upstream makes it ask there anew, a reading that was under way included.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace

from governor.call import CallStatus
from governor.ids import PrincipalId, TenantId
from governor.manifest import digest_of
from tool_gateway import telemetry
from tool_gateway.builtin import BUILTIN
from tool_gateway.job import Job, Progress, Served
from tool_gateway.kept_results import KeptResults
from tool_gateway.ports import Clock
from tool_gateway.redaction import payload_hash
from tool_gateway.results import CACHE_META

BYTES_MAX = 8 * 1024 * 1024
RESULT_BYTES_MAX = 256 * 1024
SCOPES_MAX = 4_096

_Scope = tuple[TenantId, PrincipalId, str]
# A definition or a rule that is another answers no call of the old one.
_Key = tuple[str, str, str]


class ResultCache:
    """Remembers answers of tools that only read, where rules say for how long."""

    def __init__(self, *, clock: Clock, bytes_max: int = BYTES_MAX) -> None:
        """Start with none."""
        self._clock = clock
        self._bytes_max = bytes_max
        self._scopes: OrderedDict[_Scope, KeptResults[_Key]] = OrderedDict()

    def looked_up(self, job: Job) -> Job:
        """Return the job with the earlier answer that serves it, if there is one.

        A call that may change something makes its agent's answers of that upstream void.
        """
        if job.entry.backend == BUILTIN or job.repeat.served is not None:
            return job
        if not _only_reads(job):
            self._scopes.pop(_scope_of(job), None)
            return job
        if not _is_cached(job):
            return job
        scope = self._scope(job)
        found = scope.find(self._key(job))
        job = replace(job, cache_scope=scope)
        terms, now_ms = job.rule.cache, self._clock.now_ms()
        assert terms is not None, "only a rule with a cache gets here"
        if found is None or now_ms - found[1] >= terms.ttl_ms:
            telemetry.count_cached("missed")
            return job
        telemetry.count_cached("served")
        served, kept_at_ms = found
        marked = served.result.with_meta(
            **{CACHE_META: {"served_from": served.answer, "age_ms": now_ms - kept_at_ms}}
        )
        # Another session's turn is none of this one's.
        turn = served.turn if served.session == job.call.chain.session else job.turn
        served = replace(served, result=marked, turn=turn)
        return replace(job, repeat=replace(job.repeat, served=served))

    def ended(self, job: Job) -> None:
        """Take note that a call is over: what was read while it changed something is void too."""
        if job.entry.backend != BUILTIN and not _only_reads(job):
            self._scopes.pop(_scope_of(job), None)

    def keep(self, job: Job, progress: Progress) -> None:
        """Keep what a call was answered, unless something was changed since it began."""
        scope, result = self._scopes.get(_scope_of(job)), progress.result
        if scope is None or scope is not job.cache_scope or result is None:
            return
        is_good = progress.status is CallStatus.OK and not result.is_error
        if not is_good or result.is_interim or result.size_bytes > RESULT_BYTES_MAX:
            return
        served = Served(
            answer=job.call.call_id,
            turn=job.turn,
            result=result,
            session=job.call.chain.session,
        )
        scope.keep(self._key(job), served, at_ms=self._clock.now_ms())
        self._shrink()

    def _scope(self, job: Job) -> KeptResults[_Key]:
        name = _scope_of(job)
        scope = self._scopes.setdefault(name, KeptResults(bytes_max=self._bytes_max))
        self._scopes.move_to_end(name)
        while len(self._scopes) > SCOPES_MAX:
            self._scopes.popitem(last=False)
        return scope

    def _shrink(self) -> None:
        """Let the answers of whoever rested longest give way."""
        total = sum(scope.size_bytes for scope in self._scopes.values())
        while total > self._bytes_max:
            name, scope = next(iter(self._scopes.items()))
            total -= scope.size_bytes
            if len(self._scopes) == 1:
                scope.drop_oldest()
                total += scope.size_bytes
            else:
                del self._scopes[name]

    def _key(self, job: Job) -> _Key:
        return (
            payload_hash(job.call.tool, job.call.arguments),
            job.policy.version,
            digest_of(job.entry.definition),
        )


def _scope_of(job: Job) -> _Scope:
    chain = job.call.chain
    return chain.tenant, chain.agent, job.backend.name


def _is_cached(job: Job) -> bool:
    if job.rule.cache is None or job.is_retry:
        return False
    # A person's yes runs one call, and a key has an outcome of its own.
    return job.rule.approval is None and job.call.idempotency is None


def _only_reads(job: Job) -> bool:
    terms = job.rule.cache
    if terms is not None and terms.is_repeatable:
        return True
    hints = job.entry.definition.get("annotations")
    return isinstance(hints, Mapping) and hints.get("readOnlyHint") is True
