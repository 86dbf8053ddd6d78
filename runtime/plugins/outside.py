"""The guards and estimators of an operator's plug-ins, as the path of calls asks them."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from governor.amounts import Amounts, Unit
from governor.denial import Denied
from governor.estimate import EXPECTABLE, with_expected
from governor.policy import ApprovalTerms
from runtime.plugins.failing import Contained, PluginError, faults_contained, text_of
from runtime.plugins.loading import Group, Plugin
from runtime.plugins.protocols import (
    Allow,
    Ask,
    Deny,
    Estimator,
    Guard,
    SeenCall,
    SeenResult,
)
from tool_gateway.denials import guard_denied, guard_failed
from tool_gateway.job import Job
from tool_gateway.ports import Clock
from tool_gateway.results import ToolResult

_REASON_CHARS_MAX = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How plug-ins are asked; whom a guard asks for is asked by `approval`'s terms."""

    timeout_ms: int
    failing_denies: bool
    approval: ApprovalTerms


class PluggedOutside:
    """Asks guards whether calls may run and estimators what they will use."""

    def __init__(self, plugins: Sequence[Plugin], terms: Terms, *, clock: Clock) -> None:
        """Take what was loaded; a guard that could not be is one that fails."""
        self._terms = terms

        def contained(plugin: Plugin) -> Contained:
            return Contained(plugin.name, timeout_ms=terms.timeout_ms, clock=clock)

        guards = [one for one in plugins if one.group is Group.GUARD]
        # What is asked before a call may work where what is shown afterwards does not.
        self._guards = [(one, contained(one)) for one in guards]
        self._watchers = [(one, contained(one)) for one in guards if not one.fault]
        self._estimators = [
            (one, contained(one))
            for one in plugins
            if one.group is Group.ESTIMATOR and not one.fault
        ]

    async def checked(self, job: Job) -> Job | Denied:
        """Return the job as it may run, or why it may not; what is free is nobody's business."""
        if job.rule.is_free:
            return job
        asked = await self._guarded(job)
        return asked if isinstance(asked, Denied) else await self._estimated(asked)

    async def saw(self, job: Job, result: ToolResult) -> None:
        """Show the guards what a call ended in."""
        if job.rule.is_free:
            return
        for plugin, contained in self._watchers:
            if contained.is_resting:
                continue
            guard: Guard = plugin.made
            shown = partial(guard.after, _seen(job), _seen_result(result))
            try:
                await contained.answer(shown)
            except PluginError:
                continue

    async def _guarded(self, job: Job) -> Job | Denied:
        asks: list[str] = []
        for plugin, contained in self._guards:
            try:
                verdict = await _verdict(plugin, contained, job)
            except PluginError as error:
                if self._terms.failing_denies:
                    return guard_failed(plugin.name, tool=job.call.tool, why=str(error))
                continue
            match verdict:
                case Deny(reason=reason):
                    why = _reason(reason)
                    return guard_denied(plugin.name, tool=job.call.tool, why=why)
                case Ask(reason=reason):
                    asks.append(f"guard {plugin.name}: {_reason(reason)}")
                case Allow():
                    continue
        if not asks:
            return job
        name = f"{job.rule.name} ({'; '.join(asks)})"
        terms = job.rule.approval or self._terms.approval
        return replace(job, rule=replace(job.rule, name=name, approval=terms))

    async def _estimated(self, job: Job) -> Job:
        if job.repeat.served is not None:
            return job
        for plugin, contained in self._estimators:
            if contained.is_resting:
                continue
            estimator: Estimator = plugin.made
            held = {unit.value: figure for unit, figure in job.estimate}
            try:
                answer = await contained.answer(partial(estimator.estimate, _seen(job), held))
            except PluginError:
                continue
            try:
                with faults_contained():
                    expected = _amounts(answer)
            except PluginError as error:
                contained.note_failure(f"it answered no amounts: {error}")
                continue
            job = replace(job, rule=with_expected(job.rule, expected))
        return job


async def _verdict(plugin: Plugin, contained: Contained, job: Job) -> Allow | Deny | Ask:
    """Return what a guard says.

    Raises:
        PluginError: nothing that can be understood.
    """
    if plugin.fault:
        raise PluginError(f"it could not be loaded ({plugin.fault})")
    guard: Guard = plugin.made
    verdict = await contained.answer(partial(guard.before, _seen(job)))
    if not isinstance(verdict, Allow | Deny | Ask):
        why = f"it answered {type(verdict).__name__}, not Allow, Deny or Ask"
        contained.note_failure(why)
        raise PluginError(why)
    return verdict


def _amounts(answer: Mapping[str, int] | None) -> Amounts:
    """Return what an estimator expects.

    Raises:
        ValueError: it names what is no unit, or none that can be expected.
        InvalidAmountError: an amount is none.
    """
    named = {Unit(name): figure for name, figure in (answer or {}).items()}
    strangers = sorted(unit.value for unit in named if unit not in EXPECTABLE)
    if strangers:
        message = f"{', '.join(strangers)} cannot be expected of a call"
        raise ValueError(message)
    return Amounts(named)


def _seen(job: Job) -> SeenCall:
    """Return the call as one plug-in sees it, with arguments that only it can spoil."""
    call, chain = job.call, job.call.chain
    return SeenCall(
        call_id=call.call_id,
        tenant=chain.tenant,
        agent=chain.agent,
        session=chain.session,
        turn=call.turn,
        tool=call.tool,
        upstream=job.backend.name,
        rule=job.rule.name,
        arguments=copy.deepcopy(dict(call.arguments)),
    )


def _seen_result(result: ToolResult) -> SeenResult:
    content = copy.deepcopy([dict(block) for block in result.content])
    texts = (str(block["text"]) for block in content if block.get("type") == "text")
    return SeenResult(
        text="\n".join(texts),
        content=content,
        structured=copy.deepcopy(result.structured),
        is_error=result.is_error,
    )


def _reason(reason: object) -> str:
    """Return a stranger's words on one line, of a length that a model can be told."""
    return " ".join(text_of(reason).split())[:_REASON_CHARS_MAX].rstrip(".")
