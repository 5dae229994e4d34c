"""A page of the disk goes bad where the acknowledgements stand: the broker starts, delivers that again, and says so."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

from messaging.broker.runtime.broker_metrics import broker_samples
from messaging.broker.runtime.local.sessions import LocalSessions
from messaging.protocol.names import parse_topic
from messaging.storage.local import LocalConfig, LocalLedgerStore
from messaging.storage.local.format.segment import PAGE_BYTES
from tests.support.brokers.storage_broker import ADMIN, TOPIC, Inbox, publish, storage_broker
from tests.support.storage.fake_disk import FakeDisk
from tests.support.storage.memory_ledgers import MemoryMetaStore
from tests.support.waiting import eventually

DIRECTORY = Path("/log")
CONFIG = LocalConfig(segment_bytes=256 << 10, reserved_bytes=0)


async def test_each_page_of_the_log_goes_bad_and_the_broker_starts(tmp_path: Path) -> None:
    """An error of the disk while the acknowledgements were read kept the broker from starting, as long as it lasted."""
    disk, meta = FakeDisk(), MemoryMetaStore()
    service = await storage_broker(tmp_path, LocalLedgerStore(DIRECTORY, CONFIG, disk=disk), meta)
    inbox = Inbox()
    consumer = await LocalSessions(service).open_consumer(ADMIN, TOPIC, "s", "Shared", "earliest", True, None, inbox)
    consumer.flow(100)
    for number in range(20):
        await publish(service, number, number + 1, size=1_000)
    await eventually(lambda: len(inbox.messages) == 20)
    for message in inbox.messages:
        await consumer.ack([message.position])
    left = disk.frozen()  # as a killed broker leaves it: everything acknowledged is in the log alone
    segment = next(name for name in left.names(DIRECTORY) if name.startswith("segment-"))
    again_at_most = 0
    for page in range(1, len(bytes(left.file(DIRECTORY / segment)).rstrip(b"\0")) // PAGE_BYTES + 1):
        broken = left.frozen()
        broken.bad_pages.add((segment, page))
        store = LocalLedgerStore(DIRECTORY, CONFIG, disk=broken)
        service = await storage_broker(tmp_path, store, deepcopy(meta))
        topic = await service.topics.get(parse_topic(TOPIC), create=False)
        again = topic.subscriptions.table["s"].backlog_entries
        again_at_most = max(again, again_at_most)
        said = {
            sample.labels[0]: sample.value
            for sample in broker_samples(service, private=False)
            if sample.name == "magnetar_storage_damage_total"
        }
        assert not again or said["cursor"] or store.damage, "no acknowledgement is forgotten silently"
        assert len(topic.ledger.record.ledgers) == 1 and topic.ledger_list.entries > 10, "what the page did not hold is there"
        await service.stop()
    assert 0 < again_at_most <= 20, "some page held acknowledgements"
