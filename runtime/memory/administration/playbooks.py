"""What administrators do with playbooks: they look, go back, and take bullets over."""

from governor.experience.playbook import promoting
from governor.ids import TenantId
from memory_store.audit import Actor
from memory_store.errors import NotFoundError
from memory_store.lessons.playbooks import KeptPlaybook, PlaybookBook, PlaybookVersion, PlaybookView


class PlaybookShelf:
    """The playbooks of every tenant, each by its id."""

    def __init__(self, book: PlaybookBook) -> None:
        """Take where they are kept."""
        self._book = book

    async def all(self, tenant: TenantId) -> tuple[PlaybookView, ...]:
        """Return the playbooks of a tenant, the one that changed last first."""
        return await self._book.all(tenant)

    async def show(self, tenant: TenantId, playbook: str) -> KeptPlaybook:
        """Return a playbook.

        Raises:
            NotFoundError: the tenant has none of that id.
        """
        for one in await self._book.all(tenant):
            if one.playbook_id == playbook:
                return await self._book.get(tenant, one.namespace, one.task_class)
        message = f"there is no playbook {playbook}"
        raise NotFoundError(message)

    async def history(self, tenant: TenantId, playbook: str) -> tuple[PlaybookVersion, ...]:
        """Return its versions, the latest first.

        Raises:
            NotFoundError: the tenant has none of that id.
        """
        kept = await self.show(tenant, playbook)
        return await self._book.history(tenant, kept.namespace, kept.task_class)

    async def roll_back(
        self, tenant: TenantId, playbook: str, version: int, *, by: Actor, now_ms: int
    ) -> KeptPlaybook:
        """Return it as it was in a version, which is a version of its own.

        Raises:
            NotFoundError: there is no such one, or no such version to go back to.
            VersionConflictError: it changed meanwhile.
        """
        kept = await self.show(tenant, playbook)
        return await self._book.rollback(
            tenant=tenant,
            namespace=kept.namespace,
            task_class=kept.task_class,
            to_version=version,
            expected=kept.version,
            by=by,
            now_ms=now_ms,
        )

    async def promote(
        self, tenant: TenantId, playbook: str, bullet: str, *, by: Actor, now_ms: int
    ) -> KeptPlaybook:
        """Return it with a bullet taken over as an operator's word, which instructs.

        Raises:
            NotFoundError: there is no such playbook, or no such bullet in it.
        """
        kept = await self.show(tenant, playbook)
        found = kept.playbook.bullets.get(bullet)
        if found is None or not found.is_shown:
            message = f"there is no bullet {bullet} in this playbook"
            raise NotFoundError(message)
        await self._book.merge(
            promoting(found, at_ms=now_ms, by=f"admin:{by.name}"),
            tenant=tenant,
            namespace=kept.namespace,
            task_class=kept.task_class,
            now_ms=now_ms,
        )
        return await self.show(tenant, playbook)
