import json
from pathlib import Path

import pytest

from ebpf.capability import BackendKind, Capability, CapabilityState, Host
from runtime import examination
from runtime.cli import doctor
from runtime.examination import Examination
from runtime.findings import Finding, Mark
from tests.runtime.cli.conftest import Flyball

FREE_PORTS = '[listen]\nagents = "127.0.0.1:0"\nadmin = "127.0.0.1:0"\n'


@pytest.fixture
def config(folder: Path) -> Path:
    path = folder / "flyball.toml"
    path.write_text(FREE_PORTS, encoding="utf-8")
    return path


@pytest.fixture
def known_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host whose capabilities are the same wherever the test runs."""
    capabilities = (
        Capability(name="memory", state=CapabilityState.ENFORCED, by="memory.max"),
        Capability(name="memory_protection", state=CapabilityState.ENFORCED, by="memory.low"),
        Capability(name="landlock", state=CapabilityState.ABSENT, by="", why="not in this kernel"),
    )
    host = Host(backend=BackendKind.RLIMIT, capabilities=capabilities, is_root=True, landlock_abi=0)
    monkeypatch.setattr(examination, "probe_host", lambda: host)


def test_doctor_says_in_json_what_this_very_host_can_do(flyball: Flyball, config: Path) -> None:
    ended = flyball("doctor", "--json")

    said = json.loads(ended.out)
    assert ended.status == 0
    assert set(said) == {"ok", "capabilities", "config"}
    assert said["ok"] is True
    assert said["config"][config.name]["ok"] is True
    assert {"memory", "pids", "cpu_rate", "cpu_time", "wall", "kill_tree"} <= {
        row["name"] for row in said["capabilities"]
    }
    for row in said["capabilities"]:
        assert set(row) == {"name", "state", "by", "why"}
        assert row["state"] in {"enforced", "observed", "absent"}
        # Less than enforced is never left unexplained.
        assert row["state"] == "enforced" or row["why"]


@pytest.mark.usefixtures("config", "known_host")
def test_doctor_says_in_words_what_it_found(flyball: Flyball) -> None:
    ended = flyball("doctor")

    assert ended.status == 0
    lines = ended.out.splitlines()
    assert "  memory             enforced  by memory.max" in lines
    assert "  memory_protection  enforced  by memory.low" in lines
    assert "  landlock           absent    by -: not in this kernel" in lines
    assert "  ok   listen.agents: 127.0.0.1:0 is free" in lines
    assert lines[-1] == "Everything works."


@pytest.mark.usefixtures("known_host")
def test_a_broken_configuration_is_marked_and_ends_with_1(flyball: Flyball, config: Path) -> None:
    config.write_text("[lissten]\n", encoding="utf-8")

    ended = flyball("doctor")

    assert ended.status == 1
    fault = "lissten: there is no such key; did you mean 'listen'?"
    assert f"  BAD  flyball.toml: {fault}" in ended.out.splitlines()
    assert ended.out.endswith("Mend what is marked BAD.\n")
    # The host was looked at all the same.
    assert "memory" in ended.out


@pytest.mark.usefixtures("known_host")
def test_a_broken_configuration_is_told_in_json_too(flyball: Flyball, config: Path) -> None:
    config.write_text("[lissten]\n", encoding="utf-8")

    ended = flyball("doctor", "--json")

    said = json.loads(ended.out)
    assert ended.status == 1
    assert said["ok"] is False
    assert said["config"]["flyball.toml"]["ok"] is False
    assert "did you mean 'listen'?" in said["config"]["flyball.toml"]["told"]


@pytest.mark.usefixtures("known_host")
def test_a_configuration_that_is_missing_is_a_finding_and_no_crash(flyball: Flyball) -> None:
    ended = flyball("doctor")

    assert ended.status == 1
    assert "no such file. `flyball init` writes one" in ended.out


@pytest.mark.usefixtures("known_host")
def test_the_lines_of_one_finding_stand_under_each_other(flyball: Flyball, config: Path) -> None:
    config.write_text("[lissten]\n[defauld]\n", encoding="utf-8")

    ended = flyball("doctor")

    first = "  BAD  flyball.toml: lissten: there is no such key"
    [line] = [line for line in ended.out.splitlines() if line.startswith(first)]
    following = ended.out.splitlines()[ended.out.splitlines().index(line) + 1]
    assert following.startswith("       defauld: there is no such key")


@pytest.mark.parametrize(
    ("mark", "told"),
    [
        (Mark.OK, "Everything works."),
        (Mark.WARNING, "Everything works; look at what is marked warn."),
    ],
)
def test_the_last_line_does_not_hide_a_warning(
    flyball: Flyball, monkeypatch: pytest.MonkeyPatch, mark: Mark, told: str
) -> None:
    finding = Finding(mark=mark, what="listen.admin", told="is open to everybody")
    found = Examination(capabilities=(), findings=(finding,))
    monkeypatch.setattr(doctor, "examine", lambda _settings: found)

    ended = flyball("doctor")

    assert (ended.status, ended.out.splitlines()[-1]) == (0, told)


@pytest.mark.usefixtures("config")
def test_a_reason_that_several_capabilities_share_is_told_once(
    flyball: Flyball, monkeypatch: pytest.MonkeyPatch
) -> None:
    why, more = "no control group can be made here", "sampled every 100 ms"
    observed = CapabilityState.OBSERVED
    capabilities = (
        Capability(name="memory", state=observed, by="psutil", why=f"{more}; {why}"),
        Capability(name="wall", state=observed, by="SIGKILL", why=why),
        Capability(name="landlock", state=CapabilityState.ABSENT, by="", why="too old"),
    )
    host = Host(
        backend=BackendKind.RLIMIT, capabilities=capabilities, is_root=False, landlock_abi=0
    )
    monkeypatch.setattr(examination, "probe_host", lambda: host)

    lines = flyball("doctor").out.splitlines()

    assert f"  memory    observed  by psutil: {more} [1]" in lines
    assert "  wall      observed  by SIGKILL [1]" in lines
    assert "  landlock  absent    by -: too old" in lines
    assert f"  [1] {why}" in lines


TIERS = """
[[provider]]
name = "lab"
base_url = "http://127.0.0.1:9"

