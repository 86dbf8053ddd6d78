"""docker-compose.yml: by the specification's own schema, and by what it promises."""

import os
import re
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from deploy.composed import COMPOSE, ENFORCED, ROOT, composed, schema, services
from jsonschema import Draft202012Validator

from runtime.configuration.load import load_config

# A tag that says which version, down to its last number.
VERSION = re.compile(r":v?\d+\.\d+\.\d+[\w.-]*$")
UP = ROOT / "deploy" / "up.sh"


@pytest.mark.requirement("deploy.compose-valid")
@pytest.mark.parametrize("path", [COMPOSE, ENFORCED], ids=["all", "enforced"])
def test_the_file_is_what_the_specification_allows(path: Path) -> None:
    specification = Draft202012Validator(schema("compose-spec.json"))

    faults = [
        f"{fault.json_path}: {fault.message}" for fault in specification.iter_errors(composed(path))
    ]

    assert not faults, "\n".join(faults)


@pytest.mark.requirement("deploy.compose-valid")
def test_a_misspelt_key_is_found_by_the_schema() -> None:
    wrong = {"services": {"a": {"image": "a:1.0.0", "netwroks": ["b"]}}}

    assert list(Draft202012Validator(schema("compose-spec.json")).iter_errors(wrong))


@pytest.mark.requirement("deploy.pinned")
def test_every_image_is_named_by_its_version() -> None:
    loose = [one["image"] for one in services().values() if not VERSION.search(one["image"])]

    assert not loose, f"say which version: {loose}"


def test_what_is_mounted_is_in_the_repository() -> None:
    sources = {
        mount.split(":")[0] for one in services().values() for mount in one.get("volumes", ())
    }

    own = {source for source in sources if source.startswith("./")}
    assert own
    assert not [source for source in own if not (ROOT / source).exists()]
    assert {source for source in sources if not source.startswith("./")} == set(
        composed()["volumes"]
    )


@pytest.mark.requirement("deploy.loopback")
def test_every_port_is_the_hosts_loopback_alone() -> None:
    ports = [port for one in services().values() for port in one.get("ports", ())]

    assert ports
    assert not [port for port in ports if not port.startswith("127.0.0.1:")]


@pytest.mark.requirement("deploy.least-privilege")
def test_nobody_has_capabilities_that_are_not_named_and_nobody_is_privileged() -> None:
    for name, service in services().items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not {"privileged", "network_mode", "pid", "devices"} & service.keys(), name
    assert {name for name, service in services().items() if "cap_add" in service} == {"postgres"}
    assert services()["flyball"]["read_only"] is True


@pytest.mark.requirement("deploy.admin-apart")
def test_agents_reach_the_sidecar_and_nothing_else() -> None:
    networks = composed()["networks"]
    joined = {name: set(service["networks"]) for name, service in services().items()}
    listen = load_config(ROOT / "deploy" / "container" / "flyball.toml").listen

    assert {name for name, own in joined.items() if "agents" in own} == {"flyball"}
    assert networks["agents"]["internal"] is True, "an agent must not find another way out"
    assert {name for name, own in joined.items() if "store" in own} == {
        "flyball",
        "migrate",
        "postgres",
    }
    assert networks["store"]["internal"] is True
    # The listener of the administrators is bound to a name that only their network has.
    host = listen.admin.rpartition(":")[0]
    aliases = {
        name: own.get("aliases", []) for name, own in services()["flyball"]["networks"].items()
    }
    assert [name for name, own in aliases.items() if host in own] == ["operations"]
    assert host in listen.allowed_hosts
    assert services()["flyball"]["environment"]["FLYBALL_HEALTH_URL"].startswith(
        f"http://{listen.admin}/"
    )


@pytest.mark.requirement("deploy.health")
def test_every_service_that_can_be_asked_is_asked_whether_it_is_healthy() -> None:
    without = {
        name for name, one in services().items() if not one.get("healthcheck", {}).get("test")
    }

    # One ends by itself; of the other's image only the collector itself could be run.
    assert without == {"migrate", "collector"}


