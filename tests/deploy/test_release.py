"""A release: built twice the same, listed whole, signed, and refused when anything was changed."""

import json
import shutil
import subprocess
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from deploy.composed import ROOT

from deploy.locked import LockError, read_lock
from deploy.release import BILL, SIGNATURE, SUMS, ReleaseError, export, main, make, verify

pytestmark = pytest.mark.slow

MADE_S = 1_790_000_000
IDENTITY = "release@flyball.test"
SMALL = ("governor", "migrations")


def key_in(folder: Path, name: str) -> Path:
    key = folder / name
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", key]
    subprocess.run(words, check=True, timeout=60)
    return key


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a tree to release, who may sign, their key, and a stranger's."""
    if shutil.which("ssh-keygen") is None:
        pytest.skip("this machine has no ssh-keygen")
    folder = tmp_path_factory.mktemp("workshop")
    tree = folder / "tree"
    for name in SMALL:
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "requirements.lock"):
        shutil.copy2(ROOT / name, tree / name)
    # One package of the five is enough to see how a release is made.
    project = (tree / "pyproject.toml").read_text(encoding="utf-8")
    only = '["runtime", "governor", "memory_store", "tool_gateway", "ebpf", "migrations"]'
    assert only in project
    (tree / "pyproject.toml").write_text(project.replace(only, json.dumps(SMALL)), encoding="utf-8")
    public = key_in(folder, "release").with_suffix(".pub").read_text(encoding="utf-8")
    key_in(folder, "stranger")
    (folder / "signers").write_text(
        f'{IDENTITY} namespaces="flyball-release" {public}', encoding="utf-8"
    )
    return folder


@pytest.fixture(scope="module")
def released(workshop: Path) -> Path:
    out = workshop / "out"
    make(workshop / "tree", out, key=workshop / "release", made_s=MADE_S)
    return out


@pytest.fixture
def copy(released: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(released, tmp_path / "copy"))


def check(workshop: Path, out: Path) -> None:
    verify(out, signers=workshop / "signers", identity=IDENTITY)


@pytest.mark.requirement("release.signed")
def test_a_release_is_what_was_signed(workshop: Path, released: Path) -> None:
    check(workshop, released)

    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "version"
    ]
    names = {path.name for path in released.iterdir()}
    wheel, source = f"flyball-{version}-py3-none-any.whl", f"flyball-{version}.tar.gz"
    assert names == {wheel, source, BILL, SUMS, SIGNATURE}
    with zipfile.ZipFile(released / wheel) as opened:
        assert "governor/admission.py" in opened.namelist()
    with tarfile.open(released / source) as opened:
        assert f"flyball-{version}/governor/admission.py" in opened.getnames()


@pytest.mark.requirement("release.signed")
@pytest.mark.parametrize("name", [BILL, ".whl", ".tar.gz"])
def test_a_changed_file_is_refused(workshop: Path, copy: Path, name: str) -> None:
    (changed,) = [path for path in copy.iterdir() if path.name.endswith(name)]
    content = bytearray(changed.read_bytes())
    content[len(content) // 2] ^= 1
    changed.write_bytes(content)

    with pytest.raises(ReleaseError, match="its files are not those"):
        check(workshop, copy)


@pytest.mark.requirement("release.signed")
def test_a_file_more_or_less_is_refused(workshop: Path, copy: Path) -> None:
    (copy / "install.sh").write_text("rm -rf ~\n", encoding="utf-8")
    with pytest.raises(ReleaseError, match="its files are not those"):
        check(workshop, copy)

    (copy / "install.sh").unlink()
    (copy / BILL).unlink()
    with pytest.raises(ReleaseError, match="its files are not those"):
        check(workshop, copy)


@pytest.mark.requirement("release.signed")
def test_sums_that_somebody_else_signed_are_refused(workshop: Path, copy: Path) -> None:
    (copy / SIGNATURE).unlink()
    stranger = ["ssh-keygen", "-q", "-Y", "sign", "-n", "flyball-release"]
    subprocess.run([*stranger, "-f", workshop / "stranger", copy / SUMS], check=True, timeout=60)
    with pytest.raises(ReleaseError, match="verify"):
        check(workshop, copy)


@pytest.mark.requirement("release.signed")
def test_a_signature_for_something_else_is_refused(workshop: Path, copy: Path) -> None:
    (copy / SIGNATURE).unlink()
    other = ["ssh-keygen", "-q", "-Y", "sign", "-n", "file", "-f", workshop / "release"]
    subprocess.run([*other, copy / SUMS], check=True, timeout=60)

    with pytest.raises(ReleaseError, match="verify"):
        check(workshop, copy)


def test_the_same_tree_gives_the_same_bytes(workshop: Path, released: Path, tmp_path: Path) -> None:
    make(workshop / "tree", tmp_path / "again", key=workshop / "release", made_s=MADE_S)

    assert (tmp_path / "again" / SUMS).read_bytes() == (released / SUMS).read_bytes()


def test_a_folder_that_holds_something_is_left_alone(workshop: Path, released: Path) -> None:
    before = (released / SUMS).read_bytes()

    with pytest.raises(ReleaseError, match="is not empty"):
        make(workshop / "tree", released, key=workshop / "release", made_s=MADE_S)

    assert (released / SUMS).read_bytes() == before


def test_the_command_says_what_is_wrong_and_returns_one(
    workshop: Path, released: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["verify", str(released), "--signers", str(workshop / "signers"), "--identity"]

    assert main([*words, IDENTITY]) == 0
    assert "is what was signed" in capsys.readouterr().out
    assert main([*words, "somebody@else.test"]) == 1
    assert "release: ssh-keygen" in capsys.readouterr().err


def test_what_is_exported_is_what_is_committed(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this machine has no history of the sources")
    made_s = export("HEAD", tmp_path)

    assert made_s > 0
    assert (tmp_path / "pyproject.toml").is_file()
    assert not (tmp_path / ".git").exists()
    with pytest.raises(ReleaseError, match="git"):
        export("no-such-commit", tmp_path)


@pytest.mark.requirement("release.bill")
def test_the_bill_lists_every_locked_package_with_its_hashes(released: Path) -> None:
    text = (released / BILL).read_text(encoding="utf-8")
    bill = json.loads(text)
    locked = read_lock(ROOT / "requirements.lock")

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    listed = {(one["name"], one["version"]): one for one in bill["components"]}
    assert set(listed) == {(package.name, package.version) for package in locked}
    for package in locked:
        facts = {fact["value"] for fact in listed[package.name, package.version]["properties"]}
        assert set(package.hashes) <= facts
    # Everything is asked for by something, down from the release itself.
    edges = {one["ref"]: one["dependsOn"] for one in bill["dependencies"]}
    reached, frontier = set(), {bill["metadata"]["component"]["bom-ref"]}
    while frontier:
        reached |= frontier
        frontier = {ref for one in frontier for ref in edges[one]} - reached
    assert reached == set(edges)


def test_a_lock_without_hashes_is_no_lock(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text("anyio==4.0.0\n", encoding="utf-8")
    with pytest.raises(LockError, match="no hash for anyio"):
        read_lock(lock)

    lock.write_text("anyio>=4.0.0 \\\n    --hash=sha256:" + "0" * 64 + "\n", encoding="utf-8")
    with pytest.raises(LockError, match=":1: is no pinned package"):
        read_lock(lock)
