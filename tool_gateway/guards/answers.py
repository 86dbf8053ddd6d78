"""What an upstream answered, before anybody reads it: its size, its promise, its secrets."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from governor.call import CallStatus
from governor.content import OutputSchema
from governor.ids import ArchiveId
from tool_gateway import telemetry
from tool_gateway.credentials import Detector
from tool_gateway.guards.secrets import Redaction
from tool_gateway.job import Job
from tool_gateway.keeping import ResultKeeper
from tool_gateway.results import (
    REDACTED_META,
    SCHEMA_META,
    Outcome,
    ToolResult,
    text_result,
)
from tool_gateway.schemas import ToolSchemas

_CHARGED = "The call has run and is charged."


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """An outcome as it may be shown, and where what it replaces is kept."""

    outcome: Outcome
    archive_id: ArchiveId | None = None


class AnswerGuard:
    """Holds answers against what the rule of their call says of its content.

    Whatever it makes of an answer, the call has run: its usage, and so its charge, stands.
    """

    def __init__(
        self,
        *,
        schemas: Callable[[], ToolSchemas],
        keeper: ResultKeeper,
        detectors: Mapping[str, Detector],
    ) -> None:
        """Take the schemas in force, where originals are kept, and every detector by its name."""
        self._schemas = schemas
        self._keeper = keeper
        self._detectors = dict(detectors)

    def adopt(self, detectors: Mapping[str, Detector]) -> None:
        """Have these detectors too; those that calls under way name stay known."""
        self._detectors.update(detectors)

    async def checked(self, job: Job, outcome: Outcome) -> Guarded:
        """Return what may be shown of an outcome; the house's own answers are as they are."""
        if job.entry.is_own:
            return Guarded(outcome=outcome)
        if (above := _above_limit(job, outcome, _CHARGED)) is not None:
            return Guarded(outcome=above)
        promise = job.rule.content.output_schema
        broken, whole = None, outcome.result
        if promise is not OutputSchema.OFF:
            broken = self._schemas().broken_promise(job.entry.exposed, whole)
        outcome = replace(outcome, result=self.redacted(job, whole))
        if broken is None:
            return Guarded(outcome=outcome)
        words = broken.words
        if outcome.result is not whole:
            words = self._clean_words(job, outcome.result)
        if not broken.is_certain or promise is OutputSchema.REPORT:
            word = "reported" if broken.is_certain else "unchecked"
            telemetry.count_broken_promise(backend=job.backend.name, outcome=word)
            told = outcome.result.with_meta(**{SCHEMA_META: {word: words}})
            return Guarded(outcome=replace(outcome, result=told))
        telemetry.count_broken_promise(backend=job.backend.name, outcome="enforced")
        return await self._broken(job, outcome, words)

    def again(self, job: Job, outcome: Outcome) -> Outcome:
        """Return what may be shown of an earlier answer, which was kept under another rule, maybe.

        Its promise is not looked at: what was kept can be a part of what was answered.
        """
        if job.entry.is_own:
            return outcome
        above = _above_limit(job, outcome, "Nothing was charged.")
        return above or replace(outcome, result=self.redacted(job, outcome.result))

    def redacted(self, job: Job, result: ToolResult) -> ToolResult:
        """Return a result without the secrets that the call's rule has taken out."""
        names = job.rule.content.redact
        if not names or job.entry.is_own:
            return result
        redaction = self._redaction(names)
        # The structure of a tool's answer is its server's, that of any other the protocol's.
        clean = redaction.of_result(result) if job.entry.is_tool else redaction.of_offer(result)
        for name, count in redaction.found.items():
            for _ in range(count):
                telemetry.count_redaction(name)
        return clean.with_meta(**{REDACTED_META: redaction.found or None})

    def text_redacted(self, job: Job, text: str) -> str:
        """Return words of an upstream's without such secrets."""
        names = job.rule.content.redact
        return text if not names or job.entry.is_own else self._redaction(names).of_text(text)

    def _redaction(self, names: tuple[str, ...]) -> Redaction:
        return Redaction([self._detectors[name] for name in names])

    def _clean_words(self, job: Job, shown: ToolResult) -> str:
        """Return what is wrong with a result in words that quote only what is shown of it.

        Words about the whole of it are cut, and a piece of a secret is one that no detector
        finds.
        """
        found = self._schemas().broken_promise(job.entry.exposed, shown)
        if found is None:
            return "structuredContent: it does not fit where a secret was taken out"
        return self.text_redacted(job, found.words)

    async def _broken(self, job: Job, outcome: Outcome, words: str) -> Guarded:
        """Return the error in place of a result that its reader could not rely on."""
        aside = await self._keeper.put_aside(outcome.result, job.call)
        text = (
            f"{job.backend.name} broke its promise: the result of {job.call.tool} is not what the "
            f"tool's own output schema says. {words}. {_CHARGED}{aside.note}"
        )
        meta = {**outcome.result.meta, SCHEMA_META: {"broken": words}, **aside.meta}
        error = text_result(text, is_error=True, meta=meta)
        detail = f"against its own output schema: {words}"
        failed = _failed(outcome, CallStatus.UPSTREAM_FAILED, error, detail)
        return Guarded(outcome=failed, archive_id=aside.archive_id)


def _above_limit(job: Job, outcome: Outcome, charge: str) -> Outcome | None:
    """Return the error in place of a result that is too large, which ends with the `charge`."""
    size_bytes, limit = outcome.result.size_bytes, job.rule.content.result_bytes_max
    if size_bytes <= limit:
        return None
    text = (
        f"The result of {job.call.tool} is {size_bytes} bytes, and at most {limit} are "
        f"allowed (result_bytes_max), so it is not shown. {charge} Ask for less at once."
    )
    return _failed(outcome, CallStatus.LIMIT_HIT, text_result(text, is_error=True), text)


def _failed(outcome: Outcome, status: CallStatus, result: ToolResult, detail: str) -> Outcome:
    return replace(outcome, status=status, result=result, detail=detail)
