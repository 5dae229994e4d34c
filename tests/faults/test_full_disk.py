"""The whole broker on a real file system that is full to the last byte: producers wait, acknowledgements and consumers do not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from messaging.adminrpc.feed import FeedApply, FeedChange
from messaging.broker.runtime.admin.handlers import AdminHandlers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.local.sessions import LocalSessions
from messaging.broker.runtime.main import announce, start
from messaging.errors import MagnetarError
from messaging.identity import create_secrets
from messaging.protocol.names import parse_topic
from messaging.settings import Settings
from tests.support.brokers.storage_broker import ADMIN, NAMESPACE, TOPIC, Inbox, publish
from tests.support.small_disk import NotPermitted, SmallDisk, small_disk
from tests.support.waiting import eventually

SIZE_BYTES = 40 << 20
MESSAGES = 40


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    try:
        with small_disk(tmp_path / "disk", SIZE_BYTES) as made:
            yield made
    except NotPermitted as error:
        pytest.skip(f"no small file system can be mounted here ({error}); the same with a simulated disk runs everywhere")


async def opened(disk: SmallDisk, stack: AsyncExitStack) -> Broker:
    settings = Settings(
        data_dir=str(disk.path), broker_port=0, ws_port=0, broker_rpc_port=0, segment_bytes=1 << 20, reserved_bytes=8 << 20
    )
    if not (disk.path / "secrets").exists():
        create_secrets(settings)
    service = await start(settings, stack)
    stack.push_async_callback(service.stop)
    if not service.access.view.version:
        changes = [
            FeedChange(version=1, kind="tenant", key="acme", state={"admin_roles": []}),
            FeedChange(version=2, kind="namespace", key=NAMESPACE, state={"policies": {}}),
        ]
        await AdminHandlers(service).feed.apply(FeedApply(from_version=0, to_version=2, full=True, changes=changes))
    announce(settings, service)
    return service


async def refused(service: Broker, topic: str = TOPIC) -> bool:
    try:
        await publish(service, 0, 1, name="other", topic=topic, size=100_000)
    except MagnetarError:
        return True
    return False


async def drained(service: Broker, subscription: str, least: int, topic: str = TOPIC) -> int:
    """Opens the subscription, takes everything and acknowledges it; how many came."""
    inbox = Inbox()
    consumer = await LocalSessions(service).open_consumer(ADMIN, topic, subscription, "Shared", "earliest", True, None, inbox)
    consumer.flow(10_000)
    await eventually(lambda: len(inbox.messages) >= least)
    for message in inbox.messages:
        await consumer.ack([message.position])
    consumer.close()
    return len(inbox.messages)


async def test_a_full_disk_stops_producers_alone(disk: SmallDisk) -> None:
    async with AsyncExitStack() as stack:
        service = await opened(disk, stack)
        for number in range(MESSAGES):
            await publish(service, number, number + 1, size=10_000)
        disk.fill()
        assert disk.free_bytes() == 0
        while not await refused(service):
            pass  # it takes what space it had prepared
        assert await drained(service, "early", MESSAGES) >= MESSAGES
        for number in range(20):
            assert await drained(service, f"late-{number}", MESSAGES) >= MESSAGES, "new subscriptions too"
        await service.topics.unload(parse_topic(TOPIC))
        assert await drained(service, "early-2", MESSAGES) >= MESSAGES, "topics open"
        with pytest.raises(MagnetarError, match="full"):
            await LocalSessions(service).open_consumer(ADMIN, f"{TOPIC}-new", "s", "Shared", "earliest", True, None, Inbox())
        revoked = FeedChange(version=3, kind="key", key="k", state={"role": "r", "tenant": "acme", "revoked": True})
        await AdminHandlers(service).feed.apply(FeedApply(from_version=2, to_version=3, changes=[revoked]))
        assert service.ready()[0]
    async with AsyncExitStack() as stack:  # a start on a full disk
        disk.fill()
        service = await opened(disk, stack)
        assert service.access.view.key_revoked("k"), "what the control plane said on the full disk stands"
        assert (await service.topics.get(parse_topic(TOPIC), create=False)).subscriptions.table["early"].backlog_entries == 0
        assert await drained(service, "after", MESSAGES) >= MESSAGES
        assert await refused(service)
        disk.empty()

        async def taken() -> bool:
            return not await refused(service)

        await eventually(taken, 30)
        assert not await refused(service, f"{TOPIC}-new"), "topics are made again, without a restart"
