"""Opens topics from their records: those that keep messages with all that is stored of them, the others as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from messaging.broker.core.maintenance.inactivity import IdleTimes
from messaging.broker.runtime.topics.delayed import overrides as delay_overrides
from messaging.broker.runtime.topics.non_persistent import NonPersistentTopic
from messaging.broker.runtime.topics.persistent import PersistentTopic
from messaging.broker.runtime.topics.services import OWN_TENANT, TopicServices
from messaging.broker.runtime.topics.subscriptions import dead_letter_state
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import NotAllowed
from messaging.protocol.names import NON_PERSISTENT, PERSISTENT, TopicName
from messaging.protocol.system_topics import is_reserved
from messaging.settings import Settings
from messaging.storage.managed.ledger import ManagedLedger
from messaging.storage.meta_store import NO_TIMES, TopicRecord


def enabled_domains(settings: Settings) -> dict[str, bool]:
    return {PERSISTENT: settings.enable_persistent_topics, NON_PERSISTENT: settings.enable_non_persistent_topics}


def check_enabled(services: TopicServices, name: TopicName) -> None:
    """Raises `NotAllowed` if the settings turn this kind of topic off, or the name belongs to the broker."""
    if is_reserved(name):
        raise NotAllowed(f"{name}: topics of this name belong to the broker; choose another name")
    if not services.limits.enabled_domains[name.domain] and name.tenant != OWN_TENANT:
        setting = {PERSISTENT: "enable_persistent_topics", NON_PERSISTENT: "enable_non_persistent_topics"}[name.domain]
        raise NotAllowed(f"{name}: {name.domain} topics are turned off by the setting {setting}")


async def make_topic(services: TopicServices, name: TopicName, *, recorded: bool, writable: bool) -> Topic:
    """A topic that does not exist yet: nothing of it is looked for. `recorded`: its record is stored, `writable`: with a first
    ledger. Raises `MetaConflict`: it was made meanwhile, or cannot be beside a partitioned topic; `StoreError`."""
    storage = services.stores.storage
    record = TopicRecord(str(name), created_ms=services.clock_ms())
    if not name.persistent:
        made = await storage.meta.cas_topic(storage.fence_of(record.name), record) if recorded else record
        return NonPersistentTopic(name, services, made)
    ledger = await ManagedLedger.begin(storage, record, {"tenant": name.tenant}, writable=writable)
    topic = PersistentTopic(name, services, ledger)
    topic.idle = IdleTimes(NO_TIMES, record.created_ms)
    return topic


async def open_topic(services: TopicServices, name: TopicName, record: TopicRecord, idle_since_ms: Callable[[str], int]) -> Topic:
    """`idle_since_ms`: since when nobody used it, where that is not stored. Raises `StoreError`. `claim` follows once nothing
    can fail any more."""
    if not name.persistent:
        return NonPersistentTopic(name, services, record)
    storage = services.stores.storage
    idle = IdleTimes(record.idle_since, max(idle_since_ms(record.name), record.created_ms))
    if record.idle_since:  # as long as it is loaded, what is stored is not so
        record = await storage.meta.cas_topic(storage.fence_of(record.name), replace(record, idle_since=NO_TIMES))
    ledger = await ManagedLedger.open(storage, record, {"tenant": name.tenant})
    topic = PersistentTopic(name, services, ledger)
    topic.idle = idle
    for stored in await storage.meta.subscriptions(topic.text):
        topic.subscriptions.restore(stored)
    await dead_letter_state.restore(topic)
    await topic.deduplication.follow_policy()
    overrides = await delay_overrides.stored(storage, ledger)
    if record.delayed_runs or overrides is not None:
        await topic.delayed.restore(overrides)
    return topic
