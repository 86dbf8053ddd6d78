"""What hostile calls try, each a script that tells by ESCAPED what it should not have been able to.

The environment has TOKEN, a number that `sleep` takes and by which every process of this one call
is found; CROWD, what the tokens of all calls begin with; SIDECAR, the process to be harmed; STATE,
the directory to be read.
"""

from dataclasses import dataclass

ESCAPED = "ESCAPED"
# Long enough to try everything where many try at once.
TRY_MS = 8_000
# What would stay for ever is ended by its time.
STAY_MS = 400


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One way to be hostile."""

    name: str
    script: str
    is_python: bool = False
    wall_ms: int = TRY_MS
    # Below version 6 Landlock lets a command signal others of its user, which `doctor` says.
    needs_scoped_signals: bool = False
    # Hundreds of processes within a sample's time, which only a limit of the kernel holds back.
    is_storm: bool = False


def _shell(name: str, script: str, *, stays: bool = False) -> Kind:
    return Kind(name=name, script=script, wall_ms=STAY_MS if stays else TRY_MS)


def _python(name: str, script: str, *, stays: bool = False, is_storm: bool = False) -> Kind:
    wall_ms = STAY_MS if stays else TRY_MS
    return Kind(name=name, script=script, is_python=True, wall_ms=wall_ms, is_storm=is_storm)


def _signalling(name: str, script: str) -> Kind:
    return Kind(name=name, script=script, needs_scoped_signals=True)


OUTLIVE = (
    _shell("leaves its session", 'setsid sleep "$TOKEN" &'),
    _shell("forks twice", "(setsid sh -c 'sleep \"$TOKEN\" & exit' &)"),
    _shell("ignores signals", "(trap '' TERM HUP INT QUIT; setsid sh -c 'sleep \"$TOKEN\"; :' &)"),
    _shell("keeps the output open", 'sleep "$TOKEN" & sleep "$TOKEN" 2>&1 &'),
    _shell("empties its environment", 'setsid env -i PATH="$PATH" sleep "$TOKEN" &'),
    _shell("starts itself again", '(while :; do setsid sleep "$TOKEN" & sleep 0.02; done) & :'),
    _shell("stays", "trap '' TERM; sleep \"$TOKEN\"", stays=True),
    _shell("stops itself", '(sleep "$TOKEN" &) ; kill -STOP $$', stays=True),
    _shell("kills itself", '(setsid sleep "$TOKEN" &) ; kill -KILL $$'),
    _shell("is root in a namespace", 'setsid unshare -Ur sleep "$TOKEN" &'),
    _python(
        "becomes a daemon",
        """
import os, signal
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN)
        os.chdir("/")
        os.closerange(0, 256)
        os.execv("/bin/sleep", ["sleep", os.environ["TOKEN"]])
    os._exit(0)
""",
    ),
    _python(
        "forks as often as it may",
        """
import os
while True:
    try:
        pid = os.fork()
    except OSError:
        break
    if pid == 0:
        os.execv("/bin/sleep", ["sleep", os.environ["TOKEN"]])
""",
        is_storm=True,
    ),
    _python(
        "forks in circles",
        """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
""",
        stays=True,
        is_storm=True,
    ),
    _python(
        "leaves zombies",
        """
import os
try:
    while os.fork():
        pass
    os._exit(0)
except OSError:
    os.execv("/bin/sleep", ["sleep", os.environ["TOKEN"]])
""",
        stays=True,
        is_storm=True,
    ),
    _python(
        "becomes another program in a thread",
        """
import os, threading
stay = lambda: os.execv("/bin/sleep", ["sleep", os.environ["TOKEN"]])
for _ in range(4):
    threading.Thread(target=threading.Event().wait).start()
threading.Thread(target=stay).start()
""",
        stays=True,
    ),
    _python("takes all memory", "held = [b'x' * (1 << 24) for _ in range(64)]"),
    _python("writes without end", "import os\nwhile True:\n    os.write(1, b'x' * 65536)"),
)

ESCAPE = (
    _shell(
        "changes its control group",
        """
