"""The wheel: exactly the five packages, installable, started by one command."""

import itertools
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {"runtime", "governor", "memory_store", "tool_gateway", "ebpf"}
SECONDS_MAX = 100
STRAY = "local_secrets.env"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy of the sources, with an ignored file in migrations/."""
    tree = tmp_path_factory.mktemp("tree")
    for folder in (*PACKAGES, "migrations"):
        unwanted = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, tree / folder, ignore=unwanted)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, tree / name)
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8")
    (tree / ".gitignore").write_text(f"{ignored}\n{STRAY}\n", encoding="utf-8")
    (tree / "migrations" / STRAY).write_text("PASSWORD=hunter2\n", encoding="utf-8")

    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    subprocess.run(build, cwd=tree, check=True, timeout=SECONDS_MAX)

    (built,) = (tree / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel alone into a fresh environment that sees our dependencies."""
    home = tmp_path_factory.mktemp("environment")
    make = [sys.executable, "-m", "venv", "--without-pip", str(home)]
    subprocess.run(make, check=True, timeout=SECONDS_MAX)
    (site,) = home.glob("lib/python*/site-packages")
    install = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "install"]
    offline = ["--no-deps", "--no-index", "--disable-pip-version-check", str(wheel)]
    subprocess.run([*install, *offline], check=True, timeout=SECONDS_MAX)
    # Dependencies come after the new environment on the path, and only as plain folders: the
    # editable install's own .pth is not followed, so our sources cannot stand in for the wheel.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    return home


def contents(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


@pytest.mark.requirement("package.exactly-five")
def test_the_wheel_holds_exactly_the_five_packages(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in contents(wheel)}

    assert {top for top in tops if not top.endswith(".dist-info")} == PACKAGES


@pytest.mark.requirement("package.exactly-five")
def test_the_migrations_travel_inside_the_memory_store(wheel: Path) -> None:
    names = contents(wheel)

    assert "memory_store/_migrations/env.py" in names
    assert any(name.startswith("memory_store/_migrations/versions/") for name in names)


@pytest.mark.requirement("programs.are-as-compiled")
def test_the_programs_for_the_kernel_travel_compiled(wheel: Path) -> None:
    names = contents(wheel)

    sources = [name for name in names if name.endswith(".bpf.c")]
    assert sources
    assert {name.replace(".bpf.c", ".bpf.o") for name in sources} <= set(names)


@pytest.mark.requirement("retrieval.shipped-vectors")
def test_the_word_vectors_travel_with_their_card(wheel: Path) -> None:
    names = contents(wheel)

    assert {"runtime/word_vectors/english.vectors", "runtime/word_vectors/CARD.md"} <= set(names)


@pytest.mark.requirement("package.exactly-five")
def test_an_ignored_file_is_not_shipped(wheel: Path) -> None:
    assert not [name for name in contents(wheel) if name.endswith(STRAY)]


@pytest.mark.requirement("package.one-command")
def test_the_installed_command_starts_from_any_directory(environment: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [environment / "bin" / "flyball", "--help"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "flyball" in done.stdout


@pytest.mark.requirement("package.one-command")
def test_the_installed_packages_stand_in_one_place(environment: Path, tmp_path: Path) -> None:
    names = ", ".join(map(repr, sorted(PACKAGES)))
    where = f"from importlib.util import find_spec; [print(find_spec(n).origin) for n in ({names})]"
    done = subprocess.run(
        [environment / "bin" / "python", "-c", where],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=True,
    )

    origins = done.stdout.splitlines()
    assert len(origins) == len(PACKAGES)
    assert all(origin.startswith(str(environment)) for origin in origins), done.stdout


@pytest.mark.requirement("package.one-command")
def test_flyball_is_the_only_command() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert project["scripts"] == {"flyball": "runtime.cli:main"}
    assert "gui-scripts" not in project
    assert "entry-points" not in project


@pytest.mark.requirement("package.no-bcc")
def test_the_lattice_package_called_bcc_is_not_a_dependency() -> None:
    """The registry's `bcc` is another project; the compiler collection comes with the system."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = declared["project"]
    groups = (*project["optional-dependencies"].values(), *declared["dependency-groups"].values())
    asked = [*project["dependencies"], *itertools.chain.from_iterable(groups)]

    assert not [entry for entry in asked if entry.lower().startswith("bcc")]
