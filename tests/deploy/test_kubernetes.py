"""deploy/kubernetes: resolved, by Kubernetes' own schemas, and by what it promises."""

import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from deploy.composed import ROOT, schema
from deploy.kustomized import containers, resolved
from jsonschema import Draft202012Validator

from runtime.configuration.load import parse_config

KUBERNETES = ROOT / "deploy" / "kubernetes"
SECRETS = ("store-password", "tls.crt", "tls.key")


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the example with the secrets that its reader puts beside it."""
    folder = tmp_path_factory.mktemp("kubernetes")
    shutil.copytree(KUBERNETES, folder, dirs_exist_ok=True)
    (folder / "example" / "secrets").mkdir()
    for name in SECRETS:
        (folder / "example" / "secrets" / name).write_text("made-up\n", encoding="utf-8")
    return folder / "example"


@pytest.fixture(scope="module")
def documents(example: Path) -> list[dict[str, Any]]:
    pod = yaml.safe_load((KUBERNETES / "sidecar" / "pod.yaml").read_text(encoding="utf-8"))
    return [*resolved(example), pod]


def faults(document: dict[str, Any]) -> list[str]:
    known = schema("kubernetes-1.34.json")
    own = {"$ref": f"#/$defs/{known['kinds'][document['kind']]}", "$defs": known["$defs"]}
    errors = Draft202012Validator(own).iter_errors(document)
    return [f"{document['kind']} {error.json_path}: {error.message:.200}" for error in errors]


@pytest.mark.requirement("deploy.kubernetes-valid")
def test_every_object_is_what_kubernetes_allows(documents: list[dict[str, Any]]) -> None:
    found = [fault for document in documents for fault in faults(document)]

    assert not found, "\n".join(found)
    kinds = Counter(document["kind"] for document in documents)
    assert kinds["StatefulSet"] == 1
    assert kinds["NetworkPolicy"] == 2


def test_a_misspelt_key_is_found_by_the_schemas() -> None:
    wrong = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"contaners": []},
    }

    assert faults(wrong)


@pytest.mark.requirement("deploy.kubernetes-valid")
def test_kustomize_makes_the_same_objects(example: Path) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("this machine has no kubectl")
    done = subprocess.run(
        ["kubectl", "kustomize", str(example)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    made = list(yaml.safe_load_all(done.stdout))
    generated = {"ConfigMap", "Secret"}
    for document in made:
        if document["kind"] in generated:
            # Kustomize adds a hash of the content to the name.
            name, _, _ = document["metadata"]["name"].rpartition("-")
            document["metadata"]["name"] = name
    ours = resolved(example)
    assert {named(one): one["kind"] for one in made} == {named(one): one["kind"] for one in ours}
    assert sorted(one["image"] for one in containers(made)) == sorted(
        one["image"] for one in containers(ours)
    )


def named(document: dict[str, Any]) -> tuple[str, str]:
    return document["kind"], document["metadata"]["name"]


@pytest.mark.requirement("deploy.least-privilege")
def test_no_container_may_more_than_it_needs(documents: list[dict[str, Any]]) -> None:
    for one in containers(documents):
        confined = one["securityContext"]
        assert confined["capabilities"] == {"drop": ["ALL"]}, one["name"]
        assert confined["allowPrivilegeEscalation"] is False, one["name"]
        assert confined["readOnlyRootFilesystem"] is True, one["name"]
    for document in documents:
        spec = document.get("spec", {})
        spec = spec.get("template", {}).get("spec", spec)
        if "containers" in spec:
            assert spec["securityContext"]["runAsNonRoot"] is True
            assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
            assert spec["automountServiceAccountToken"] is False


@pytest.mark.requirement("deploy.secrets-by-file")
def test_secrets_are_mounted_and_never_variables(documents: list[dict[str, Any]]) -> None:
    for one in containers(documents):
        for variable in one.get("env", ()):
            assert "secretKeyRef" not in variable.get("valueFrom", {}), variable["name"]
        assert not one.get("envFrom")


def test_what_a_container_mounts_is_there(documents: list[dict[str, Any]]) -> None:
    for document in documents:
        spec = document.get("spec", {})
        claims = {one["metadata"]["name"] for one in spec.get("volumeClaimTemplates", ())}
        spec = spec.get("template", {}).get("spec", spec)
        volumes = claims | {volume["name"] for volume in spec.get("volumes", ())}
        for one in (*spec.get("initContainers", ()), *spec.get("containers", ())):
            assert {mount["name"] for mount in one.get("volumeMounts", ())} <= volumes


@pytest.mark.requirement("deploy.admin-apart")
def test_agents_and_administrators_have_a_service_and_a_policy_each(
    documents: list[dict[str, Any]],
) -> None:
    by_name = {named(document): document for document in documents}
    config = parse_config(
        (KUBERNETES / "base" / "flyball.toml").read_text(encoding="utf-8"), source="base"
    )

    for service, port in (("flyball", "agents"), ("flyball-admin", "admin")):
        ports = by_name["Service", service]["spec"]["ports"]
        assert [one["targetPort"] for one in ports] == [port]
        # Both are reached over the network: by TLS, under a name that is served.
        assert service in config.listen.allowed_hosts
    assert config.listen.tls_cert is not None
    allowed = {
        name: [one["port"] for rule in document["spec"]["ingress"] for one in rule["ports"]]
        for (kind, name), document in by_name.items()
        if kind == "NetworkPolicy"
    }
    assert allowed == {"flyball-agents": ["agents"], "flyball-administrators": ["admin"]}


@pytest.mark.requirement("deploy.health")
def test_probes_ask_by_a_name_that_is_served(documents: list[dict[str, Any]]) -> None:
    (replicas,) = [one for one in documents if one["kind"] == "StatefulSet"]
    (container,) = replicas["spec"]["template"]["spec"]["containers"]

    asked = {}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        question = container[probe]["httpGet"]
        assert question["scheme"] == "HTTPS"
        assert question["httpHeaders"] == [{"name": "Host", "value": "flyball-admin"}]
        asked[probe] = question["path"]
    # One that is not ready gets no calls; only one that does not answer is started again.
    assert asked == {
        "startupProbe": "/readyz",
        "readinessProbe": "/readyz",
        "livenessProbe": "/healthz",
    }


def test_the_agent_beside_a_sidecar_is_given_its_own_token_alone(
    documents: list[dict[str, Any]],
) -> None:
    (pod,) = [one for one in documents if one["kind"] == "Pod"]
    sidecar, token = pod["spec"]["initContainers"]
    (agent,) = pod["spec"]["containers"]

    assert sidecar["restartPolicy"] == "Always"
    assert token["command"][-2] == "/var/lib/flyball/agent.token"
    assert {mount["name"] for mount in agent["volumeMounts"]} == {"token"}
    assert {mount["name"] for mount in token["volumeMounts"]} == {"state", "token"}
