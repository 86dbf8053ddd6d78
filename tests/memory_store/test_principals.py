import re
from pathlib import Path

import anyio
import pytest
from contracts.builders import AGENT, TENANT

from governor.ids import PrincipalId, TenantId
from memory_store.audit import Actor
from memory_store.engine import Durability
from memory_store.errors import (
    AlreadyExistsError,
    NotFoundError,
    TokenEndedError,
    VersionConflictError,
)
from memory_store.identities import Identities, Identity, Proof, Role
from memory_store.store import Store, open_store
from memory_store.tokens import IssuedToken

pytestmark = pytest.mark.anyio

ADMIN = Actor(name="root")


async def _issue(store: Store, *, expires_at_ms: int | None = None) -> IssuedToken:
    return await store.principals.issue_token(
        AGENT, expires_at_ms=expires_at_ms, by=ADMIN, now_ms=10
    )


def _everything_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_a_secret_stands_for_its_principal(store: Store) -> None:
    token = await _issue(store)

    identity = await store.principals.authenticate(token.secret, now_ms=20)

    assert identity == Identity(
        tenant=TENANT, principal=AGENT, name="Ada", role=Role.AGENT, token_id=token.token_id
    )
    assert await store.principals.authenticate(token.secret, now_ms=21) == identity


async def test_a_secret_holds_256_random_bits_and_is_kept_out_of_repr(store: Store) -> None:
    token = await _issue(store)

    assert re.fullmatch(r"fbt_[A-Za-z0-9_-]{43}", token.secret)
    assert token.secret not in repr(token)


async def test_a_secret_is_nowhere_at_rest(state_dir: Path) -> None:
    async with open_store(state_dir, durability=Durability.PROCESS) as store:
        await store.tenants.create(TENANT, name="Acme", by=ADMIN, now_ms=1)
        await store.principals.create(
            AGENT, tenant=TENANT, name="Ada", role=Role.AGENT, by=ADMIN, now_ms=1
        )
        token = await _issue(store)
        stored = _everything_in(state_dir)

    assert token.token_id.encode() in stored
    assert token.secret.encode() not in stored
    assert token.secret.removeprefix("fbt_")[:20].encode() not in stored


@pytest.mark.parametrize("secret", ["", "fbt_", "fbt_unknown", "\0", "é" * 1_000, "\ud800"])
async def test_an_unknown_secret_stands_for_nobody(store: Store, secret: str) -> None:
    await _issue(store)

    assert await store.principals.authenticate(secret, now_ms=20) is None


async def test_a_token_ends_at_its_time(store: Store) -> None:
    token = await _issue(store, expires_at_ms=100)

    assert await store.principals.authenticate(token.secret, now_ms=99) is not None
    assert await store.principals.authenticate(token.secret, now_ms=100) is None


async def test_a_revoked_token_ends_at_once(store: Store) -> None:
    token = await _issue(store)
    await store.principals.authenticate(token.secret, now_ms=20)

    await store.principals.revoke_token(token.token_id, by=ADMIN, now_ms=30)

    assert await store.principals.authenticate(token.secret, now_ms=30) is None


async def test_a_rotated_token_is_replaced(store: Store) -> None:
    old = await _issue(store)
    await store.principals.authenticate(old.secret, now_ms=20)

    new = await store.principals.rotate_token(old.token_id, expires_at_ms=None, by=ADMIN, now_ms=30)

    assert await store.principals.authenticate(old.secret, now_ms=30) is None
    identity = await store.principals.authenticate(new.secret, now_ms=30)
    assert identity is not None
    assert identity.principal == AGENT


async def test_a_disabled_principal_is_nobody_until_enabled(store: Store) -> None:
    token = await _issue(store)
    await store.principals.authenticate(token.secret, now_ms=20)

    await store.principals.disable(AGENT, by=ADMIN, now_ms=30)
    while_disabled = await store.principals.authenticate(token.secret, now_ms=30)
    await store.principals.put(
        AGENT, name="Ada", role=Role.AGENT, expected_version=2, by=ADMIN, now_ms=40
    )

    assert while_disabled is None
    assert await store.principals.authenticate(token.secret, now_ms=40) is not None


