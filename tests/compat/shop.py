"""A platform that somebody might come to: several tenants, names as they are in earnest, 200 topics, messages of yesterday, a
consumer that takes nothing any more, and a bill."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from tests.support.brokers.standalone import Standalone
from tests.support.clients.raw_client import RawClient

TENANT = "northwind"
NAMESPACE = "webshop-orders-and-payments-europe-production"
ORDERS = f"persistent://{TENANT}/{NAMESPACE}/orders"
FULFILMENT, BOOKKEEPING = "fulfilment", "bookkeeping"
OWNER, PASSWORD = "ida", "orbit-lantern-42"
TOPICS = 200
UNACKED_MAX = 50
YESTERDAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
MESSAGES_A_MINUTE = 1  # of yesterday, from 13:00 to 16:00 UTC
FIRST_ORDER = 4600  # the one of 13:00

_PEOPLE = f"""
from tenants.access import platform_actor
from tenants.actions import create_tenant, set_member
from tenants.actions.people import create_person
actor = platform_actor("service:cli")
for tenant in ("contoso", "globex-logistics", "initech", {TENANT!r}):
    create_tenant(actor, tenant)
create_person(actor, {OWNER!r}, {PASSWORD!r})
create_person(actor, "carla", {PASSWORD!r})
set_member(actor, {TENANT!r}, {OWNER!r}, "owner")
set_member(actor, "contoso", {OWNER!r}, "viewer")
"""
_BILL = f"""
from datetime import UTC, datetime, timedelta
from tenants.models import Tenant
from tests.support.billing.billing_rows import GIB, PLAN, use, with_plan
from workers.billing.drafts import refresh
tenant, now = Tenant.unscoped.get(name={TENANT!r}), datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
stored = {{"meter": "stored_byte_seconds", "unit": "GiB-month", "price": "0.10"}}
prices = [*PLAN["prices"], stored]
month = (now - timedelta(days=1)).replace(day=1, hour=0)
with_plan(tenant, {{**PLAN, "base_fee": "5.00", "in_force_from": "2026-01-01T00:00:00Z", "prices": prices}}, month)
for day in range(2, 6):
    hour, run = now.replace(hour=12) - timedelta(days=day), f"run-{{day}}"
    clicks = {{"bytes_in": GIB, "bytes_out": GIB, "messages_in": 9_000, "messages_out": 9_000}}
    use(tenant, hour, run, topic="analytics/clicks-raw", **clicks, stored_byte_seconds=2_000 * GIB * 86_400)
    use(tenant, hour, run, topic="{NAMESPACE}/orders", bytes_in=3 * GIB, messages_in=5_000, messages_out=5_000)
refresh(tenant, month, now)
"""


def furnish(platform: Standalone) -> None:
    """People, tenants, namespaces, topics and a bill."""
    platform.run_python(_PEOPLE)

    def api(method: str, path: str, body: Any = None) -> Any:
        answer = platform.http(method, f"/api/v1/tenants/{path}", body, platform.admin_token)
        assert answer.status in (200, 201, 204), f"{method} {path}: {answer.status} {answer.text}"
        return answer.json() if answer.text else None

    for tenant in ("contoso", "globex-logistics", "initech"):
        api("POST", f"{tenant}/namespaces", {"name": "events"})
    for name in (NAMESPACE, "analytics", "inventory-and-suppliers"):
        api("POST", f"{TENANT}/namespaces", {"name": name})
    kept = {"retention_time_min": 7 * 24 * 60, "retention_size_mb": 1024}
    api("PATCH", f"{TENANT}/namespaces/{NAMESPACE}/policies", {**kept, "max_unacked_per_consumer": UNACKED_MAX})
    api("PATCH", f"{TENANT}/namespaces/analytics/policies", {"retention_time_min": 30 * 24 * 60, "retention_size_mb": 10_240})
    names = [f"order-events-of-market-{number:03d}" for number in range(TOPICS - 2)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: api("POST", f"{TENANT}/namespaces/{NAMESPACE}/topics", {"name": name}), names))
    api("POST", f"{TENANT}/namespaces/analytics/topics", {"name": "clicks-raw"})
    platform.run_python(_BILL)


async def open_shop(platform: Standalone) -> list[RawClient]:
    """Publishes what yesterday and today brought; returns the clients that stay connected: the producer, the consumer of fulfilment
    that acknowledges nothing, and that of bookkeeping."""
    clients = [await _connected(platform, version) for version in ("Pulsar-CPP-v3.7.0", "Pulsar Java 4.0.1", "Pulsar Go 0.14")]
    producer, stopped, books = clients
    await books.subscribe(ORDERS, BOOKKEEPING, permits=1_000, sub_type=pb.Subscribe.Exclusive)
    await stopped.subscribe(ORDERS, FULFILMENT, permits=1_000)
    await producer.producer(ORDERS)
    count = 180 * MESSAGES_A_MINUTE
    for number in range(count):
        at = YESTERDAY + timedelta(hours=13, minutes=number)
        await _publish(producer, number, FIRST_ORDER + number, at)
    for number in range(40):
        await _publish(producer, count + number, FIRST_ORDER + count + number, datetime.now(UTC))
    for _ in range(count + 40):
        message = await books.next()
        if message.name == "MESSAGE":
            books.say(pb.Command.ACK, consumer_id=1, ack_type=pb.Ack.Individual, message_id=[message.body.message_id])
    return clients


async def _publish(producer: RawClient, sequence_id: int, order: int, at: datetime) -> None:
    body = {"order": order, "customer": f"customer-{order % 37}", "total": f"{order % 90}.90", "currency": "EUR"}
    metadata = pb.Metadata(
        producer_name="webshop",
        sequence_id=sequence_id,
        publish_time=int(at.timestamp() * 1000),
        partition_key=str(order),
        properties=[pb.KeyValue(key="source", value="checkout")],
    )
    producer.write(frames.build_send(1, sequence_id, metadata, json.dumps(body).encode()))
    await producer.expect("SEND_RECEIPT")


async def _connected(platform: Standalone, version: str) -> RawClient:
    client = await RawClient.open(int(platform.ready["broker_url"].rpartition(":")[2]))
    await client.connect(platform.admin_token, version=version)
    return client
