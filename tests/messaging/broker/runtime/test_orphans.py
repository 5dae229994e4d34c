"""A broker that starts after a crash gives back the space that nobody knows of any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from messaging.adminrpc.feed import FeedApply, FeedChange
from messaging.broker.runtime import orphans
from messaging.broker.runtime.admin.handlers import AdminHandlers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.local.messages import MessagePosition, OutgoingMessage
from messaging.broker.runtime.local.sessions import LocalSessions
from messaging.broker.runtime.main import start
from messaging.errors import MagnetarError, NotReady
from messaging.identity import create_secrets
from messaging.permissions.model import Principal
from messaging.protocol.names import parse_topic
from messaging.settings import Settings
from messaging.storage.ledger_store import WHOLE, Fenced, StoreError, Unavailable
from tests.support.storage.faulty_ledgers import FaultyLedgerStore
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld

KEPT, DELETED = "persistent://acme/orders/kept", "persistent://acme/orders/deleted"
RunBroker = Callable[[], Awaitable[Broker]]


class Sink:
    def closed(self, error: MagnetarError | None) -> None: ...


@pytest.fixture
async def run_broker(tmp_path: Path) -> AsyncIterator[RunBroker]:
    """Stops the one before, and starts another on the same folder."""
    settings = Settings(data_dir=str(tmp_path), broker_port=0, ws_port=0, broker_rpc_port=0)
    create_secrets(settings)
    stacks: list[AsyncExitStack] = []

    async def run() -> Broker:
        await end()
        stack = AsyncExitStack()
        stacks.append(stack)
        service = await start(settings, stack)
        stack.push_async_callback(service.stop)
        changes = [
            FeedChange(version=1, kind="tenant", key="acme", state={"admin_roles": []}),
            FeedChange(version=2, kind="namespace", key="acme/orders", state={}),
        ]
        await AdminHandlers(service).feed.apply(FeedApply(from_version=0, to_version=2, full=True, changes=changes))
        return service

    async def end() -> None:
        while stacks:
            await stacks.pop().aclose()

    yield run
    await end()


async def publish(broker: Broker, topic: str) -> None:
    producer = await LocalSessions(broker).open_producer(Principal("admin"), topic, None, Sink())
    answer: asyncio.Future[MagnetarError | None] = asyncio.get_running_loop().create_future()

    def done(_: Sequence[MessagePosition] | None, error: MagnetarError | None) -> None:
        answer.set_result(error)

    producer.publish([OutgoingMessage(b"x")], done)
    assert await answer is None
    producer.close()


async def test_what_a_crash_left_is_gone_some_time_after_the_next_start(
    run_broker: RunBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await run_broker()
    await publish(first, KEPT)
    await publish(first, DELETED)
    (orphan,) = (await first.topics.get(parse_topic(DELETED), create=False)).ledger.record.ledgers
    disk = first.storage.ledgers = FaultyLedgerStore(first.storage.ledgers)
    disk.fail_next("delete", Unavailable("crash"))
    with pytest.raises(NotReady):
        await first.topics.delete(parse_topic(DELETED), force=True)
    assert orphan.ledger_id in await disk.ledger_ids(WHOLE)
    monkeypatch.setattr(orphans, "COLLECT_AFTER_S", 0)
    monkeypatch.setattr(orphans, "COLLECT_DOUBTFUL_S", 0)
    with capture_logs() as logs:
        second = await run_broker()
        store = second.storage.ledgers
        await publish(second, DELETED)
        await eventually(lambda: [one for one in logs if one["event"] == "orphans.collected"])
    (line,) = [one for one in logs if one["event"] == "orphans.collected"]
    assert line["ledgers"] == 1 and line["bytes"] > 0
    assert orphan.ledger_id not in await store.ledger_ids(WHOLE)
    for topic in (KEPT, DELETED):
        assert (await second.topics.get(parse_topic(topic), create=False)).ledger_list.entries == 1


@pytest.mark.parametrize(
    ("fault", "told"),
    [(Unavailable("the disk is gone"), ["orphans.not_collected", "background.failed"]), (Fenced("another owns it"), [])],
)
async def test_what_fails_is_told_once_unless_another_owns_the_store(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch, fault: StoreError, told: list[str]
) -> None:
    monkeypatch.setattr(orphans, "COLLECT_AFTER_S", 0)
    storage = world.service.storage
    orphan_id = await world.meta.next_ledger_id(storage.fence)
    await world.ledgers.create(storage.fence, orphan_id, {})
    storage.owned = replace(storage.owned, first_ledger_id=orphan_id + 1)  # as if an earlier owner had made it
    world.ledgers.fail_next("delete", fault)
    with capture_logs() as logs:
        await orphans.collect_after_start(storage, certain=True)
    assert [one["event"] for one in logs] == told
    with capture_logs() as logs:
        await orphans.collect_after_start(storage, certain=True)
        await orphans.collect_after_start(storage, certain=True)
    assert [one["event"] for one in logs if not one["event"].startswith("background.")] == ["orphans.collected"]
    assert not world.service.background.loops[orphans.LOOP].failing