@pytest.mark.requirement("deploy.secrets-by-file")
def test_every_secret_is_handed_over_in_a_file_and_none_stands_in_the_environment() -> None:
    used = {name for service in services().values() for name in service.get("secrets", ())}
    words = re.compile(r"PASSWORD|SECRET|TOKEN|KEY")

    assert used == set(composed()["secrets"])
    assert all(set(one) == {"file"} for one in composed()["secrets"].values())
    for service in services().values():
        for name, value in service.get("environment", {}).items():
            assert "@" not in value or ":" not in value.split("://")[1].split("@")[0], name
            if words.search(name):
                assert name.endswith("_FILE"), name
                assert value.removeprefix("/run/secrets/") in service["secrets"], name


def ran(folder: Path, *, docker: str | None) -> subprocess.CompletedProcess[str]:
    """Run a copy of the script beside a `docker` that only says what it was asked."""
    (folder / "deploy").mkdir(exist_ok=True)
    script = folder / "deploy" / "up.sh"
    script.write_text(UP.read_text(encoding="utf-8"), encoding="utf-8")
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    if docker is not None:
        (programs / "docker").write_text(f"#!/bin/sh\n{docker}\n", encoding="utf-8")
        (programs / "docker").chmod(0o755)
    path = f"{programs}:/usr/bin:/bin"
    return subprocess.run(
        ["/bin/sh", script, "--quiet-pull"],
        env={"PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.requirement("deploy.secrets-by-file")
def test_one_command_makes_the_secrets_once_and_starts_everything(tmp_path: Path) -> None:
    first = ran(tmp_path, docker=f'echo "$*" >> {tmp_path}/asked')
    secrets = tmp_path / "deploy" / "secrets"
    made = {path.name: path.read_text(encoding="utf-8") for path in secrets.iterdir()}
    second = ran(tmp_path, docker="exit 0")

    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    asked = (tmp_path / "asked").read_text(encoding="utf-8").splitlines()
    assert asked == [
        "compose version",
        "compose build",
        "compose run --rm migrate",
        "compose up --wait --quiet-pull",
    ]
    assert set(made) == {Path(one["file"]).name for one in composed()["secrets"].values()}
    assert all(re.fullmatch(r"[0-9a-f]{64}", secret) for secret in made.values())
    assert {path.name: path.read_text(encoding="utf-8") for path in secrets.iterdir()} == made
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o700
    shown = first.stdout + first.stderr
    assert not [secret for secret in made.values() if secret in shown]


def test_without_the_compose_plugin_the_command_says_what_to_install(tmp_path: Path) -> None:
    done = ran(tmp_path, docker="exit 1")

    assert done.returncode == 1
    assert "install Docker's compose plugin" in done.stderr


def test_the_secrets_are_kept_out_of_the_repository_and_of_the_image() -> None:
    assert "/deploy/secrets/" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    kept = [
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line.startswith("!")
    ]
    assert "deploy/container" in kept
    assert not {"deploy", "deploy/secrets", "."} & set(kept)
    assert os.access(UP, os.X_OK)


def provisioned() -> dict[str, Any]:
    return composed(
        ROOT / "deploy" / "grafana" / "provisioning" / "datasources" / "prometheus.yaml"
    )


def test_grafana_asks_the_prometheus_of_the_compose_file() -> None:
    (source,) = provisioned()["datasources"]
    dashboards = composed(
        ROOT / "deploy" / "grafana" / "provisioning" / "dashboards" / "flyball.yaml"
    )

    assert source["url"] == "http://prometheus:9090"
    folder = dashboards["providers"][0]["options"]["path"]
    assert any(
        mount.split(":")[1].startswith(f"{folder}/") for mount in services()["grafana"]["volumes"]
    )


def test_every_pipeline_of_the_collector_uses_what_is_declared_and_is_bounded() -> None:
    collector = composed(ROOT / "deploy" / "collector" / "collector.yaml")

    used = {"receivers": set(), "processors": set(), "exporters": set()}
    for pipeline in collector["service"]["pipelines"].values():
        for kind, names in used.items():
            names.update(pipeline[kind])
        assert pipeline["processors"][0] == "memory_limiter", "first, so that it can refuse"
    assert used == {kind: set(collector[kind]) for kind in used}
