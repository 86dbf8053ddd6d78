"""What Flyball must do about every kind of tool on its machine: programs, servers, agents.

A part of `requirements.py`, which holds all of them together.
"""

RUNS: dict[str, str] = {
    "local.python-run": (
        "Python source runs as a local command does, off unless a rule names it, with the "
        "interpreter that is configured; it may be large, and has its own input and arguments."
    ),
    "servers.calls-are-attributed": (
        "A call to a server that is started here has what the server used meanwhile if it was "
        "alone, else its part of every moment, said to be an estimate; never zero for unknown."
    ),
    "servers.limits": (
        "A server's limits hold for its whole tree; who waits for one that the kernel killed is "
        "told the cause, and it is started again. Where they cannot be enforced it is not started."
    ),
    "run.agent-is-a-session": (
        "An agent that `flyball run` starts is one session: its calls and what its processes take "
        "are charged to it, and its end is that of the command."
    ),
    "run.key-is-pinned": (
        "The key of an agent is good for its session and those spawned beneath it, whatever its "
        "requests name, and never for its user's words."
    ),
    "run.budget-ends-agent": (
        "What an agent takes is held before it takes it, slice by slice; where nothing is left it "
        "is asked to end, killed, and whoever started it told why, with a status of its own."
    ),
    "run.administrators-reach-agents": (
        "Freezing a session stops all processes of its agent until it is resumed, and ending a "
        "session ends them."
    ),
    "run.leaves-nothing": (
        "Whatever an agent has started ends with it, with its launcher and with the sidecar."
    ),
    "run.task-is-trusted": "The words of `flyball run --task` are the user's, said once.",
    "run.terminal": (
        "An agent has the terminal of whoever starts it, and the terminal is left as it was."
    ),
    "command.born-inside": (
        "A command is in every group of its domain before its first instruction, and so is all "
        "that it starts and detaches."
    ),
    "command.secrets-stay-in": (
        "The environment and the words of a command are shown by no process but its own."
    ),
    "spawner.end-is-survived": (
        "When the process that commands are cloned from is killed, those that run go on, those "
        "that wait for it are started once by its successor, and nobody waits for ever."
    ),
}
