"""deploy/systemd: by systemd's own checks, and by what it promises."""

import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest
from deploy.composed import ROOT

UNIT = ROOT / "deploy" / "systemd" / "flyball.service"
DROP_IN = ROOT / "deploy" / "systemd" / "flyball-kernel.conf"
# Of ten; what has no sandbox at all has 9.6.
EXPOSURE_MAX = 4.0


def service(path: Path) -> Mapping[str, list[str]]:
    """Return the settings of a unit's [Service], each with all of its values."""
    found: dict[str, list[str]] = defaultdict(list)
    section = path.read_text(encoding="utf-8").split("[Service]")[1].split("\n[")[0]
    for line in section.splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found[key].append(value)
    return found


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Return the unit as if it were installed, with a program in the place of its own."""
    text = UNIT.read_text(encoding="utf-8")
    path = tmp_path / "flyball.service"
    path.write_text(text.replace("/opt/flyball/bin/flyball", "/bin/true"), encoding="utf-8")
    drop_ins = tmp_path / "flyball.service.d"
    drop_ins.mkdir()
    shutil.copy(DROP_IN, drop_ins / "kernel.conf")
    return path


def analysed(*words: str | Path) -> subprocess.CompletedProcess[str]:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("this machine has no systemd-analyze")
    return subprocess.run(
        ["systemd-analyze", *words], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.requirement("deploy.systemd-valid")
def test_systemd_finds_nothing_wrong_with_the_unit(installed: Path) -> None:
    done = analysed("verify", "--man=no", "--recursive-errors=no", installed)

    assert done.returncode == 0, done.stderr
    assert "flyball" not in done.stderr, done.stderr


@pytest.mark.requirement("deploy.systemd-valid")
def test_systemd_finds_a_misspelt_setting(installed: Path) -> None:
    text = installed.read_text(encoding="utf-8").replace("ProtectHome=", "ProtectHoem=")
    installed.write_text(text, encoding="utf-8")

    done = analysed("verify", "--man=no", "--recursive-errors=no", installed)

    assert "ProtectHoem" in done.stderr


@pytest.mark.requirement("deploy.least-privilege")
def test_systemd_calls_the_service_little_exposed(installed: Path) -> None:
    (installed.parent / "flyball.service.d" / "kernel.conf").unlink()

    done = analysed("security", "--offline=true", "--no-pager", installed)

    level = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert level is not None, done.stdout + done.stderr
    assert float(level[1]) <= EXPOSURE_MAX


def test_the_control_groups_below_the_service_are_the_sidecars() -> None:
    settings = service(UNIT)

    (delegated,) = settings["Delegate"]
    assert {"cpu", "memory", "pids", "io"} <= set(delegated.split())
    # Each of these would take the groups away again, or end the sidecar with a call.
    assert "ProtectControlGroups" not in settings
    assert settings["OOMPolicy"] == ["continue"]
    assert settings["KillMode"] == ["mixed"]


def test_without_the_drop_in_the_service_has_no_capability() -> None:
    assert service(UNIT)["CapabilityBoundingSet"] == [""]
    assert service(UNIT)["NoNewPrivileges"] == ["yes"]
    assert service(UNIT)["User"] == ["flyball"]
    (granted,) = service(DROP_IN)["CapabilityBoundingSet"]
    assert set(granted.split()) == {"CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN"}
    assert service(DROP_IN)["AmbientCapabilities"] == [granted]


@pytest.mark.requirement("deploy.secrets-by-file")
def test_the_unit_holds_no_secret_and_says_where_one_goes() -> None:
    text = UNIT.read_text(encoding="utf-8")

    assert "LoadCredential=store-password:" in text
    assert "FLYBALL_STORE_PASSWORD_FILE=%d/store-password" in text
    assert not [
        line for line in service(UNIT)["Environment"] if re.search("PASSWORD|KEY|URL", line)
    ]
