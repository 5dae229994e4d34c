"""The compactions of a broker: which are requested, due and under way, and what became of them.

A worker reads the topic in two passes and decides what stays (`core/compaction`); here is what only the owner of the topic can do:
give out its entries, fill the new ledger, and put it in the place of the old one in one change of the topic's record. Until that
change nothing refers to the new ledger, so that whatever ends a compaction before leaves the topic as it was.

While a topic is being compacted, and once it was, retention keeps what no compaction has seen; of change events always.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import structlog

from messaging.broker.core.compaction.status import NOT_RUN, CompactionResult, bytes_after, is_due
from messaging.broker.core.control.effective_policies import EffectivePolicies
from messaging.broker.core.memory.memory_limiter import MemoryAccount
from messaging.broker.runtime.compaction.session import PAGE_BYTES, CompactionSession, Page
from messaging.broker.runtime.topics.persistent import PersistentTopic
from messaging.broker.runtime.topics.registry import Topics
from messaging.broker.runtime.topics.services import refusal_of
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import Conflict, InvalidValue, NotFound, NotReady, TopicNotFound
from messaging.protocol.names import TopicName, parse_topic
from messaging.protocol.system_topics import CHANGE_EVENTS
from messaging.storage.ledger_store import EARLIEST, Block, Position, StoreError
from messaging.storage.managed.compacted import CompactedWriter
from messaging.storage.managed.storage import Storage
from messaging.storage.meta_store import CompactedLedger, MetaConflict, TopicRecord

log = structlog.get_logger("broker.compaction")
T = TypeVar("T")

SILENT_MS = 60_000  # a worker that sends nothing for so long is gone
SESSIONS_MAX = 8  # at the same time
RESULTS_MAX = 10_000  # topics whose last result is remembered
REQUESTS_MAX = 10_000
REQUESTS_OF_TENANT_MAX = 2_500


class Compactions:
    """`memory` is taken for pages under way."""

    def __init__(
        self,
        topics: Topics,
        storage: Storage,
        policies: EffectivePolicies,
        memory: MemoryAccount,
        now_ms: Callable[[], int],
        message_bytes_max: int,
    ) -> None:
        self._topics = topics
        self._storage = storage
        self._policies = policies
        self._memory = memory
        self._now_ms = now_ms
        self._message_bytes_max = message_bytes_max
        topics.on_deleted.append(self.forget)
        self._requested: dict[str, str] = {}  # the tenant by topic
        self._sessions: dict[str, CompactionSession] = {}  # by topic
        self._results: OrderedDict[str, CompactionResult] = OrderedDict()

    # --- asking

    def sessions(self) -> list[CompactionSession]:
        return list(self._sessions.values())

    def threshold_bytes(self, name: TopicName) -> int:
        """The policy of a topic; 0: it is compacted on demand only."""
        return int(self._policies.value("compaction_threshold_bytes", name) or 0)

    def result(self, topic: str) -> CompactionResult:
        return self._results.get(topic, NOT_RUN)

    def status(self, topic: str) -> str:
        return "RUNNING" if topic in self._requested or topic in self._sessions else self.result(topic).status

    def kept_from(self, topic: PersistentTopic, before: Position) -> Position:
        """`before`, or where retention has to stop for what is still to be compacted."""
        session = self._sessions.get(topic.text)
        if session is not None and self._now_ms() - session.heard_ms <= SILENT_MS:
            return min(before, session.former.horizon if session.former is not None else EARLIEST)
        compacted = topic.ledger_list.compacted
        if compacted is None:
            return EARLIEST if topic.name.local == CHANGE_EVENTS else before
        return min(before, compacted.horizon)

    async def due(self, names: list[str], *, requested: bool) -> list[str]:
        """Those of `names` that have reached their threshold; before them, if `requested`, all for which somebody asked."""
        await self._end_silent()
        due_topics: dict[str, None] = dict.fromkeys(self._requested if requested else ())
        for text in names:
            threshold = self.threshold_bytes(parse_topic(text))
            if threshold and text not in self._sessions and await self._is_due(text, threshold):
                due_topics[text] = None
        return [text for text in due_topics if text not in self._sessions]

    async def _is_due(self, text: str, threshold: int) -> bool:
        loaded = self._topics.loaded.get(text)
        record = loaded.ledger.record if loaded is not None else await self._storage.meta.get_topic(text)
        if record is None:
            return False
        stored = _ledgers(record) if loaded is None else _loaded_ledgers(loaded)
        horizon = record.compacted.horizon if record.compacted is not None else EARLIEST
        return is_due(threshold, bytes_after(stored, horizon), self.result(text), self._now_ms())

    # --- beginning and ending

    async def request(self, name: TopicName) -> None:
        """Raises `Conflict` if the topic is being compacted or waits for it, `TopicNotFound`."""
        text = str(name)
        if not await self._topics.exists(name):
            raise TopicNotFound(f"topic {text} does not exist")
        if self.status(text) == "RUNNING":
            raise Conflict(f"a compaction of {text} is already in progress: wait until it has ended")
        if len(self._requested) >= REQUESTS_MAX:
            raise NotReady(f"{REQUESTS_MAX} topics wait to be compacted: try again later")
        if list(self._requested.values()).count(name.tenant) >= REQUESTS_OF_TENANT_MAX:
            raise NotReady(f"{REQUESTS_OF_TENANT_MAX} topics of tenant {name.tenant} wait to be compacted: try again later")
        self._requested[text] = name.tenant

    async def begin(self, name: TopicName) -> str:
        """The id of a new session. Raises `Conflict`, `TopicNotFound`, `NotReady`, `StorageFailed`."""
        await self._end_silent()
        text = str(name)
        if text in self._sessions:
            raise Conflict(f"another worker is compacting {text}")
        if len(self._sessions) >= SESSIONS_MAX:
            raise NotReady(f"{SESSIONS_MAX} topics are being compacted: try again later")
        try:
            topic = await self._topics.get_persistent(name, create=False)
            writer = await CompactedWriter.create(self._storage, {"tenant": name.tenant})
        except TopicNotFound:
            self.forget(text)
            raise
        except StoreError as error:
            refused = refusal_of(error, f"topic {text} cannot be compacted")
            self._ended(text, str(refused))
            raise refused from error
        if text in self._sessions:  # begun meanwhile
            await writer.drop()
            raise Conflict(f"another worker is compacting {text}")
        session = self._sessions[text] = CompactionSession(
            uuid.uuid4().hex, topic, self._storage, writer, self._now_ms(), self._message_bytes_max
        )
        self._requested.pop(text, None)
        return session.session_id

    def _session(self, session_id: str) -> CompactionSession:
        for session in self._sessions.values():
            if session.session_id == session_id:
                session.heard_ms = self._now_ms()
                return session
        raise NotFound("this compaction has ended: begin another")

    async def _topic(self, session: CompactionSession) -> PersistentTopic:
        topic = await self._topics.get_persistent(session.name, create=False)
        if topic.ledger.record.created_ms != session.created_ms:
            raise TopicNotFound(f"topic {session.name} was deleted and created again")
        return topic

    async def read(self, session_id: str, position: Position) -> Page:
        """Raises `NotFound`, `NotReady`, `StorageFailed`."""
        session = self._session(session_id)
        topic = await self._topic(session)
        return await self._page(session, PAGE_BYTES, session.read(topic, position))

    async def write(self, session_id: str, blocks: list[Block]) -> None:
        """Raises `NotFound`, `InvalidValue`, `NotReady`, `StorageFailed`."""
        session = self._session(session_id)
        if any(Position(block.ledger_id, block.last_entry) > session.end for block in blocks):
            raise InvalidValue(f"the compaction of {session.name} ends at {tuple(session.end)}")
        await self._page(session, sum(len(block.data) for block in blocks), session.writer.append(blocks))

    async def _page(self, session: CompactionSession, size: int, work: Coroutine[Any, Any, T]) -> T:
        """`work`, with memory for `size` bytes."""
        tenant = session.name.tenant
        if not self._memory.allows(tenant, size):
            work.close()
            raise NotReady("the broker is short of memory for reading: try again")
        self._memory.take(tenant, size)
        try:
            return await work
        except ValueError as error:
            raise InvalidValue(f"the compaction of {session.name} cannot go on: {error}") from error
        except StoreError as error:
            raise refusal_of(error, f"the compaction of {session.name} cannot go on") from error
        finally:
            self._memory.give(tenant, size)

    async def commit(self, session_id: str, removed_messages: int, last_batch_index: int) -> None:
        """Raises `NotFound`, `Conflict`, `NotReady`, `StorageFailed`; nothing has changed then."""
        session = self._session(session_id)
        topic = await self._topic(session)
        try:
            compacted = await session.writer.finish(session.end, last_batch_index)
        except StoreError as error:
            refused = refusal_of(error, f"the compaction of {session.name} could not be stored")
            await self._abort(session, str(refused))
            raise refused from error
        try:
            if topic.overrides is not None:  # what was left out must stay cancelled
                await topic.delayed.overrides.save()
            await _replace(topic, session.former, compacted)
        except MetaConflict as error:
            raise Conflict(str(error)) from None
        except StoreError as error:
            refused = refusal_of(error, f"the compaction of {session.name} could not be stored")
            self._ended(topic.text, str(refused))  # its ledger stays: whether the record refers to it is not known
            raise refused from error
        if topic.overrides is not None:
            topic.overrides.compacted_without(session.cancelled.entries, topic.ledger_list)
        self._sessions.pop(topic.text, None)
        now_ms = self._now_ms()
        result = self._keep(topic.text)
        result.status, result.last_error, result.succeeded_ms = "SUCCESS", "", now_ms
        result.removed_messages, result.duration_ms = removed_messages, now_ms - session.started_ms
        log.info(
            "topic.compacted",
            topic=topic.text,
            entries=compacted.entries,
            length_bytes=compacted.length_bytes,
            removed_messages=removed_messages,
            lost_entries=session.lost_entries,
        )

    async def abort(self, session_id: str, why: str) -> None:
        """Ends a session, if it still is one; the topic stays as it was."""
        try:
            session = self._session(session_id)
        except NotFound:
            return
        await self._abort(session, why)

    async def _abort(self, session: CompactionSession, why: str) -> None:
        self._ended(str(session.name), why)
        try:
            await session.writer.drop()
        except StoreError as error:  # the next start finds that nothing refers to it
            log.warning("compaction.ledger_left", topic=str(session.name), error=str(error))

    async def _end_silent(self) -> None:
        for session in list(self._sessions.values()):
            if self._now_ms() - session.heard_ms > SILENT_MS:
                await self._abort(session, "its worker is gone")

    async def truncate(self, topic: PersistentTopic) -> None:
        """Nothing is left of what was compacted. Raises `NotReady`, `StoreError`."""
        session = self._sessions.get(topic.text)
        if session is not None:
            await self._abort(session, "the topic was truncated")
        if topic.ledger_list.compacted is not None:
            await _replace(topic, topic.ledger_list.compacted, None)

    def forget(self, topic: str) -> None:
        """It is deleted."""
        self._requested.pop(topic, None)
        self._results.pop(topic, None)

    def _ended(self, text: str, why: str) -> None:
        session, now_ms = self._sessions.pop(text, None), self._now_ms()
        self._requested.pop(text, None)
        result = self._keep(text)
        result.status, result.last_error, result.failed_ms = "ERROR", why[:1000], now_ms
        result.failed_after_ms = now_ms - session.started_ms if session is not None else 0
        log.warning("compaction.failed", topic=text, why=why)

    def _keep(self, text: str) -> CompactionResult:
        result = self._results.setdefault(text, CompactionResult())
        self._results.move_to_end(text)
        if len(self._results) > RESULTS_MAX:
            self._results.popitem(last=False)
        return result


async def _replace(topic: PersistentTopic, former: CompactedLedger | None, compacted: CompactedLedger | None) -> None:
    """Compacted reading goes on in another ledger, or in none."""
    topic.check_open()
    await topic.ledger.replace_compacted(former, compacted)
    topic.dispatcher.dispatch_all()


def _ledgers(record: TopicRecord) -> list[tuple[int, int, int]]:
    return [
        (ledger.ledger_id, -1 if ledger.last_entry is None else ledger.last_entry, ledger.length_bytes) for ledger in record.ledgers
    ]


def _loaded_ledgers(topic: Topic) -> list[tuple[int, int, int]]:
    """With what the open ledger holds by now."""
    ledgers = _ledgers(topic.ledger.record)
    if ledgers and topic.ledger.record.ledgers[-1].last_entry is None:
        ledger_id, _, _ = ledgers[-1]
        ledgers[-1] = (ledger_id, topic.ledger_list.last_of(ledger_id), topic.ledger.writing_bytes)
    return ledgers
