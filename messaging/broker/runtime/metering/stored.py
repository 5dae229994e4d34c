"""How much a tenant has stored on all its topics, loaded or not."""

from __future__ import annotations

from collections.abc import Mapping

from messaging.broker.runtime.topics.registry import Topics
from messaging.broker.runtime.topics.topic import Topic
from messaging.storage.ledger_store import StoreError
from messaging.storage.managed.storage import Storage
from messaging.storage.meta_store import TopicRecord

PAGE_TOPICS = 200


async def stored_bytes_of(storage: Storage, loaded: Mapping[str, Topic], tenant: str) -> int:
    """`loaded`: topics by name. Loads no topic. Raises `StoreError`."""
    total, after = 0, ""
    while True:
        records = await storage.meta.topic_records(tenant, after=after, limit=PAGE_TOPICS)
        for record in records:
            topic = loaded.get(record.name)
            if topic is None:
                total += sum(ledger.length_bytes for ledger in record.ledgers) + await open_bytes(storage, record)
            else:
                total += topic.ledger.stored_bytes
        if len(records) < PAGE_TOPICS:
            return total
        after = records[-1].name


async def open_bytes_of(topics: Topics, tenant: str) -> int:
    """What is in ledgers that are written to, whose length the metadata does not have: the part that only their broker knows."""
    slices, total = topics.services.loops.slices(tenant), 0
    for namespace in topics.namespaces_with_loaded(tenant):
        for topic in topics.loaded_of(namespace):
            await slices.spend(1)
            total += topic.ledger.writing_bytes
    return total


async def open_bytes(storage: Storage, record: TopicRecord) -> int:
    """Of the ledger that a crash left open, whose length no record has."""
    if not record.ledgers or record.ledgers[-1].last_entry is not None:
        return 0
    try:
        return (await storage.ledgers.info(record.ledgers[-1].ledger_id)).length_bytes
    except StoreError:
        return 0
