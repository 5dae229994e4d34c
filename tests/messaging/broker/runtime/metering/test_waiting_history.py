"""History that waits when a broker stops is there when it starts again; after a kill that time is unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from messaging.adminrpc.history import HistoryPoint
from messaging.broker.runtime.metering.history_buffer import HistoryBuffer
from messaging.broker.runtime.metering.waiting_history import FILE, keep, take_up
from messaging.client import connect
from messaging.history.points import COLUMNS
from tests.support.brokers.running_broker import RunningBroker, running_broker

TOPIC = "persistent://acme/orders/t"


async def publish(broker: RunningBroker, count: int) -> None:
    await broker.say(("tenant", "acme", {"admin_roles": [], "uid": "u1"}), ("namespace", "acme/orders", {}))
    async with (
        connect(f"pulsar://127.0.0.1:{broker.port}", broker.token("superuser")) as client,
        client.producer(TOPIC) as producer,
    ):
        for _ in range(count):
            await producer.send(b"m")


def of(points: list[HistoryPoint], topic: str, column: str) -> int:
    return sum(point.values[COLUMNS.index(column)] for point in points if point.topic == topic and not point.subscription)


async def test_a_clean_stop_keeps_the_minute_that_has_begun(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await publish(broker, 3)
        began_ms = broker.service.now_ms()
    async with running_broker(tmp_path) as broker:
        number, points, spans = broker.service.metering.history.buffer.take()
        assert of(points, TOPIC, "messages_in") == 3
        of_tenant = [point for point in points if not point.namespace]
        assert of(of_tenant, "", "messages_in") == 3 and of(of_tenant, "", "stored_bytes") > 0, "a stop deletes nothing"
        assert [span.kind for span in spans] == ["covered"] and spans[0].until_ms >= began_ms
        broker.service.metering.history.buffer.take(number)
    async with running_broker(tmp_path) as broker:
        points = broker.service.metering.history.buffer.take()[1]
        assert of(points, TOPIC, "messages_in") == 0, "it was taken"


def test_a_file_that_cannot_be_read_costs_its_points_alone(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"{")
    buffer = HistoryBuffer(1_000)
    take_up(buffer, tmp_path)
    assert len(buffer) == 0 and not (tmp_path / FILE).exists()


def test_a_disk_that_takes_nothing_does_not_keep_a_broker_from_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(HistoryBuffer(1_000).close(), tmp_path / "absent")
    assert not (tmp_path / "absent").exists()
