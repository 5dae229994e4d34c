"""What brokers leave that cannot be read, and brokers that never come back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from messaging.adminrpc.base import Method, Request
from messaging.adminrpc.brokers import GoneBroker, RecoverBroker
from messaging.adminrpc.methods import BROKERS_FORGET, BROKERS_LIST, BROKERS_RECOVER, HEALTH
from messaging.broker.runtime.ownership.gone_brokers import GoneBrokers
from messaging.broker.runtime.ownership.shared_member import SharedMember
from messaging.client import connect
from messaging.errors import Conflict, NotAllowed, NotFound, NotReady
from messaging.storage.ledger_store import Fence
from messaging.storage.managed.cursor_log import key_of
from messaging.storage.ownership import RecoveryFailed
from messaging.storage.sql.meta_store import SqlMetaStore
from tests.support.brokers.fleet import running_fleet, shared_broker, shared_fleet
from tests.support.brokers.running_broker import RunningBroker
from tests.support.waiting import eventually

TOPICS = [f"persistent://acme/orders/t{number}" for number in range(12)]


def member_of(broker: RunningBroker) -> SharedMember:
    assert isinstance(broker.service.owners, SharedMember)
    return broker.service.owners


def meta_of(broker: RunningBroker) -> SqlMetaStore:
    meta = broker.service.storage.meta
    assert isinstance(meta, SqlMetaStore)
    return meta


async def ask(broker: RunningBroker, method: Method[Any, Any], request: Request) -> Any:
    return await broker.admin.methods[method.name](request)


async def acknowledge_one_of_two(broker: RunningBroker) -> None:
    async with connect(broker.service.addresses.broker_url, broker.token("owner")) as client:
        for topic in TOPICS:
            async with (
                client.producer(topic) as producer,
                client.consumer(topic, "s", initial="earliest", ack_receipts=True) as each,
            ):
                await producer.send(b"a")
                await producer.send(b"b")
                await each.ack(await each.receive())


async def end_damaged(broker: RunningBroker, by: RunningBroker) -> None:
    """The broker is gone, and the list of the ledgers of its log is damaged."""
    scope, meta = f"broker/{member_of(broker).broker_id}", meta_of(by)
    await meta.ownership.close_session(member_of(broker).broker_id, member_of(broker).session)
    fence = await meta.acquire(scope)
    await meta.put_value(Fence(scope, fence.epoch), key_of(scope), b"no list")
    await member_of(by).look()


async def test_a_broker_that_started_often_takes_over_at_once_from_one_that_ran_all_the_time(
    tmp_path: Path, metadata_url: str
) -> None:
    """Seen: topics were away for 16 to 27 s, since the storage refused the first attempts, as if there were a rival."""
    async with shared_broker(tmp_path, metadata_url, 1) as gone:
        for _ in range(2):
            async with shared_broker(tmp_path, metadata_url, 2):
                pass
        async with shared_broker(tmp_path, metadata_url, 2) as taker:
            await meta_of(taker).ownership.close_session("machine-1", member_of(gone).session)
            await member_of(taker).recover("machine-1", accept_loss=False)


async def test_a_log_that_cannot_be_read_holds_up_only_its_own_topics(tmp_path: Path, metadata_url: str) -> None:
    async with shared_fleet(tmp_path, metadata_url, 3) as (damaged, gone, taker):
        await acknowledge_one_of_two(taker)
        member = member_of(taker)
        await member.look()
        assert member.owners.owned_by("machine-1") and member.owners.owned_by("machine-2")
        await end_damaged(damaged, taker)
        await meta_of(taker).ownership.close_session("machine-2", member_of(gone).session)
        await member.look()
        for _ in range(2):
            await member.adopt()
        assert not member.owners.owned_by("machine-2") and member.owners.owned_by("machine-1")
        assert member.still_unrecovered() == ["machine-1"]
        (seen, *_) = (await ask(taker, BROKERS_LIST, Request())).brokers
        assert "cannot be recovered" in seen.problem and "recover machine-1 --accept-loss" in seen.problem
        with pytest.raises(NotReady, match=r"is damaged.*--accept-loss"):
            await ask(taker, BROKERS_RECOVER, RecoverBroker(gone_broker_id="machine-1"))
        await ask(taker, BROKERS_RECOVER, RecoverBroker(gone_broker_id="machine-1", accept_loss=True))
        await member.adopt()
        assert not member.owners.owned_by("machine-1") and not member.still_unrecovered()
        assert not (await ask(taker, BROKERS_LIST, Request())).brokers[0].problem
        async with connect(taker.service.addresses.broker_url, taker.token("owner")) as client:
            for topic in TOPICS:
                async with client.consumer(topic, "s") as consumer:
                    assert (await consumer.receive(timeout_s=20)).payload in (b"a", b"b"), "nothing that was published is lost"


async def test_a_broker_that_cannot_be_recovered_keeps_no_other_from_being_ended(tmp_path: Path, metadata_url: str) -> None:
    async with shared_fleet(tmp_path, metadata_url, 3) as (_, _, taker):
        ended: list[str] = []

        async def end(broker_id: str, session: int, *, gone: bool = False) -> None:
            ended.append(broker_id)
            if broker_id == "machine-1":
                raise RecoveryFailed("its log is damaged")

        member = member_of(taker)
        member.end_session = end  # type: ignore[method-assign]
        looking = GoneBrokers(member)
        sessions = member.owners.sessions
        for broker_id in ("machine-1", "machine-2"):
            refused = sessions[broker_id].addresses | {"rpc_url": "http://127.0.0.1:1"}
            sessions[broker_id] = sessions[broker_id]._replace(addresses=refused)

        async def look() -> bool:
            await looking.look()
            return set(ended) >= {"machine-1", "machine-2"}

        await eventually(look)


async def test_a_broker_that_is_gone_for_good_leaves_nothing(tmp_path: Path, metadata_url: str) -> None:
    async with shared_broker(tmp_path, metadata_url, 1) as staying:
        async with shared_broker(tmp_path, metadata_url, 2) as leaving:
            await member_of(staying).look()
            await acknowledge_one_of_two(leaving)
            with pytest.raises(Conflict, match="alive"):
                await ask(staying, BROKERS_FORGET, GoneBroker(gone_broker_id="machine-2"))
            await leaving.admin.own[HEALTH.name](Request())
            storage = leaving.service.storage
            nobodys = await storage.meta.next_ledger_id(storage.fence)
            await (await storage.ledgers.create(storage.fence, nobodys, {})).close()
        meta, ledgers = meta_of(staying), staying.service.storage.ledgers
        forgotten = await ask(staying, BROKERS_FORGET, GoneBroker(gone_broker_id="machine-2"))
        assert forgotten.ledgers >= 2, "one that nothing refers to, and those of its own topic"
        assert nobodys not in await ledgers.ledger_ids("broker/machine-2")
        assert await meta.get_topic("persistent://magnetar/system/health-machine-2") is None
        changes = await meta.ownership.ownership_changes(0)
        assert [session.broker_id for session in changes.sessions] == ["machine-1"]
        assert not [row for row in changes.rows if row.broker_id == "machine-2"]
        named, after = set[int](), ""
        while after is not None:
            some, after = await meta.referenced_ledgers(after=after)  # type: ignore[assignment]
            named |= set(some)
        assert set(await ledgers.ledger_ids("broker/machine-2")) <= named, "only what topics still have"
        with pytest.raises(NotFound, match="no broker machine-2"):
            await ask(staying, BROKERS_FORGET, GoneBroker(gone_broker_id="machine-2"))
        async with connect(staying.service.addresses.broker_url, staying.token("owner")) as client:
            for topic in TOPICS:
                async with client.consumer(topic, "s") as consumer:
                    assert (await consumer.receive(timeout_s=20)).payload == b"b"


async def test_a_broker_with_a_log_of_its_own_is_not_forgotten(tmp_path: Path) -> None:
    async with running_fleet(tmp_path, 2) as fleet:
        with pytest.raises(NotAllowed, match="log of its own"):
            await ask(fleet[0], BROKERS_FORGET, GoneBroker(gone_broker_id="broker-2"))
