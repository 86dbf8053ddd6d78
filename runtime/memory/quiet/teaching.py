"""Makes lessons of cases that repeat, and links what says the same."""

from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial

from governor.experience.kinds import ExperienceKind, Standing
from governor.experience.quiet import Lesson, Source, lessons_in, twins_in
from governor.experience.tokens import tokens_of
from governor.ids import NamespaceId, TaskClass, TenantId
from memory_store.store import Store
from runtime.memory.house.allowance import Allowance, Spent
from runtime.memory.quiet.drafts import Drafts, Keep, words_of
from runtime.memory.quiet.night import READ_TOKENS_MAX, IsIdle, Night, after
from tool_gateway.ports import Clock

_CASES_READ_MAX = 200
_TENANTS_AT_ONCE = 200


class Teaching:
    """Goes through the cases of each tenant whose memory has changed."""

    def __init__(
        self,
        store: Store,
        allowance: Allowance,
        *,
        keep: Keep,
        is_idle: IsIdle,
        clock: Clock,
    ) -> None:
        """Take the parts; `keep` writes a draft of the house's own."""
        self._store = store
        self._allowance = allowance
        self._keep = keep
        self._is_idle = is_idle
        self._drafts = Drafts(store.experiences, clock=clock)
        # Up to where the log of each tenant was gone through, so that nothing is done twice.
        self._heads: dict[TenantId, int] = {}

    async def work(self, night: Night) -> Night:
        """Return the round with the lessons and links that were made."""
        async for tenant in self._tenants():
            head = await self._store.questions.head(tenant)
            if self._heads.get(tenant) == head:
                continue
            if not self._is_idle():
                return replace(night, was_disturbed=True)
            linked = [0]
            do = partial(self._teach_tenant, tenant, linked)
            spent = await self._allowance.work(tenant, "teach", read_tokens=READ_TOKENS_MAX, do=do)
            lessons = 0 if spent is None else spent.made
            night = after(night, spent, lessons=lessons, linked=linked[0])
            if spent is not None:
                self._heads[tenant] = await self._store.questions.head(tenant)
        return night

    async def _tenants(self) -> AsyncIterator[TenantId]:
        cursor: str | None = None
        while True:
            page = await self._store.tenants.page(limit=_TENANTS_AT_ONCE, cursor=cursor)
            for one in page.items:
                yield one.tenant_id
            cursor = page.next
            if cursor is None:
                return

    async def _teach_tenant(self, tenant: TenantId, linked: list[int]) -> Spent:
        cases = await self._store.experiences.page(
            tenant=tenant,
            kind=ExperienceKind.CASE,
            standing=Standing.ACTIVE,
            limit=_CASES_READ_MAX,
        )
        sources = await self._drafts.texts(cases.items)
        read = sum(tokens_of(source.text) for source in sources)
        made = 0
        groups: dict[tuple[NamespaceId, TaskClass | None], list[Source]] = {}
        for source in sources:
            one = source.experience
            groups.setdefault((one.namespace, one.task_class), []).append(source)
        for (namespace, task_class), group in groups.items():
            words = [
                (source.experience.experience_id, words_of(source.text))
                for source in sorted(group, key=lambda each: each.experience.number)
            ]
            linked[0] += await self._store.links.tie(twins_in(words), tenant=tenant)
            for lesson in lessons_in(group, words_of=words_of):
                made += await self._keep_lesson(tenant, namespace, task_class, lesson)
        return Spent(read_tokens=read, made=made)

    async def _keep_lesson(
        self,
        tenant: TenantId,
        namespace: NamespaceId,
        task_class: TaskClass | None,
        lesson: Lesson,
    ) -> bool:
        draft = self._drafts.draft(tenant, namespace, lesson.made, kind=ExperienceKind.LESSON)
        lesson_draft = replace(draft, task_class=task_class, outcome=lesson.outcome)
        return await self._keep(lesson_draft, is_found=True)
