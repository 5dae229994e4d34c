"""What stock clients sent and received is on the invoice, but for what the outage says: a small part of `make billing-campaign`,
without Java and without the tasks around the job."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pulsar
import pytest

from messaging.adminrpc.client import AdminRpc
from messaging.adminrpc.finding import BrokerChoice
from messaging.adminrpc.methods import USAGE_FLUSH
from messaging.adminrpc.usage import UsageFlush
from messaging.identity import service_token
from messaging.settings import Settings
from tests.compat.billing_traffic import Event, Traffic, expected, now_ms, reconnected, settle
from tests.compat.computed_usage import usage_of
from tests.compat.stock import Stock
from tests.support.brokers.standalone import Standalone
from workers.findings.outages import Outage, outages_below
from workers.rating.plan import plan_from
from workers.rating.rate import USAGE, month_of, rate, segments_of

pytestmark = [pytest.mark.xdist_group("standalone"), pytest.mark.standalone, pytest.mark.crash]
METERS = ("messages_in", "messages_out")
PLAN = {
    "plan": "counted", "version": 1, "currency": "EUR", "in_force_from": "2026-01-01T00:00:00Z",
    "prices": [{"meter": meter, "unit": "message", "price": "1"} for meter in METERS],
}  # fmt: skip


def test_messages_that_clients_sent_and_received_are_billed(standalone: Standalone, stock: Stock, tmp_path: Path) -> None:
    chance = Random(17)
    topics = _topics(standalone)
    settings = Settings(data_dir=str(standalone.folder))
    rpc = AdminRpc(BrokerChoice(settings).rpc_url, lambda: service_token(settings, "worker"), 30.0)
    traffic = Traffic(stock, standalone.admin_token)
    consumers = {topic: traffic.consumer(topic) for topic in topics}
    raw = standalone.folder / "usage" / "raw"
    before = set(outages_below(raw))
    try:
        for killed in (True, False):
            _exchange(traffic, consumers, chance)
            rpc.call(USAGE_FLUSH, UsageFlush(task_id="test"))
            if killed:  # what came since the flush is lost, and the receipts that come after the kill are not
                _exchange(traffic, consumers, chance)
                settle(standalone, topics)
                publishing = traffic.publish(topics[0], 400)
                publishing.wait(left=chance.randrange(50, 350))
                standalone.kill_child("broker")
                publishing.wait()
                reconnected(standalone, topics)
                for consumer in consumers.values():
                    traffic.drain(consumer, now_ms())
    finally:
        rpc.close()
    new = [outage for outage in outages_below(raw) if outage not in before]
    assert len(new) == 1 and new[0].from_ms < new[0].until_ms
    usage = usage_of(raw, tmp_path, set(topics))
    for topic in topics:
        for meter, events in (("messages_in", traffic.sent[topic]), ("messages_out", traffic.received[topic])):
            least, most = expected(events, new)
            assert least <= usage[meter][topic] <= most, (topic, meter, least, most, len(events))
            assert least < len(events)  # something was lost, or the kill proves nothing
    _assert_billed(usage)


def test_an_event_in_an_outage_is_billed_within_bounds() -> None:
    hole = Outage("b", 1, 100, 200)
    for event, counted in (
        (Event(10, 20), (1, 1)), (Event(210, 220), (1, 1)), (Event(110, 120), (0, 0)), (Event(90, 120), (0, 1)),
        (Event(110, 220), (1, 1)), (Event(90, 220), (1, 2)),
    ):  # fmt: skip
        assert expected([event], [hole]) == counted


def _topics(standalone: Standalone) -> list[str]:
    for path, body in (
        ("", {"name": "conserved"}),
        ("/conserved/namespaces", {"name": "one"}),
        ("/conserved/namespaces", {"name": "two"}),
    ):
        answer = standalone.http("POST", f"/api/v1/tenants{path}", body, standalone.admin_token)
        assert answer.status == 201, answer.text
    return [f"persistent://conserved/{name}" for name in ("one/orders", "two/orders")]


def _exchange(traffic: Traffic, consumers: dict[str, pulsar.Consumer], chance: Random) -> None:
    """Everything that is sent is received; some of it twice."""
    for topic, consumer in consumers.items():
        started_ms = now_ms()
        counts = [chance.randrange(20, 60) for _ in range(2)]
        for count, batch in zip(counts, (False, True), strict=True):
            traffic.publish(topic, count, batch=batch).wait()
        traffic.receive(consumer, sum(counts), started_ms, reject=chance.randrange(1, 4))


def _assert_billed(usage: dict[str, dict[str, int]]) -> None:
    start, end = month_of(datetime.now(UTC))
    segments = segments_of(start, end, [(start, "counted")], {"counted": [plan_from(PLAN)]})
    by_namespace = {
        meter: {topic.split("://")[1].rpartition("/")[0]: quantity for topic, quantity in usage[meter].items()} for meter in METERS
    }
    lines = {line.meter: line for line in rate(segments, [by_namespace], 720) if line.kind == USAGE}
    for meter, shares in by_namespace.items():
        assert lines[meter].quantity == sum(shares.values()) and lines[meter].amount == 100 * sum(shares.values())
        assert {share.namespace: share.quantity for share in lines[meter].shares} == shares