for file in $(find /sys/fs/cgroup -name cgroup.procs | head -60); do
  echo 0 2>/dev/null > "$file" && echo ESCAPED to "$file"
done
setsid sleep "$TOKEN" &
""",
    ),
    _shell(
        "lifts its limits",
        """
for file in $(find /sys/fs/cgroup -path '*flyball*' \\( -name '*.max' -o -name 'cgroup.kill' \\
    -o -name '*limit_in_bytes' -o -name '*quota_us' -o -name cgroup.freeze \\) | head -60); do
  [ -w "$file" ] && echo ESCAPED may write "$file"
done
setsid sleep "$TOKEN" &
""",
    ),
    _shell(
        "makes a group of its own",
        """
for path in $(find /sys/fs/cgroup -type d | head -60); do
  mkdir "$path/own-$TOKEN" 2>/dev/null && echo ESCAPED into "$path"
done
setsid sleep "$TOKEN" &
""",
    ),
    _shell(
        "mounts the groups anew",
        """
unshare -UrmC sh -c 'mkdir -p mnt-$TOKEN; mount -t cgroup2 none mnt-$TOKEN || exit
for file in $(find mnt-$TOKEN -maxdepth 3 -name cgroup.procs | head -20); do
  echo 0 > "$file" && echo ESCAPED to "$file"
done
cat "$STATE/token"; setsid sleep "$TOKEN" &' 2>/dev/null
rmdir "mnt-$TOKEN" 2>/dev/null
""",
    ),
)

HARM = (
    _shell("reads the state", 'cat "$STATE/token"; ls "$STATE"; cat "$STATE"/../state/token'),
    _shell(
        "reads the state around a corner",
        """
ln -s "$STATE" "link-$TOKEN"; cat "link-$TOKEN/token"; rm -f "link-$TOKEN"
cat "/proc/$SIDECAR/root$STATE/token" "/proc/$SIDECAR/cwd/token"
unshare -Ur cat "$STATE/token"
""",
    ),
    _shell(
        "writes to the state",
        """
{ echo x > "$STATE/token"; } 2>/dev/null && echo ESCAPED wrote
{ echo x > "$STATE/new"; } 2>/dev/null && echo ESCAPED made
mv "$STATE" "$STATE-away" 2>/dev/null && echo ESCAPED moved
rm "$STATE/token" 2>/dev/null && echo ESCAPED removed
""",
    ),
    _shell(
        "reads the sidecar",
        """
cat "/proc/$SIDECAR/environ" 2>/dev/null | grep -q . && echo ESCAPED environ
head -c 1 "/proc/$SIDECAR/mem" 2>/dev/null && echo ESCAPED mem
readlink "/proc/$SIDECAR/fd/0" "/proc/$SIDECAR/fd/1" "/proc/$SIDECAR/exe" && echo ESCAPED links
head -c 1 "/proc/$SIDECAR/fd/3" 2>/dev/null && echo ESCAPED fd
""",
    ),
    _python(
        "traces the sidecar",
        """
import ctypes, os
PTRACE_ATTACH, PTRACE_SEIZE = 16, 0x4206
for request in (PTRACE_SEIZE, PTRACE_ATTACH):
    if ctypes.CDLL(None).ptrace(request, int(os.environ["SIDECAR"]), 0, 0) == 0:
        print("ESCAPED traces")
""",
    ),
    _signalling(
        "signals the sidecar",
        """
for name in TERM USR1 HUP INT; do
  kill -$name "$SIDECAR" 2>/dev/null && echo ESCAPED "$name"
done
""",
    ),
    _signalling("kills its parent", "kill -KILL $PPID 2>/dev/null && echo ESCAPED parent"),
    _signalling(
        "kills the other calls",
        """
for pid in $(grep -al "$CROWD" /proc/[0-9]*/cmdline 2>/dev/null | cut -d/ -f3); do
  grep -aq "$TOKEN" "/proc/$pid/cmdline" 2>/dev/null && continue
  kill -KILL "$pid" 2>/dev/null && echo ESCAPED killed "$pid"
done
""",
    ),
)

KINDS = (*OUTLIVE, *ESCAPE, *HARM)
