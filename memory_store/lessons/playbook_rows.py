"""Playbooks as rows: what a delta says and the bullets that older ones came to, as JSON."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from governor.experience.kinds import TrustLane
from governor.experience.playbook import Bullet, Delta, DeltaKind, Playbook
from governor.ids import ExperienceId, NamespaceId, TaskClass, TenantId

_ID_BYTES = 12


def playbook_id_of(tenant: TenantId, namespace: NamespaceId, task_class: TaskClass) -> str:
    """Return the id of the playbook of a class of tasks in a namespace."""
    digest = hashlib.blake2b(digest_size=_ID_BYTES)
    for part in (tenant, namespace, task_class):
        encoded = part.encode(errors="surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big"))
        digest.update(encoded)
    return f"plb_{digest.hexdigest()}"


def delta_row(playbook_id: str, version: int, delta: Delta) -> dict[str, object]:
    """Return the row of a delta."""
    content = {
        "section": delta.section,
        "text": delta.text,
        "lane": delta.lane.value,
        "sources": list(delta.sources),
        "other": delta.other,
        "why": delta.why,
    }
    return {
        "playbook_id": playbook_id,
        "delta_id": delta.delta_id,
        "version": version,
        "undone_in": None,
        "kind": delta.kind.value,
        "bullet": delta.bullet,
        "content": json.dumps(content),
        "written_by": delta.by,
        "at_ms": delta.at_ms,
    }


def delta_of(row: Any) -> Delta:
    """Return the delta of a row."""
    content = json.loads(row.content)
    return Delta(
        delta_id=row.delta_id,
        kind=DeltaKind(row.kind),
        bullet=row.bullet,
        at_ms=row.at_ms,
        by=row.written_by,
        section=content["section"],
        text=content["text"],
        lane=TrustLane(content["lane"]),
        sources=tuple(ExperienceId(one) for one in content["sources"]),
        other=content["other"],
        why=content["why"],
    )


def without_text(content: str) -> str:
    """Return what a delta says without its words and sources, as after these were erased."""
    kept = json.loads(content)
    return json.dumps({**kept, "section": "", "text": "", "sources": [], "why": ""})


def bullets_text(bullets: Mapping[str, Bullet]) -> str:
    """Return bullets as text."""
    return json.dumps([_bullet_json(one) for _, one in sorted(bullets.items())])


def playbook_from(text: str) -> Playbook:
    """Return the playbook that a text of bullets is; which deltas are in it, it does not say."""
    bullets = [_bullet(one) for one in json.loads(text)]
    return Playbook(bullets={one.bullet: one for one in bullets})


def erased_from(text: str, bullets: Iterable[str]) -> str:
    """Return a text of bullets without some of them."""
    gone = set(bullets)
    return json.dumps([one for one in json.loads(text) if one["bullet"] not in gone])


def _bullet_json(one: Bullet) -> dict[str, object]:
    return {
        "bullet": one.bullet,
        "section": one.section,
        "text": one.text,
        "lane": one.lane.value,
        "helpful": one.helpful,
        "harmful": one.harmful,
        "added_at_ms": one.added_at_ms,
        "sources": sorted(one.sources),
        "links": sorted(one.links),
        "writers": sorted(one.writers),
        "against": sorted(one.against),
        "is_retired": one.is_retired,
    }


def _bullet(found: Any) -> Bullet:
    return Bullet(
        bullet=found["bullet"],
        section=found["section"],
        text=found["text"],
        lane=TrustLane(found["lane"]),
        helpful=found["helpful"],
        harmful=found["harmful"],
        added_at_ms=found["added_at_ms"],
        sources=frozenset(ExperienceId(one) for one in found["sources"]),
        links=frozenset(found["links"]),
        writers=frozenset(found["writers"]),
        against=frozenset(found["against"]),
        is_retired=found["is_retired"],
    )
