"""Which changes of the control plane may take a live page away from its reader, noticed within half a second.

Everything that changes a right leaves a record in the audit log, in the order in which it was committed, whichever process did it.
So one query of this process, twice a second while anybody watches, says who has to be looked at again. Everything here runs on one
event loop; only `Records` blocks, in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import NamedTuple

import structlog

from messaging.permissions.model import USER_ROLE_PREFIX
from tenants.models import AuditRecord
from tenants.scoping import platform_scope

INTERVAL_S = 0.5
RECORDS_MAX = 500  # of one look; where there are more, everybody is looked at again
# What many records are about, and what takes nothing away from anybody. By the first part of an action's name.
_HARMLESS = frozenset({"broker", "delayed", "denied", "message", "redrive", "subscription", "topic", "view"})
log = structlog.get_logger(__name__)


class Change(NamedTuple):
    """A record. `tenant` is "" for one of the platform; `role` did it, to `resource`."""

    sequence: int
    action: str
    tenant: str
    role: str
    resource: str

    def concerns(self, tenant: str, role: str) -> bool:
        """Whether it may have changed what `role` may do in `tenant`."""
        kind = self.action.partition(".")[0]
        if kind in _HARMLESS:
            return False
        if kind == "session":  # people sign in and out all the time: of a session only whose it is
            return self.role == role or role.removeprefix(USER_ROLE_PREFIX) in self.resource
        return self.tenant in ("", tenant)


Records = Callable[[int], Awaitable[list[Change]]]


def records_after(sequence: int) -> list[Change]:
    """The next ones, at most `RECORDS_MAX`; of -1 the newest alone. Blocks."""
    with platform_scope():
        rows = AuditRecord.objects.order_by("id") if sequence >= 0 else AuditRecord.objects.order_by("-id")
        rows = rows.filter(id__gt=sequence)[: RECORDS_MAX if sequence >= 0 else 1]
        return [Change(*row) for row in rows.values_list("id", "action", "tenant", "role", "resource")]


class Reader:
    """Of a live page: `changed` is set when its rights are to be looked at again. Whoever looks clears it before."""

    def __init__(self, tenant: str, role: str) -> None:
        self.tenant, self.role = tenant, role
        self.changed = asyncio.Event()


class RightsWatch:
    """Of one event loop. It asks for records from the first reader's entry to the last one's exit."""

    def __init__(self, records: Records, interval_s: float = INTERVAL_S) -> None:
        self._records = records
        self._interval_s = interval_s
        self._readers: set[Reader] = set()
        self._looked_to = -1
        self._beginning = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def reading(self, tenant: str, role: str) -> AsyncIterator[Reader]:
        """Nothing that is committed after it was entered is missed: check the rights after that."""
        reader = Reader(tenant, role)
        async with self._beginning:
            if self._task is None:
                self._looked_to = _last(await self._records(-1), 0)
                self._task = asyncio.create_task(self._run(), name="watch rights")
            self._readers.add(reader)
        try:
            yield reader
        finally:
            self._readers.discard(reader)
            if not self._readers and self._task is not None:
                self._task.cancel()
                self._task = None

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                changes = await self._records(self._looked_to)
            except Exception:  # the database is away: it is asked again, and readers look by themselves from time to time
                log.warning("rights_not_looked_at", exc_info=True)
                continue
            self._looked_to = _last(changes, self._looked_to)
            self._tell(changes)

    def _tell(self, changes: list[Change]) -> None:
        everybody = len(changes) >= RECORDS_MAX
        for reader in self._readers:
            if everybody or any(change.concerns(reader.tenant, reader.role) for change in changes):
                reader.changed.set()


def _last(changes: Iterable[Change], before: int) -> int:
    return max((change.sequence for change in changes), default=before)
