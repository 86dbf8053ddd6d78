"""What is held in memory and what the rows say: both let the same experiences be found."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from governor.experience.experience import Experience, Provenance
from governor.experience.kinds import ExperienceKind, Standing, TrustLane
from governor.experience.search import Filters, Search
from governor.ids import ExperienceId, NamespaceId, PrincipalId, SessionId, TaskClass, TenantId
from memory_store.search.columns import Columns, Traced

TENANT, NAMESPACE, NOW_MS = TenantId("acme"), NamespaceId("ns"), 5
NAMES = st.sampled_from(["", "a", "b", "c"])
TIMES = st.integers(0, 9)
ENDS = st.none() | TIMES
TAGS = st.lists(st.sampled_from("xyz"), max_size=3, unique=True).map(tuple)

TRACED = st.builds(
    dict,
    kind=st.sampled_from(ExperienceKind),
    lane=st.sampled_from(TrustLane),
    standing=st.sampled_from([Standing.ACTIVE] * 3 + list(Standing)),
    actor=NAMES,
    session=NAMES,
    task_class=NAMES,
    tags=TAGS,
    learned_at_ms=TIMES,
    valid_from_ms=TIMES,
    valid_until_ms=ENDS,
    stated_until_ms=ENDS,
    superseded_at_ms=ENDS,
    expires_at_ms=ENDS,
)
FILTERS = st.builds(
    Filters,
    lanes=st.lists(st.sampled_from(TrustLane), max_size=4, unique=True).map(tuple),
    kinds=st.lists(st.sampled_from(ExperienceKind), max_size=3, unique=True).map(tuple),
    actors=st.lists(st.sampled_from("abq"), max_size=2, unique=True).map(tuple),
    session=st.none() | st.sampled_from("aq").map(SessionId),
    task_class=st.none() | st.sampled_from("aq").map(TaskClass),
    tags=TAGS,
    at_ms=ENDS,
    learned_from_ms=ENDS,
    learned_before_ms=ENDS,
)


def _experience(number: int, fields: dict[str, Any]) -> Experience:
    return Experience(
        experience_id=ExperienceId(str(number)),
        number=number,
        tenant=TENANT,
        namespace=NAMESPACE,
        address="",
        size_bytes=0,
        tokens=0,
        media_type="",
        summary="",
        provenance=Provenance(writer=PrincipalId("ada")),
        cost_microusd=None,
        outcome=None,
        supersedes=None,
        superseded_by=None,
        signature="",
        **{
            **fields,
            "session": fields["session"] or None,
            "task_class": fields["task_class"] or None,
        },
    )


@given(rows=st.lists(TRACED, max_size=12), filters=FILTERS)
def test_what_memory_lets_be_found_is_what_the_rows_let(
    rows: list[dict[str, Any]], filters: Filters
) -> None:
    columns = Columns()
    columns.add([Traced(number=number, **row) for number, row in enumerate(rows, 1)])
    search = Search(tenant=TENANT, namespaces=(NAMESPACE,), text="", now_ms=NOW_MS, filters=filters)

    held = columns.mask(filters, now_ms=NOW_MS).tolist()

    assert held == [search.finds(_experience(number, row)) for number, row in enumerate(rows, 1)]


def test_another_tenant_or_namespace_is_none_that_a_search_finds() -> None:
    fields = {
        "kind": ExperienceKind.FACT,
        "lane": TrustLane.USER,
        "standing": Standing.ACTIVE,
        "actor": "",
        "session": "",
        "task_class": "",
        "tags": (),
        "learned_at_ms": 1,
        "valid_from_ms": 1,
        "valid_until_ms": None,
        "stated_until_ms": None,
        "superseded_at_ms": None,
        "expires_at_ms": None,
    }
    experience = _experience(1, fields)

    def finds(tenant: str, namespace: str) -> bool:
        places = (NamespaceId(namespace),)
        search = Search(tenant=TenantId(tenant), namespaces=places, text="", now_ms=NOW_MS)
        return search.finds(experience)

    assert finds("acme", "ns")
    assert not finds("acme", "other")
    assert not finds("other", "ns")


def test_neighbours_are_those_of_the_session_in_order() -> None:
    fields = {
        "kind": ExperienceKind.FACT,
        "lane": TrustLane.USER,
        "standing": Standing.ACTIVE,
        "actor": "",
        "task_class": "",
        "tags": (),
        "learned_at_ms": 1,
        "valid_from_ms": 1,
        "valid_until_ms": None,
        "stated_until_ms": None,
        "superseded_at_ms": None,
        "expires_at_ms": None,
    }
    columns = Columns()
    sessions = ["s", "t", "s", "", "s", "s", "t", ""]
    columns.add(
        [Traced(number=10 + at, session=name, **fields) for at, name in enumerate(sessions)]
    )

    assert columns.with_neighbours(np.array([2]), steps=1).tolist() == [0, 2, 4]
    assert columns.with_neighbours(np.array([2, 6]), steps=2).tolist() == [0, 1, 2, 4, 5, 6]
    assert columns.with_neighbours(np.array([3]), steps=2).tolist() == [3]
    assert columns.places_of(np.array([17, 9, 12])).tolist() == [7, 2]
