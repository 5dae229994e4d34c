"""When maintenance next has work in each topic that is not loaded, so that a run does not have to load all of them."""

from __future__ import annotations

from messaging.broker.runtime.topics.loaded_topic import LoadedTopic
from messaging.storage.block_header import decode
from messaging.storage.ledger_store import EARLIEST, NoSuchEntry, Position, StoreError
from messaging.storage.managed.cursor_log import CursorLog
from messaging.storage.managed.maintenance_due import NEVER, MaintenancePolicies, expiry_due, oldest_open, trimming_due
from messaging.storage.managed.storage import Storage

TOPICS_MAX = 200_000  # remembered; about 150 bytes each
LAST = Position(2**63 - 1, 2**63 - 1)


class IdleTopics:
    def __init__(self, storage: Storage, cursors: CursorLog) -> None:
        self._storage = storage
        self._cursors = cursors
        self._due: dict[int, tuple[int, MaintenancePolicies]] = {}  # by the hash of the name
        self._policies: dict[MaintenancePolicies, MaintenancePolicies] = {}  # equal ones are one object
        self._loads = 0

    def loaded(self, topic: LoadedTopic) -> None:
        """What was known of it counts no longer."""
        self._loads += 1
        self._due.pop(hash(topic.text), None)

    async def rests(self, topic: str, policies: MaintenancePolicies, now_ms: int) -> bool:
        """Whether there is nothing to do now in a topic that is not loaded. Raises `StoreError`."""
        held = self._due.get(hash(topic))
        if held is None or held[1] != policies or held[0] <= now_ms:
            loads = self._loads
            held = await self._find(topic, policies, now_ms), self._policies.setdefault(policies, policies)
            if loads == self._loads and held[0] > now_ms:
                if len(self._due) >= TOPICS_MAX:
                    self._due.clear()
                    self._policies.clear()
                self._due[hash(topic)] = held
        return held[0] > now_ms

    async def _find(self, topic: str, policies: MaintenancePolicies, now_ms: int) -> int:
        """When there may be something to do."""
        record = await self._storage.meta.get_topic(topic)
        if record is None or not record.ledgers:
            return NEVER
        subscriptions = await self._storage.meta.subscriptions(topic)
        # What is acknowledged beyond what is saved of a cursor only its topic knows, once it is loaded.
        marks = [one.mark_delete if self._cursors.is_saved(one.subscription_id) else LAST for one in subscriptions]
        due = trimming_due(record.ledgers, min(marks, default=LAST), policies, self._storage.limits, now_ms)
        if not policies.message_ttl_s or not subscriptions or due <= now_ms:
            return due
        oldest = oldest_open(record.ledgers, min((one.mark_delete for one in subscriptions), default=EARLIEST))
        if oldest is None:
            return due
        ledger, position = oldest
        expires = expiry_due(ledger.created_ms, policies)  # not before: no entry is older than its ledger
        if expires <= now_ms:
            expires = expiry_due(await self._stored_ms(position, now_ms), policies)
        return min(due, expires)

    async def _stored_ms(self, position: Position, now_ms: int) -> int:
        """When that entry was stored; 0 where only loading the topic can tell."""
        try:
            reader = await self._storage.ledgers.open(position.ledger_id)
            try:
                blocks = await reader.read(position.entry_id, entries_max=1, bytes_max=1)
            finally:
                await reader.aclose()
            return decode(blocks[0].header).broker_time_ms
        except NoSuchEntry:  # of an open ledger, which ends before it
            return now_ms
        except (StoreError, ValueError, IndexError):
            return 0
