"""Whose the tasks are that upstreams run on for calls that they have answered."""

from collections import OrderedDict

from governor.ids import PrincipalId, TenantId
from governor.scope import ScopeChain
from tool_gateway.catalog import ToolEntry
from tool_gateway.results import ToolResult

TASK_ID = "taskId"
TASKS_MAX = 10_000
TASKS_PER_AGENT_MAX = 1_000

_Owner = tuple[TenantId, PrincipalId]


class KnownTasks:
    """The tasks of this process's calls, each known to nobody but the agent that began it.

    They are bounded for each agent and for all: the oldest of an agent gives way, and where all
    have too many, the oldest of the agent that has the most.
    """

    def __init__(
        self, *, tasks_max: int = TASKS_MAX, per_agent_max: int = TASKS_PER_AGENT_MAX
    ) -> None:
        """Start with none."""
        self._tasks_max = tasks_max
        self._per_agent_max = per_agent_max
        self._count = 0
        self._of: dict[_Owner, OrderedDict[str, ToolEntry]] = {}

    def note(self, chain: ScopeChain, result: ToolResult, entry: ToolEntry) -> None:
        """Remember the task that the result of a call of `entry` names, if it names one."""
        task = result.extra.get(TASK_ID)
        if not isinstance(task, str):
            return
        owner = (chain.tenant, chain.agent)
        own = self._of.setdefault(owner, OrderedDict())
        self._count += task not in own
        own[task] = entry
        own.move_to_end(task)
        if len(own) > self._per_agent_max:
            self._forget_oldest(owner)
        elif self._count > self._tasks_max:
            self._forget_oldest(max(self._of, key=lambda each: len(self._of[each])))

    def tool_of(self, task: str, *, tenant: TenantId, agent: PrincipalId) -> ToolEntry | None:
        """Return the tool whose call an agent's task goes on with; None of any other's."""
        own = self._of.get((tenant, agent))
        return None if own is None else own.get(task)

    def _forget_oldest(self, owner: _Owner) -> None:
        own = self._of[owner]
        own.popitem(last=False)
        self._count -= 1
        if not own:
            del self._of[owner]