async def test_the_principals_of_a_disabled_tenant_are_nobody(store: Store) -> None:
    token = await _issue(store)
    await store.principals.authenticate(token.secret, now_ms=20)

    await store.tenants.disable(TENANT, by=ADMIN, now_ms=30)

    assert await store.principals.authenticate(token.secret, now_ms=30) is None


async def test_a_token_stays_revoked_when_the_one_who_revoked_it_has_gone(store: Store) -> None:
    token = await _issue(store)
    await store.principals.authenticate(token.secret, now_ms=20)

    async with anyio.create_task_group() as group:

        async def revoke() -> None:
            await store.principals.revoke_token(token.token_id, by=ADMIN, now_ms=30)

        group.start_soon(revoke)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    await store.check()

    assert await store.principals.authenticate(token.secret, now_ms=30) is None


def test_what_was_read_before_a_change_is_not_remembered_after_it() -> None:
    identities = Identities()
    identity = Identity(
        tenant=TENANT, principal=AGENT, name="Ada", role=Role.AGENT, token_id="tok_1"
    )
    epoch = identities.epoch

    identities.forget_all()
    proof = Proof(identity=identity, expires_at_ms=None)
    identities.remember("hash", proof, epoch=epoch, asked_at_ms=1)

    assert identities.get("hash", now_ms=1) is None


async def test_tokens_are_listed_without_their_secrets(store: Store) -> None:
    token = await _issue(store, expires_at_ms=100)

    (listed,) = (await store.principals.list_tokens(AGENT)).items

    assert (listed.token_id, listed.last_four) == (token.token_id, token.secret[-4:])
    assert (listed.created_at_ms, listed.expires_at_ms) == (10, 100)
    assert token.secret not in repr(listed)


async def test_an_id_is_not_given_twice(store: Store) -> None:
    with pytest.raises(AlreadyExistsError):
        await store.tenants.create(TENANT, name="Again", by=ADMIN, now_ms=2)
    with pytest.raises(AlreadyExistsError):
        await store.principals.create(
            AGENT, tenant=TENANT, name="Again", role=Role.ADMIN, by=ADMIN, now_ms=2
        )

    assert (await store.principals.get(AGENT)).role is Role.AGENT


async def test_a_principal_needs_its_tenant(store: Store) -> None:
    with pytest.raises(NotFoundError):
        await store.principals.create(
            PrincipalId("eve"),
            tenant=TenantId("none"),
            name="Eve",
            role=Role.AGENT,
            by=ADMIN,
            now_ms=2,
        )


async def test_a_change_for_an_older_version_is_refused(store: Store) -> None:
    await store.tenants.put(TENANT, name="One", expected_version=1, by=ADMIN, now_ms=2)

    with pytest.raises(VersionConflictError) as conflict:
        await store.tenants.put(TENANT, name="Two", expected_version=1, by=ADMIN, now_ms=3)

    assert (conflict.value.expected, conflict.value.actual) == (1, 2)
    assert (await store.tenants.get(TENANT)).name == "One"


async def test_tokens_are_listed_page_by_page_whatever_their_number(store: Store) -> None:
    issued = [(await _issue(store)).token_id for _ in range(5)]

    found: list[str] = []
    cursor = None
    for _ in range(3):
        page = await store.principals.list_tokens(AGENT, cursor=cursor, limit=2)
        found += [view.token_id for view in page.items]
        cursor = page.next

    assert cursor is None
    assert sorted(found) == sorted(issued)


@pytest.mark.parametrize("way", ["revoked", "expired"])
async def test_what_is_accepted_no_more_cannot_be_rotated(store: Store, way: str) -> None:
    token = await _issue(store, expires_at_ms=100)
    if way == "revoked":
        await store.principals.revoke_token(token.token_id, by=ADMIN, now_ms=20)

    with pytest.raises(TokenEndedError):
        await store.principals.rotate_token(
            token.token_id, expires_at_ms=None, by=ADMIN, now_ms=50 if way == "revoked" else 100
        )

    assert len((await store.principals.list_tokens(AGENT)).items) == 1
