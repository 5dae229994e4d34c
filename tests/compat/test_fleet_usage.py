"""A broker of a fleet is killed under traffic that is written down, and others go on with its topics: what is billed is what
clients sent and received, but for what the dead one carried since it last wrote its usage."""

from __future__ import annotations

import json
import os
import signal
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

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
from tests.support.waiting import eventually_sync
from workers.findings.outages import Outage, outages_below

pytestmark = [pytest.mark.xdist_group("platforms"), pytest.mark.standalone, pytest.mark.crash]
TOPICS = [f"persistent://counted/fleet/orders-{number}" for number in range(6)]
STATS = {
    "messages_in": "msgInCounter",
    "bytes_in": "bytesInCounter",
    "messages_out": "msgOutCounter",
    "bytes_out": "bytesOutCounter",
}
BROKERS = ("broker", "broker-2")


class Fleet:
    """Two brokers that store in one database, and traffic of stock clients on topics of both."""

    def __init__(self, platform: Standalone, stock: Stock, rpc: AdminRpc) -> None:
        self.platform, self._rpc, self._chance = platform, rpc, Random(23)
        for path, body in (("", {"name": "counted"}), ("/counted/namespaces", {"name": "fleet"})):
            answer = platform.http("POST", f"/api/v1/tenants{path}", body, platform.admin_token)
            assert answer.status == 201, answer.text
        self.traffic = Traffic(stock, platform.admin_token)
        self.consumers = {topic: self.traffic.consumer(topic) for topic in TOPICS}

    def exchange(self, topics: list[str]) -> None:
        """All that is sent is received; some of it twice."""
        for topic in topics:
            started_ms = now_ms()
            counts = [self._chance.randrange(20, 60) for _ in range(2)]
            for count, batch in zip(counts, (False, True), strict=True):
                self.traffic.publish(topic, count, batch=batch).wait()
            self.traffic.receive(self.consumers[topic], sum(counts), started_ms, reject=self._chance.randrange(1, 4))

    def flush(self) -> None:
        self._rpc.call(USAGE_FLUSH, UsageFlush(task_id="test"))

    def topics_of(self, broker: str) -> list[str]:
        return [topic for topic in TOPICS if eventually_sync(partial(self._owner, topic)) == self._own_url(broker)]

    def _own_url(self, broker: str) -> str:
        return str(self._run_file(broker)["own_url"])

    def _run_file(self, broker: str) -> dict[str, Any]:
        return dict(json.loads((self.platform.folder / "run" / f"{broker}.json").read_bytes()))

    def _owner(self, topic: str) -> str:
        answer = self.platform.http("GET", f"/lookup/v2/topic/{topic.replace('://', '/')}", token=self.platform.admin_token)
        assert answer.status == 200, answer.text
        return str(answer.json()["brokerUrl"])

    def kill(self, broker: str, topics: list[str]) -> tuple[float, float]:
        """Before it, and when others have its topics and it is back."""
        before = self.platform.child(broker)
        begun_ms = now_ms()
        os.kill(before["pid"], signal.SIGKILL)
        eventually_sync(lambda: self.platform.child(broker)["restarts"] > before["restarts"], 30)
        eventually_sync(lambda: self.platform.child(broker)["state"] == "ready", 30)
        for topic in topics:
            eventually_sync(partial(self._owner, topic), 30)
        return begun_ms, now_ms()

    def counters(self) -> dict[str, dict[str, int]]:
        """Topic -> meter -> what its owner has counted since it has the topic."""
        found = {}
        for topic in TOPICS:
            path = f"/admin/v2/{topic.replace('://', '/')}/stats"
            stats = self.platform.http("GET", path, token=self.platform.admin_token).json()
            found[topic] = {meter: int(stats[name]) for meter, name in STATS.items()}
        return found


def test_what_a_fleet_bills_after_one_of_its_brokers_is_killed(tmp_path: Path, client_log: Path, metadata_url: str) -> None:
    platform = Standalone(
        tmp_path / "data",
        *("--brokers", "2"),
        MAGNETAR_METADATA_URL=metadata_url,
        MAGNETAR_LEDGER_URL=metadata_url,
        MAGNETAR_USAGE_JOB_INTERVAL_S="86400",
    )
    platform.start()
    stock = Stock(platform.ready["broker_url"], client_log)
    settings = Settings(data_dir=str(platform.folder))
    rpc = AdminRpc(BrokerChoice(settings).rpc_url, lambda: service_token(settings, "worker"), 30.0)
    try:
        fleet = Fleet(platform, stock, rpc)
        fleet.exchange(TOPICS)
        fleet.flush()
        before = fleet.counters()
        killed = max(BROKERS, key=lambda broker: len(fleet.topics_of(broker)))
        lost = fleet.topics_of(killed)
        kept = [topic for topic in TOPICS if topic not in lost]
        assert lost and kept, "each broker has some of the topics"
        fleet.exchange(TOPICS)  # what the killed one carried of this is lost
        settle(platform, TOPICS)
        publishing = fleet.traffic.publish(lost[0], 400)
        publishing.wait(left=200)
        begun_ms, back_ms = fleet.kill(killed, lost)
        publishing.wait()
        reconnected(platform, TOPICS)
        for consumer in fleet.consumers.values():
            fleet.traffic.drain(consumer, begun_ms)
        fleet.exchange(TOPICS)
        fleet.flush()
        after = fleet.counters()
    finally:
        rpc.close()
        stock.close()
        platform.close()
    raw = platform.folder / "usage" / "raw"
    outages = outages_below(raw)
    assert len(outages) == 1 and outages[0].from_ms < begun_ms <= outages[0].until_ms, outages
    usage = usage_of(raw, tmp_path, set(TOPICS))
    # Others went on with its topics before it was back. When is not known: a receipt that a client saw after the kill may be one
    # that the dead one sent before, which the client had not looked at.
    longest, shortest = (outages[0]._replace(until_ms=int(until_ms)) for until_ms in (back_ms, begun_ms))
    for topic in TOPICS:
        holes = (longest, shortest) if topic in lost else ()
        for meter, events in (("messages_in", fleet.traffic.sent[topic]), ("messages_out", fleet.traffic.received[topic])):
            _assert_counted(topic, meter, usage[meter][topic], events, holes)
    # Bytes, too: those of the dead one that were written, and those that the other one counted since, where it kept the topic.
    compared = 0
    for topic in TOPICS:
        counted = {meter: after[topic][meter] + (before[topic][meter] if topic in lost else 0) for meter in STATS}
        billed = {meter: usage[meter][topic] for meter in STATS}
        if counted["messages_in"] == billed["messages_in"]:
            assert counted == billed, topic
            compared += 1
    assert compared, "no topic stayed where it was"


def _assert_counted(topic: str, meter: str, billed: int, events: list[Event], holes: tuple[Outage, ...]) -> None:
    bounds = [expected(events, [hole]) for hole in holes] or [expected(events, [])]
    least, most = min(bound.least for bound in bounds), max(bound.most for bound in bounds)
    assert least <= billed <= most, f"{topic}: {billed} {meter} are billed, clients saw {len(events)}, {least} to {most} are to be"
    if not holes:
        assert least == most == len(events)
    else:
        assert least < len(events)  # something was lost, or the kill proves nothing
