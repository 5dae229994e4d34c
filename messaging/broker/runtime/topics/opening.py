"""Opens topics from their records: those that keep messages with all that is stored of them, the others as they are."""

from __future__ import annotations

from messaging.broker.runtime.topics import dead_letter_state, dedup_state
from messaging.broker.runtime.topics.non_persistent import NonPersistentTopic
from messaging.broker.runtime.topics.services import TopicServices
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import NotAllowed
from messaging.protocol.names import NON_PERSISTENT, PERSISTENT, TopicName
from messaging.settings import Settings
from messaging.storage.managed.ledger import ManagedLedger
from messaging.storage.meta_store import TopicRecord

OWN_TENANT = "magnetar"  # of the broker's own topics, which do not depend on settings


def enabled_domains(settings: Settings) -> dict[str, bool]:
    return {PERSISTENT: settings.enable_persistent_topics, NON_PERSISTENT: settings.enable_non_persistent_topics}


def check_enabled(services: TopicServices, name: TopicName) -> None:
    """Raises `NotAllowed` if the settings turn this kind of topic off."""
    if not services.enabled_domains[name.domain] and name.tenant != OWN_TENANT:
        setting = {PERSISTENT: "enable_persistent_topics", NON_PERSISTENT: "enable_non_persistent_topics"}[name.domain]
        raise NotAllowed(f"{name}: {name.domain} topics are turned off by the setting {setting}")


async def open_topic(services: TopicServices, name: TopicName, record: TopicRecord) -> Topic:
    """Raises `StoreError`. `Topic.claim` follows once nothing can fail any more."""
    if not name.persistent:
        return NonPersistentTopic(name, services, record)
    ledger = await ManagedLedger.open(services.storage, record, {"tenant": name.tenant})
    topic = Topic(name, services, ledger)
    for stored in await services.storage.meta.subscriptions(topic.text):
        topic.restore(stored)
    await dead_letter_state.restore(topic)
    await dedup_state.follow_policy(topic)
    return topic
