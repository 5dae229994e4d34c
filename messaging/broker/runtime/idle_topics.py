"""When maintenance next has work in each topic that is not loaded, so that a run does not have to load all of them."""

from __future__ import annotations

from typing import NamedTuple

from messaging.broker.core.backlog.quota import BacklogQuota, LedgerSize, bytes_after
from messaging.broker.core.maintenance.inactivity import TOPIC, InactivityPolicies
from messaging.broker.runtime.topics.loaded_topic import LoadedTopic
from messaging.errors import TopicNotFound
from messaging.storage.block_header import decode
from messaging.storage.ledger_store import EARLIEST, NoSuchEntry, Position, StoreError
from messaging.storage.managed.cursor_log import CursorLog
from messaging.storage.managed.maintenance_due import NEVER, MaintenancePolicies, expiry_due, oldest_open, trimming_due
from messaging.storage.managed.storage import Storage
from messaging.storage.meta_store import SubscriptionRecord, TopicRecord

TOPICS_MAX = 200_000  # remembered; about 150 bytes each, and 100 of each that was unloaded
POLICIES_MAX = 10_000  # different ones, of which each is one object
LAST = Position(2**63 - 1, 2**63 - 1)


class TopicMaintenance(NamedTuple):
    """The policies of a topic that maintenance applies."""

    maintenance: MaintenancePolicies
    inactivity: InactivityPolicies
    quota: BacklogQuota

    @property
    def lifetime_ms(self) -> int:
        """How long a message may stay unacknowledged at most; `NEVER`: forever."""
        ttl_s, age_s = self.maintenance.message_ttl_s, self.quota.evicts_after_s
        return min((limit_s * 1000 for limit_s in (ttl_s or -1, age_s) if limit_s >= 0), default=NEVER)


class IdleTopics:
    def __init__(self, storage: Storage, cursors: CursorLog) -> None:
        self._storage = storage
        self._cursors = cursors
        self._due: dict[int, tuple[int, TopicMaintenance]] = {}  # by the hash of the name
        self._policies: dict[TopicMaintenance, TopicMaintenance] = {}  # equal ones are one object
        self._loads = 0
        self.known_since_ms = storage.safe_expiry_ms()  # what was used before is not known
        self._unloaded_ms: dict[int, int] = {}  # by the hash of the name: since when nobody used it

    def loaded(self, topic: LoadedTopic) -> None:
        """What was known of it counts no longer."""
        self._loads += 1
        self._due.pop(hash(topic.text), None)
        self._unloaded_ms.pop(hash(topic.text), None)

    def unloaded(self, topic: LoadedTopic) -> None:
        if isinstance(topic.closed, TopicNotFound):  # it was deleted
            return
        if len(self._unloaded_ms) >= TOPICS_MAX:
            self._unloaded_ms.clear()
            self.known_since_ms = self._storage.safe_expiry_ms()
        self._unloaded_ms[hash(topic.text)] = topic.idle.topic_ms

    def restored(self, topic: str) -> None:
        """It is back from the recycle bin, where nobody could use it: that counts as a use."""
        self._loads += 1
        self._due.pop(hash(topic), None)
        self._unloaded_ms[hash(topic)] = self._storage.safe_expiry_ms()

    def deleted(self, topic: str) -> None:
        self._due.pop(hash(topic), None)
        self._unloaded_ms.pop(hash(topic), None)

    def idle_since_ms(self, topic: str) -> int:
        """The earliest time since which a topic that is not loaded, and of which no time is stored, was surely not used: a broker
        that crashed may have served it until then."""
        return self._unloaded_ms.get(hash(topic), self.known_since_ms)

    async def rests(self, topic: str, policies: TopicMaintenance, now_ms: int) -> bool:
        """Whether there is nothing to do now in a topic that is not loaded. Raises `StoreError`."""
        due = self._due.get(hash(topic))
        if due is None or due[1] != policies or due[0] <= now_ms:
            loads = self._loads
            due = await self._find(topic, policies, now_ms), self._one(policies)
            if loads == self._loads and due[0] > now_ms:
                if len(self._due) >= TOPICS_MAX:
                    self._due.clear()
                self._due[hash(topic)] = due
        return due[0] > now_ms

    def _one(self, policies: TopicMaintenance) -> TopicMaintenance:
        """The object for policies that are equal to these. Those that changed are forgotten from time to time."""
        if len(self._policies) >= POLICIES_MAX:
            self._policies.clear()
        return self._policies.setdefault(policies, policies)

    async def _find(self, topic: str, policies: TopicMaintenance, now_ms: int) -> int:
        """When there may be something to do."""
        record = await self._storage.meta.get_topic(topic)
        if record is None:
            return NEVER
        subscriptions = await self._storage.meta.subscriptions(topic)
        due = self._inactivity_due(record, subscriptions, policies.inactivity)
        if not record.ledgers or due <= now_ms:
            return due
        # What is acknowledged beyond what is saved of a cursor only its topic knows, once it is loaded.
        marks = [
            subscription.mark_delete if self._cursors.is_saved(subscription.subscription_id) else LAST
            for subscription in subscriptions
        ]
        if record.compacted is not None:
            marks.append(record.compacted.horizon)
        due = min(due, trimming_due(record.ledgers, min(marks, default=LAST), policies.maintenance, self._storage.limits, now_ms))
        lifetime_ms = policies.lifetime_ms
        if not subscriptions or due <= now_ms:
            return due
        mark = min((subscription.mark_delete for subscription in subscriptions), default=EARLIEST)
        if policies.quota.evicts_bytes and _backlog_bytes(record, mark) > policies.quota.bytes_max:
            return now_ms
        oldest = oldest_open(record.ledgers, mark)
        if lifetime_ms == NEVER or oldest is None:
            return due
        ledger, position = oldest
        expires = expiry_due(ledger.created_ms, lifetime_ms)  # not before: no entry is older than its ledger
        if expires <= now_ms:
            expires = expiry_due(await self._stored_ms(position, now_ms), lifetime_ms)
        return min(due, expires)

    def _inactivity_due(self, record: TopicRecord, subscriptions: list[SubscriptionRecord], policies: InactivityPolicies) -> int:
        """When the topic, or one of its subscriptions, may have to be deleted."""
        if not policies.in_force:
            return NEVER
        idle = record.idle_since
        if TOPIC not in idle:  # it is loaded once, for what is known now to be stored
            return 0
        known_ms = max(self.idle_since_ms(record.name), record.created_ms)
        backlog = bool(subscriptions) and self._has_backlog(record, subscriptions)
        due = NEVER
        if not policies.keeps(len(subscriptions), backlog):
            due = idle.get(TOPIC, known_ms) + policies.topic_ms
        for subscription in subscriptions:
            due = min(due, max(idle.get(subscription.name, known_ms), subscription.created_ms) + policies.subscription_ms)
        return due

    def _has_backlog(self, record: TopicRecord, subscriptions: list[SubscriptionRecord]) -> bool:
        """Whether one of them surely has one: only loading the topic tells what a broker that crashed left."""
        if not record.ledgers or record.ledgers[-1].last_entry is None:
            return False
        marks = [subscription.mark_delete for subscription in subscriptions if self._cursors.is_saved(subscription.subscription_id)]
        return bool(marks) and oldest_open(record.ledgers, min(marks)) is not None

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


def _backlog_bytes(record: TopicRecord, mark: Position) -> int:
    ledgers = record.ledgers
    return bytes_after(
        [LedgerSize(ledger.ledger_id, (ledger.last_entry or 0) + 1, ledger.length_bytes) for ledger in ledgers], mark
    )
