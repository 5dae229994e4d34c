"""Ceilings of what is stored for a tenant: partitions, versions of schemas. 0 means no limit, and then nothing is counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

from messaging.background import shared
from messaging.broker.core.control.effective_policies import EffectivePolicies
from messaging.broker.core.limits.limit_counts import StoredCounts
from messaging.clock import boottime_ms
from messaging.errors import Conflict, NotReady, PreconditionFailed
from messaging.protocol.names import TopicName
from messaging.storage.meta_store import MetaConflict, MetaStore

COUNTS_MAX = 5  # of one request
RAISE_IT = "or have an administrator of the platform raise it"

ReadCounts = Callable[[str], Awaitable[Mapping[str, int]]]  # a tenant's, by namespace


_counting: WeakKeyDictionary[StoredCounts, dict[str, asyncio.Task[None]]] = WeakKeyDictionary()


async def count_stored(counts: StoredCounts, tenant: str, read: ReadCounts, things: str) -> None:
    """`counts` knows `tenant` afterwards. Callers at the same time share one count. Raises `NotReady` where things are made in ways
    that are not counted all the time."""
    tasks = _counting.setdefault(counts, {})
    counting = tasks.get(tenant)
    if counting is None:
        counting = tasks[tenant] = shared(asyncio.get_running_loop().create_task(_count(counts, tenant, read, things)))
        counting.add_done_callback(lambda _: tasks.pop(tenant))
    await asyncio.shield(counting)


async def _count(counts: StoredCounts, tenant: str, read: ReadCounts, things: str) -> None:
    for _ in range(COUNTS_MAX):
        counting = counts.begin(tenant)
        try:
            counts.learn(tenant, counting, await read(tenant), boottime_ms())
        finally:
            counts.end(tenant, counting)
        if counts.knows(tenant) and not counting.heard:
            return
    if counts.knows(tenant):
        return  # others make some all the time
    raise NotReady(f"the {things} of tenant {tenant} change too fast to be counted: try again")


@asynccontextmanager
async def reserved(counts: StoredCounts, tenant: str, namespace: str, count: int) -> AsyncIterator[None]:
    """So many are made in the `with` block. One that is interrupted may have made some: then the next one counts anew."""
    counts.reserve(tenant, namespace, count)
    try:
        yield
    except (Conflict, MetaConflict):
        counts.release(tenant, namespace, count, made=False)
        raise
    except BaseException:
        counts.release(tenant, namespace, count, made=False)
        counts.made_elsewhere(tenant)
        raise
    else:
        counts.release(tenant, namespace, count, made=True)


class StoredCeiling:
    """The ceiling `policy` of how many `things` a tenant may have stored."""

    def __init__(self, policies: EffectivePolicies, policy: str, things: str, remedy: str, read: ReadCounts) -> None:
        self.counts = StoredCounts()
        self._policies = policies
        self._policy = policy
        self._things = things
        self._remedy = remedy
        self._read = read

    @asynccontextmanager
    async def room(self, name: TopicName, count: int = 1) -> AsyncIterator[None]:
        """`count` more are made in the `with` block. Raises `PreconditionFailed` if those are too many; `Conflict` and
        `MetaConflict` raised in it say that none was made."""
        limit, level = self._policies.resolved(self._policy, name)
        counts, tenant = self.counts, name.tenant

        def is_full() -> bool:
            return bool(counts.of(tenant) + count > limit)

        if limit and count:
            if counts.is_to_be_counted(tenant, boottime_ms(), full=counts.knows(tenant) and is_full()):
                await count_stored(counts, tenant, self._read, self._things)
            if is_full():
                raise PreconditionFailed(
                    f"tenant {tenant} has {counts.of(tenant)} {self._things}; {count} more would exceed {self._policy} = {limit}, "
                    f"set on the {level}: {self._remedy}, {RAISE_IT}"
                )
        async with reserved(counts, tenant, str(name.namespace), count):
            yield


class TenantCeilings:
    """Those of one broker."""

    def __init__(self, policies: EffectivePolicies, meta: MetaStore) -> None:
        self.partitions = StoredCeiling(
            policies, "max_partitions_per_tenant", "partitions", "delete unused partitioned topics", meta.count_partitions
        )
        self.schemas = StoredCeiling(
            policies, "max_schemas_per_tenant", "versions of schemas", "delete unused schemas with force", meta.count_schemas
        )
