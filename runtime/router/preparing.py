"""A request made ready for the tier that was chosen: mode, tools, effort and examples."""

from governor.effort import Effort, effort_for
from governor.ids import CallId
from governor.learning.averages import UsualTokens
from governor.tiers import ModelTier
from runtime.model_gateway.model_request import ModelRequest
from runtime.model_gateway.preparation import Prepared, Preparing
from runtime.router.conversation import CONVERSING
from runtime.router.effort import with_effort
from runtime.router.examples import ExampleSource, with_examples
from runtime.router.fencing import Marker
from runtime.router.forecast import query_class
from runtime.router.learned import Learned, Waiting
from runtime.router.modes import with_mode, with_tools


class TierPreparer:
    """Writes into a request what its tier and its client want of it."""

    def __init__(
        self,
        *,
        usual: UsualTokens,
        learned: Learned,
        mark: Marker,
        examples: ExampleSource | None = None,
        value_microusd: int = 0,
    ) -> None:
        """Take the averages that an effort is relative to, and where examples come from."""
        self._usual = usual
        self._learned = learned
        self._mark = mark
        self._examples = examples
        self._value = value_microusd

    def prepare(self, request: ModelRequest, tier: ModelTier, wanted: Preparing) -> Prepared:
        """Return the request for one tier; what the client set in its body is left as it is."""
        if request.wire not in CONVERSING:
            return Prepared(request=request)
        key = query_class(request, tier.name, task_class=wanted.task_class)
        said: list[str] = []
        if tier.tools is not None:
            narrowed = with_tools(request, tier.tools)
            request = narrowed.request
            said.append(narrowed.why)
        kept_mode = wanted.mode or tier.mode
        if kept_mode is not None:
            moded = with_mode(request, kept_mode)
            request = moded.request
            said.append(moded.why)
        wished = None if wanted.effort is None else Effort(fraction=wanted.effort)
        told = 1.0
        counted = effort_for(kept_mode, wished, usual=tier.effort)
        if counted is not None:
            tried = with_effort(request, tier, counted, usual_tokens=self._usual.of(key))
            request = tried.request
            said.append(tried.why)
            if tried.is_told:
                told = counted.fraction
        shown = None
        if self._examples is not None and not wanted.is_aside:
            found = with_examples(
                request,
                tier,
                self._examples,
                seen=self._learned.examples[key],
                value_microusd=self._value,
                marker=self._mark,
            )
            request, shown = found.written.request, found.count
            said.append(found.written.why)
        return Prepared(
            request=request,
            # What is asked aside is no measure of what clients ask.
            query_class="" if wanted.is_aside else key,
            effort=told,
            why="; ".join(word for word in said if word),
            examples=shown,
        )

    def ended(self, prepared: Prepared, call_id: CallId, *, output_tokens: int | None) -> None:
        """Learn what a call took; its outcome is waited for where examples were a question."""
        # What half of the usual took is half of it: else the usual would follow every wish.
        if output_tokens is not None and prepared.query_class and prepared.effort > 0:
            self._usual.note(prepared.query_class, round(output_tokens / prepared.effort))
        if prepared.examples is not None and self._learned.waiting(call_id) is None:
            waiting = Waiting(
                query_class=prepared.query_class,
                tier_class=prepared.query_class,
                examples=prepared.examples,
            )
            self._learned.wait_for(call_id, waiting)
