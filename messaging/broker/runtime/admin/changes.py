"""Admin RPC: long changes. Each is a job of its own, which goes on whoever waits for it; the same change is begun only once.

A job is forgotten when the broker stops. What it deletes, or adds, of a partitioned topic is finished at the next start
(`topics/partitions/partitions.py`); all others are finished by asking for them again.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import msgspec

from messaging.adminrpc.base import Answer, Method, Request
from messaging.adminrpc.changes import ChangeProgress, ChangeRef, ChangesList, ChangesUnderWay
from messaging.adminrpc.methods import CHANGES_LIST, CHANGES_OUTCOME
from messaging.background import ONE_OFF
from messaging.broker.runtime.admin.binding import Handler, answers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.turn_slices import Progress, counted_for
from messaging.errors import MagnetarError, NotReady, UnderWay
from messaging.fairness.turns import FairTurns
from messaging.protocol.names import parse_namespace, parse_topic

ANSWER_S = 2.0  # a change that takes longer is said to be under way
AT_ONCE, WAITING_MAX = 32, 1_000  # changes, in turns by tenant
ENDED_MAX, ENDED_PER_TENANT_MAX = 1_000, 20  # long ones whose outcome is kept, the newest
CHANGE_BYTES = 2_000  # of memory; that of an answer is about what it has in JSON, times `OBJECTS`
OBJECTS = 4


class OutcomeUnknown(NotReady):
    """This broker does not know of such a change."""

    def __init__(self, why: str) -> None:
        super().__init__(why)


Asked = tuple[str, bytes, bool]  # the method, the request, whether another broker asks


class Change:
    """It ends with an answer or an error. `is_part`: it is what another broker asks for, of a change of its own."""

    def __init__(self, method: str, tenant: str, resource: str, started_ms: int, *, is_part: bool) -> None:
        self.id = uuid.uuid4().hex
        self.is_part = is_part
        self.method, self.tenant, self.resource = method, tenant, resource
        self.started_ms = started_ms
        self.ended_ms: int | None = None
        self.progress: Progress | None = None  # None: it waits for its turn
        self.task: asyncio.Task[None] | None = None
        self.answer: Answer | None = None
        self.error: Exception | None = None
        self.told = False  # somebody was told that it goes on, and may ask for its outcome
        self.size_bytes = CHANGE_BYTES

    def outcome(self) -> Answer:
        """Raises what the change raised, and `UnderWay`."""
        if self.error is not None:
            raise self.error
        if self.answer is not None:
            return self.answer
        self.told = True
        shown = self.shown()
        raise UnderWay(
            f"{self.method} of {self.resource} goes on, {shown.done} of {shown.partitions} partitions are done: "
            f"its progress is at /api/v1/tenants/{self.tenant}/jobs/change-{self.id}"
        ).of(self.id)

    def shown(self) -> ChangeProgress:
        progress = self.progress or Progress()
        ended = "failed" if self.error is not None else "done"
        return ChangeProgress(
            id=self.id,
            change=self.method,
            resource=self.resource,
            state=ended if self.ended_ms is not None else "waiting" if self.progress is None else "running",
            done=progress.done,
            partitions=progress.items,
            error="" if self.error is None else self.error.message if isinstance(self.error, MagnetarError) else "internal error",
            started_ms=self.started_ms,
            ended_ms=self.ended_ms,
        )


class LongChanges:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._turns = FairTurns(AT_ONCE, waiting_max=WAITING_MAX)
        self._memory = broker.memory_limiter.egress
        self._changes: dict[str, Change] = {}  # by id, in the order of their begin
        self._same: dict[Asked, Change] = {}  # under way, by what was asked
        self._ended: dict[str, Change] = {}  # by id, in the order of their end
        self._ended_of: Counter[str] = Counter()  # by tenant
        broker.before_stop.append(self.stop)

    def long(self, method: Method[Any, Any], work: Handler, *, for_brokers: bool = False) -> Handler:
        """The handler of `method` as a job that `work` does. `for_brokers`: other brokers ask, who have taken a turn for it
        and show it; if it took another one here, two brokers could wait for each other for ever."""

        async def handler(request: Request) -> Answer:
            asked = method.name, msgspec.json.encode(request) if method.idempotent else uuid.uuid4().bytes, for_brokers
            change = self._same.get(asked)
            if change is None:
                change = self._begin(asked, work, request)
            assert change.task is not None
            await asyncio.wait({change.task}, timeout=ANSWER_S)
            return change.outcome()

        return handler

    @answers(CHANGES_OUTCOME)
    async def outcome(self, request: ChangeRef) -> Answer:
        change = self._changes.get(request.id)
        if change is None:
            raise OutcomeUnknown(
                why="the outcome of this change is not known any more, the broker may have been restarted: what it deleted or "
                "added is finished by itself then; look, and ask for it again if it is not done"
            )
        return change.outcome()

    @answers(CHANGES_LIST)
    async def list(self, request: ChangesList) -> ChangesUnderWay:
        changes = [change.shown() for change in self._changes.values() if change.tenant == request.tenant and not change.is_part]
        return ChangesUnderWay(changes=changes[::-1])

    async def stop(self) -> None:
        tasks = [change.task for change in self._same.values() if change.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- their life

    def _begin(self, asked: Asked, work: Handler, request: Any) -> Change:
        resource, tenant = _about(request)
        change = Change(asked[0], tenant, resource, self._broker.now_ms(), is_part=asked[2])
        self._changes[change.id] = self._same[asked] = change
        self._memory.take(tenant, change.size_bytes)
        job = self._run(asked, change, partial(work, request))
        change.task = asyncio.get_running_loop().create_task(job, name=f"{change.method} {resource}")
        return change

    async def _run(self, asked: Asked, change: Change, work: Callable[[], Awaitable[Answer]]) -> None:
        try:
            async with nullcontext() if change.is_part else self._turns.turn(change.tenant):
                change.progress = Progress()
                counted_for.set(change.progress)
                change.answer = await work()
        except MagnetarError as error:
            change.error = error
        except asyncio.CancelledError:
            change.error = NotReady("the broker is stopping: what was begun is finished after its start, or by asking again")
        except Exception as error:
            change.error = error
            self._broker.background.register(ONE_OFF).failed(error, task=change.method)
        finally:
            del self._same[asked]
            self._end(change)

    def _end(self, change: Change) -> None:
        change.ended_ms = self._broker.now_ms()
        if not change.told:
            self._forget(change)
            return
        if change.answer is not None:
            size_bytes = OBJECTS * len(msgspec.json.encode(change.answer))
            change.size_bytes += size_bytes
            self._memory.take(change.tenant, size_bytes)
        self._ended[change.id] = change
        self._ended_of[change.tenant] += 1
        if self._ended_of[change.tenant] > ENDED_PER_TENANT_MAX:
            self._forget_ended(next(ended for ended in self._ended.values() if ended.tenant == change.tenant))
        elif len(self._ended) > ENDED_MAX:
            self._forget_ended(next(iter(self._ended.values())))

    def _forget_ended(self, change: Change) -> None:
        del self._ended[change.id]
        self._ended_of[change.tenant] -= 1
        if not self._ended_of[change.tenant]:
            del self._ended_of[change.tenant]
        self._forget(change)

    def _forget(self, change: Change) -> None:
        del self._changes[change.id]
        self._memory.give(change.tenant, change.size_bytes)


def _about(request: Any) -> tuple[str, str]:
    """The topic or namespace that a change is about, and whose that is; of a broker, nobody's."""
    if hasattr(request, "topic"):
        return request.topic, parse_topic(request.topic).tenant
    if hasattr(request, "namespace"):
        return request.namespace, parse_namespace(request.namespace).tenant
    return getattr(request, "gone_broker_id", ""), ""
