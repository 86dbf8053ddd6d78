"""The launcher's order of work: enter the domain, give up privileges, become the command.

The order is the point. The control groups are entered before anything is given up, because
only the sidecar may write there; Landlock is entered after the directory, which it might hide,
the parent-death signal comes after that, because a change of identity clears it, and the filter
of system calls comes last. Whatever fails is written to a pipe that a successful `execve` closes:
a failure on it means that the command never ran, and none of its output can imitate one.

Two programs come here: a bare interpreter of its own for each server, and for each command
where there is no spawner; and the spawner's clones, for which part of the work is done.
"""

import marshal
import os
import resource
import sys

from ebpf.launcher import landlock, linux, seccomp

TYPE_CHECKING = False  # `typing` costs every launch milliseconds
if TYPE_CHECKING:
    import signal

    from ebpf.launcher.spec import LaunchSpec
else:
    # What `signal` adds to it are enumerations, which would cost every launch milliseconds.
    import _signal as signal

_NOT_FOUND = 127
_NOT_EXECUTABLE = 126
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
_UMASK = 0o022
# When the host is short of memory a command goes before the sidecar, unless that is huge.
_OOM_SCORE_MIN = 500
_RLIMITS = ((resource.RLIMIT_CORE, 0, 0), (resource.RLIMIT_NOFILE, 1024, 65536))

# What the sidecar is told: the step that failed, the error's number, its text, what it was about.
STEP_DOMAIN = "domain"
STEP_PRIVILEGES = "privileges"
STEP_DIRECTORY = "directory"
STEP_EXEC = "exec"
_SUBJECT_CHARACTERS_MAX = 200


class _StepError(Exception):
    """One step of the launch failed."""

    def __init__(self, step: str, cause: Exception) -> None:
        super().__init__(step)
        self.step = step
        self.cause = cause


def main() -> None:
    """Run the launch that is described by the argument: a descriptor's number, or JSON."""
    spec = _read_spec(sys.argv[-1])
    if spec["status_fd"] is not None:
        os.set_inheritable(spec["status_fd"], False)  # noqa: FBT003 - its signature
    spec["join"] += spec["join_unless_born"]
    if spec["keeper"]:
        from ebpf.launcher import keeper  # noqa: PLC0415 - only hosts without groups pay for it

        keeper.keep(spec, lambda keeper_pid: _begin(spec, parent_pid=keeper_pid))
    else:
        _begin(spec, parent_pid=spec["parent_pid"])


def _begin(spec: "LaunchSpec", *, parent_pid: int) -> None:
    """Do what the spawner has done for its clones, and launch."""
    is_root = spec["account"] is not None
    try:
        heed_signals()
        if spec["env"] is None:
            # The kernel shows it to no process that has changed its identity.
            spec["env"] = _initial_environment()
        if spec["governed"]:
            if sys.platform == "linux":
                offer_itself()
            give_up_for_all(is_root=is_root)
        else:
            if is_root:
                _give_up_standing()
            # Landlock demands it of whoever is not root.
            if spec["carve"] is not None:
                linux.forbid_new_privileges()
    except OSError as error:
        _report_failure(spec, _StepError(STEP_PRIVILEGES, error))
        os._exit(_NOT_EXECUTABLE)
    launch(spec, parent_pid=parent_pid)


def _read_spec(argument: str) -> "LaunchSpec":
    if argument.isdigit():
        # The writer is the same interpreter, so marshal's format is its own.
        with open(int(argument), "rb") as source:  # noqa: PTH123 - a descriptor is no path
            source.seek(0)
            spec: LaunchSpec = marshal.load(source)  # noqa: S302 - the sidecar's own descriptor
            return spec
    import json  # noqa: PLC0415 - twice the cost of all else here, and only servers pay it

    served: LaunchSpec = json.loads(argument)
    return served


