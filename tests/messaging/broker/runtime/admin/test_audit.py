"""What clients of a real broker leave for the audit log, over the binary protocol and WebSockets, and who may take it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import websockets

from messaging.adminrpc.audit import AuditEvent, AuditTake
from messaging.adminrpc.subscriptions import SubscriptionCreate, SubscriptionDelete
from messaging.broker.http.websocket.upgrade import WEBSOCKET_ROUTES
from messaging.broker.runtime.admin.handlers import AdminHandlers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.broker_metrics import broker_samples
from messaging.identity import issue_token
from messaging.permissions.audited import BROKER_AUDITED
from messaging.permissions.table import BINARY
from messaging.protocol import pulsar_pb2 as pb
from tests.support.brokers.running_broker import running_broker
from tests.support.clients.raw_client import RawClient
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import KEYS, BrokerWorld

C = pb.Command
TOPIC = "persistent://acme/orders/t"


async def events(service: Broker) -> list[AuditEvent]:
    return (await AdminHandlers(service).usage.take_audit_events(AuditTake())).events


async def known(world: BrokerWorld) -> None:
    """The tenants of the world have ids, as those of a real one."""
    keys = [("key", "owner", {"role": "owner@acme", "tenant": "acme", "tenant_uid": "u-acme", "revoked": False})]
    keys += [("key", "reader", {"role": "reader@acme", "tenant": "acme", "tenant_uid": "u-acme", "revoked": False})]
    keys += [("key", "writer", {"role": "writer@acme", "tenant": "acme", "tenant_uid": "u-acme", "revoked": False})]
    await world.feed(("tenant", "acme", {"admin_roles": ["owner@acme"], "uid": "u-acme"}), *keys)


async def fails(world: BrokerWorld, **fields: Any) -> None:
    client: RawClient = await world.client()
    client.say(C.CONNECT, client_version="x", **fields)
    assert [one.name for one in await client.gone()] == ["ERROR"]


def test_the_table_names_commands_and_paths_that_exist() -> None:
    assert set(BROKER_AUDITED) <= {*BINARY, *WEBSOCKET_ROUTES}


async def test_failed_sign_ins_of_nobody_are_counted_by_address(world: BrokerWorld) -> None:
    for token in (b"bad", b"bad", b"worse"):
        await fails(world, auth_method_name="token", auth_data=token)
    await fails(world, auth_method_name="tls")
    found = await events(world.service)
    assert {(one.action, one.role, one.address, one.tenant_uid) for one in found} == {
        ("broker.sign_in_failed", "", "127.0.0.1", ""),
    }
    assert sorted(one.count for one in found) == [1, 3]


@pytest.mark.parametrize("how", ["revoked", "expired"])
async def test_a_key_that_holds_no_longer_is_in_its_tenants_log(world: BrokerWorld, how: str) -> None:
    await known(world)
    expires_s = int(time.time()) - 5 if how == "expired" else None
    token = issue_token(world.service.settings, KEYS["reader"], "reader", int(time.time()) - 10, expires_s)
    if how == "revoked":
        state = {"role": "reader@acme", "tenant": "acme", "tenant_uid": "u-acme", "revoked": True}
        await world.feed(("key", "reader", state))
    await fails(world, auth_method_name="token", auth_data=token.encode())
    (one,) = await events(world.service)
    assert (one.action, one.role, one.key_id, one.tenant, one.tenant_uid, one.resource) == (
        "broker.sign_in_failed",
        "reader@acme",
        "reader",
        "acme",
        "u-acme",
        "acme",
    )
    assert how in one.reason


async def test_what_a_role_lacks_is_counted_by_resource(world: BrokerWorld) -> None:
    await known(world)
    stranger, reader = await world.connected("stranger"), await world.connected("reader")
    for _ in range(2):
        stranger.say(C.LOOKUP, topic=TOPIC)
        assert (await stranger.expect("LOOKUP_RESPONSE")).error == pb.AuthorizationError
    reader.say(C.PRODUCER, topic=TOPIC, producer_id=1)
    await reader.expect("ERROR")
    stranger.say(C.SUBSCRIBE, topic=TOPIC, consumer_id=1, subscription="s", sub_type=pb.Subscribe.Shared)
    await stranger.expect("ERROR")
    found = [
        (one.action, one.role, one.key_id, one.tenant_uid, one.resource, one.reason, one.count)
        for one in await events(world.service)
    ]
    assert found == [
        ("broker.denied", "stranger@other", "stranger", "u-acme", TOPIC, "lacks lookup", 2),
        ("broker.denied", "reader@acme", "reader", "u-acme", TOPIC, "lacks produce", 1),
        ("broker.denied", "stranger@other", "stranger", "u-acme", f"{TOPIC}/s", "lacks consume", 1),
    ]


async def test_durable_subscriptions_are_recorded_where_something_was_done(world: BrokerWorld) -> None:
    await known(world)
    client = await world.connected("owner")
    await client.producer(TOPIC, initial_subscription_name="first")
    await client.subscribe(TOPIC, "s")
    await client.subscribe(TOPIC, "s", consumer_id=2)  # it is there already
    await client.subscribe(TOPIC, "reader", consumer_id=3, durable=False)
    client.say(C.CLOSE_CONSUMER, consumer_id=2)
    await client.expect("SUCCESS")
    client.say(C.SEEK, consumer_id=3, message_id=pb.MessageId(ledger_id=2**63 - 1, entry_id=2**63 - 1))
    await client.expect("CLOSE_CONSUMER")
    await client.expect("SUCCESS")
    client.say(C.UNSUBSCRIBE, consumer_id=1)
    await client.expect("SUCCESS")
    await client.subscribe(TOPIC, "s", consumer_id=4)
    client.say(C.SEEK, consumer_id=4, message_id=pb.MessageId(ledger_id=2**63 - 1, entry_id=2**63 - 1))
    await client.expect("CLOSE_CONSUMER")
    found = await events(world.service)
    assert [(one.action, one.resource, one.count) for one in found] == [
        ("subscription.create", f"{TOPIC}/first", 1),
        ("subscription.create", f"{TOPIC}/s", 2),
        ("subscription.delete", f"{TOPIC}/s", 1),
        ("subscription.seek", f"{TOPIC}/s", 1),
    ]
    assert {(one.role, one.key_id, one.address, one.tenant) for one in found} == {("owner@acme", "owner", "127.0.0.1", "acme")}
    assert found[1].after and found[2].before and found[3].before and found[3].after


async def test_websockets_leave_the_same(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.say(("tenant", "acme", {"admin_roles": [], "uid": "u-acme"}))
        path = f"{broker.ws_url}/ws/v2/consumer/persistent/acme/orders/t/s"
        owner = {"Authorization": f"Bearer {broker.token('owner')}"}
        await broker.say(("key", "owner", {"role": "owner@acme", "tenant": "acme", "tenant_uid": "u-acme", "revoked": False}))
        async with websockets.connect(path, additional_headers=owner, proxy=None) as connection:
            await connection.send('{"type": "unsubscribe"}')
            await eventually(lambda: broker.service.audit.events.pending == 2)
        await broker.say(("key", "writer", {"role": "writer@acme", "tenant": "acme", "tenant_uid": "u-acme", "revoked": False}))
        for token in (broker.token("writer"), "bad"):
            with pytest.raises(websockets.InvalidStatus):
                await websockets.connect(path, additional_headers={"Authorization": f"Bearer {token}"}, proxy=None)
        found = [(one.action, one.role, one.address, one.tenant) for one in await events(broker.service)]
        assert found == [
            ("subscription.create", "owner@acme", "127.0.0.1", "acme"),
            ("subscription.delete", "owner@acme", "127.0.0.1", "acme"),
            ("broker.denied", "writer@acme", "127.0.0.1", "acme"),
            ("broker.sign_in_failed", "", "127.0.0.1", ""),
        ]


async def test_the_admin_rpc_says_where_a_subscription_stood(world: BrokerWorld) -> None:
    """For the record of whoever asked over REST; the broker's own table holds what clients do, not this."""
    client = await world.connected("owner")
    await client.producer(TOPIC)
    made = await world.admin.subscriptions.create(SubscriptionCreate(topic=TOPIC, subscription="s", ledger_id=-1, entry_id=-1))
    mark_delete = world.service.topics.loaded[TOPIC].subscriptions.table["s"].cursor.mark_delete
    place = f"{mark_delete.ledger_id}:{mark_delete.entry_id}"
    assert made.moved == {TOPIC: ("", place)}
    deleted = await world.admin.subscriptions.delete(SubscriptionDelete(topic=TOPIC, subscription="s"))
    assert deleted.moved == {TOPIC: (place, "")}
    assert await events(world.service) == []


async def test_an_acknowledgement_for_another_run_of_the_broker_takes_nothing_away(world: BrokerWorld) -> None:
    await fails(world, auth_method_name="tls")
    taken = await world.admin.usage.take_audit_events(AuditTake())
    assert len((await world.admin.usage.take_audit_events(AuditTake(boot_id="another", acknowledged_sequence=9))).events) == 1
    done = AuditTake(boot_id=taken.boot_id, acknowledged_sequence=taken.events[-1].sequence)
    assert (await world.admin.usage.take_audit_events(done)).events == []
    samples = {sample.name: sample.value for sample in broker_samples(world.service, private=False)}
    assert (samples["magnetar_audit_events_total"], samples["magnetar_audit_events_pending"]) == (1, 0)
