"""What `kustomize build` makes of a folder, as far as ours use it: one small, strict reader."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

KNOWN = {
    *("apiVersion", "kind", "namespace", "resources"),
    *("configMapGenerator", "secretGenerator", "images"),
}
Document = dict[str, Any]


def resolved(folder: Path) -> list[Document]:
    """Return every object that a folder stands for; what this does not know is an error."""
    order = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))
    assert order["kind"] == "Kustomization"
    unknown = set(order) - KNOWN
    assert not unknown, f"{folder}: {unknown} is not resolved here"
    documents = [*_resources(folder, order), *_generated(folder, order)]
    for image in order.get("images", ()):
        for container in containers(documents):
            if container["image"].partition(":")[0] == image["name"]:
                container["image"] = f"{image.get('newName', image['name'])}:{image['newTag']}"
    for document in documents:
        if "namespace" in order:
            document["metadata"]["namespace"] = order["namespace"]
    return documents


def containers(documents: list[Document]) -> Iterator[Document]:
    """Yield every container of every pod, those that prepare it too."""
    for document in documents:
        spec = document.get("spec", {})
        spec = spec.get("template", {}).get("spec", spec)
        yield from spec.get("initContainers", ())
        yield from spec.get("containers", ())


def _resources(folder: Path, order: Document) -> Iterator[Document]:
    for name in order.get("resources", ()):
        path = folder / name
        if path.is_dir():
            yield from resolved(path)
        else:
            yield from yaml.safe_load_all(path.read_text(encoding="utf-8"))


def _generated(folder: Path, order: Document) -> Iterator[Document]:
    for kind, entries in (
        ("ConfigMap", order.get("configMapGenerator", ())),
        ("Secret", order.get("secretGenerator", ())),
    ):
        for entry in entries:
            content = dict(literal.split("=", 1) for literal in entry.get("literals", ()))
            for named in entry.get("files", ()):
                key, _, file = named.rpartition("=")
                content[key or Path(file).name] = (folder / file).read_text(encoding="utf-8")
            if kind == "Secret":
                coded = base64.b64encode
                content = {key: coded(text.encode()).decode() for key, text in content.items()}
            document = {
                "apiVersion": "v1",
                "kind": kind,
                "metadata": {"name": entry["name"]},
                "data": content,
            }
            yield document | ({"type": entry["type"]} if "type" in entry else {})