[[tier]]
name = "low"
provider = "lab"
model = "small-1"
input_usd_per_mtok = "0.1"
output_usd_per_mtok = "0.4"
effort = "low"

[[tier]]
name = "half"
provider = "lab"
model = "large-1"
input_usd_per_mtok = "1"
"""


def test_doctor_lists_the_tiers_and_warns_of_what_would_not_work(
    flyball: Flyball, config: Path
) -> None:
    config.write_text(FREE_PORTS + TIERS, encoding="utf-8")

    ended = flyball("doctor")

    assert ended.status == 0
    assert "small-1 at lab; $0.1 in and $0.4 out for a million tokens" in ended.out
    assert "warn tier half price: every call is denied: half a price is none" in ended.out
    assert "warn tier low effort: its effort is told to nobody: set effort_style" in ended.out
    assert "warn provider lab base_url path: it has no path" in ended.out


def test_doctor_names_every_key_that_is_missing(flyball: Flyball, config: Path) -> None:
    keys = "".join(
        f'[[provider]]\nname = "p{number}"\nbase_url = "http://127.0.0.1:9/v1"\n'
        f'api_key_from = "NO_SUCH_KEY_{number}"\n'
        for number in (1, 2)
    )
    config.write_text(FREE_PORTS + keys, encoding="utf-8")

    ended = flyball("doctor")

    assert ended.status == 1
    assert "NO_SUCH_KEY_1" in ended.out
    assert "NO_SUCH_KEY_2" in ended.out