def heed_signals() -> None:
    """Ignore none of those that the interpreter ignores: a program that is executed would too."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)


def give_up_for_all(*, is_root: bool) -> None:
    """Give up what no command may have, so far as no launch needs it any more.

    All that this changes is inherited, so a process that is cloned from need do it only once.
    """
    os.umask(_UMASK)
    for which, soft, hard in _RLIMITS:
        _limit(which, soft, hard)
    if is_root:
        _give_up_standing()
    if sys.platform == "linux":
        linux.forbid_new_privileges()


def _give_up_standing() -> None:
    """Give up what root has besides its identity."""
    os.setgroups([])
    linux.drop_bounding_set()


def offer_itself() -> bytes:
    """Be what the kernel kills before the sidecar, with all children; return what was before."""
    score = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
    before = os.read(score, 16)
    if int(before) < _OOM_SCORE_MIN:
        os.pwrite(score, str(_OOM_SCORE_MIN).encode(), 0)
    os.close(score)
    return before


def launch(spec: "LaunchSpec", *, parent_pid: int, ruleset: int | None = None) -> None:
    """Become the command; return never. Of a ruleset that was built already, take the descriptor.

    A clone of the spawner spends its time here for the pages of memory that it touches.
    """
    try:
        _enter(spec)
        env = _environment(spec)  # now: who has become another user may not read it
        _give_up_privileges(spec, ruleset, parent_pid=parent_pid)
        _execute(spec["argv"], env)
    except _StepError as error:
        _report_failure(spec, error)
        missing = error.step == STEP_EXEC and isinstance(error.cause, FileNotFoundError)
        os._exit(_NOT_FOUND if missing else _NOT_EXECUTABLE)
    except Exception as error:  # noqa: BLE001 - the top of a process: it must not print a trace
        _report_failure(spec, _StepError(STEP_EXEC, error))
        os._exit(_NOT_EXECUTABLE)


def _enter(spec: "LaunchSpec") -> None:
    try:
        if spec["governed"]:
            os.setsid()
        for door in spec["join"]:
            group = os.open(door, os.O_WRONLY | os.O_CLOEXEC)
            os.write(group, b"0")  # whoever writes 0 moves itself
            os.close(group)
        for which, soft, hard in spec["rlimits"]:
            _limit(which, soft, hard)
    except OSError as error:
        raise _StepError(STEP_DOMAIN, error) from error


def _limit(which: int, soft: int, hard: int) -> None:
    _, ceiling = resource.getrlimit(which)
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    resource.setrlimit(which, (soft, hard))


def _give_up_privileges(spec: "LaunchSpec", ruleset: int | None, *, parent_pid: int) -> None:
    try:
        if spec["account"] is not None:
            uid, gid = spec["account"]
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            linux.drop_capabilities()
        _change_directory(spec["cwd"])
        if ruleset is not None:
            landlock.enforce(ruleset)
        elif spec["carve"] is not None:
            landlock.restrict(spec["carve"])
        if sys.platform == "linux":
            linux.die_with_parent(parent_pid)
        if spec["filter"] is not None:
            seccomp.restrict(spec["filter"])
    except OSError as error:
        raise _StepError(STEP_PRIVILEGES, error) from error


def _change_directory(cwd: str | None) -> None:
    if cwd is None:
        return
    try:
        os.chdir(cwd)
    except OSError as error:
        raise _StepError(STEP_DIRECTORY, error) from error


def _environment(spec: "LaunchSpec") -> "dict[str, str]":
    env = spec["env"]
    assert env is not None, "it was read before privileges were given up"
    if spec["marker"] is not None:
        name, value = spec["marker"]
        env[name] = value
    return env


def _execute(argv: list[str], env: "dict[str, str]") -> None:
    refused: OSError | None = None
    for path in _candidates(argv[0], env.get("PATH", _DEFAULT_PATH)):
        try:
            os.execve(path, argv, env)  # noqa: S606 - this is what the launcher is for
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            # As a shell does: a command that may not be run is remembered, the search goes on. In
            # a directory that may not be entered none was found.
            if path == argv[0] or os.access(path, os.F_OK):
                refused = refused or error
    last = refused or FileNotFoundError(2, os.strerror(2), argv[0])
    raise _StepError(STEP_EXEC, last)


def _initial_environment() -> "dict[str, str]":
    """Return what a server's client gave it; in `os.environ` Python may have set a locale."""
    if sys.platform != "linux":
        return dict(os.environ)  # noqa: TID251 - the nearest that other systems have
    with open("/proc/self/environ", "rb") as block:  # noqa: PTH123 - pathlib costs every launch
        entries = os.fsdecode(block.read()).split("\0")
    pairs = [entry.partition("=") for entry in entries if "=" in entry]
    return {name: value for name, _, value in pairs}


def _candidates(command: str, path: str) -> "list[str]":
    if "/" in command:
        return [command]
    return [f"{directory or '.'}/{command}" for directory in path.split(":")]


def _report_failure(spec: "LaunchSpec", error: _StepError) -> None:
    if spec["status_fd"] is not None:
        subject = spec["cwd"] if error.step == STEP_DIRECTORY else spec["argv"][0]
        tell_failure(spec["status_fd"], error.step, error.cause, subject=subject or "/")
        return
    _, text = _said_of(error.cause)
    os.write(2, f"{spec['argv'][0]}: {error.step}: {text}\n".encode(errors="replace"))


def tell_failure(status_fd: int, step: str, cause: Exception, *, subject: str = "") -> None:
    """Tell the sidecar why the command will never run, and which program or directory it is."""
    words = ("failed", step, *_said_of(cause), subject[:_SUBJECT_CHARACTERS_MAX])
    os.write(status_fd, marshal.dumps(words))


def _said_of(cause: Exception) -> tuple[int, str]:
    number = getattr(cause, "errno", None) or 0
    return number, getattr(cause, "strerror", None) or repr(cause)


if __name__ == "__main__":
    main()
