"""Write AgentDojo's tasks as the JSON lines that `flyball eval flow --agentdojo` reads.

Run it where the package `agentdojo` is installed (`pip install --no-deps agentdojo` and the
packages that its suites name are enough; the clients of model providers are stood in for).
The results of the calls come from its own environments, without any injection.
"""

import json
import sys
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

VERSION = "v1.2.2"
# What talks to models is not needed, and not installed.
STAND_INS = (
    "agentdojo.agent_pipeline",
    "agentdojo.agent_pipeline.agent_pipeline",
    "agentdojo.agent_pipeline.base_pipeline_element",
    "agentdojo.agent_pipeline.errors",
    "agentdojo.agent_pipeline.ground_truth_pipeline",
    "agentdojo.agent_pipeline.llms",
    "agentdojo.agent_pipeline.llms.google_llm",
    "agentdojo.agent_pipeline.tool_execution",
)


def plain(value: Any) -> Any:
    """Return what a tool answered as JSON values."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    return value


def calls_of(task: Any, suite: Any, functions: ModuleType) -> list[dict[str, Any]]:
    """Return the calls that do a task, with what they answer."""
    environment = suite.load_and_inject_default_environment({})
    if hasattr(task, "init_environment"):
        environment = task.init_environment(environment)
    runtime = functions.FunctionsRuntime(suite.tools)
    calls = []
    for call in task.ground_truth(environment):
        answer, error = runtime.run_function(environment, call.function, call.args)
        result = "" if error is not None else json.dumps(plain(answer), default=str)
        calls.append({"tool": call.function, "arguments": call.args, "result": result})
    return calls


def main() -> None:
    """Print a line for each tool, task and injection of each suite."""
    for name in STAND_INS:
        sys.modules[name] = MagicMock()
    from agentdojo import functions_runtime  # noqa: PLC0415 - after the stand-ins
    from agentdojo.task_suite.load_suites import get_suites  # noqa: PLC0415

    for name, suite in get_suites(VERSION).items():
        for tool in suite.tools:
            schema = tool.parameters.model_json_schema()
            definition = {
                "name": tool.name,
                "description": tool.description,
                "inputSchema": schema,
            }
            print(json.dumps({"suite": name, "kind": "tool", "tool": definition}))
        for kind, tasks in (("task", suite.user_tasks), ("injection", suite.injection_tasks)):
            for task_id, task in tasks.items():
                row = {
                    "suite": name,
                    "kind": kind,
                    "id": task_id,
                    "words": task.PROMPT if kind == "task" else task.GOAL,
                    "calls": calls_of(task, suite, functions_runtime),
                }
                print(json.dumps(row, default=str))


if __name__ == "__main__":
    main()
