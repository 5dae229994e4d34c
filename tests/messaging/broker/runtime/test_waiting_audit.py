"""Audit events that nobody took are there when a broker that was stopped starts again, each with its number; not after a kill."""

from __future__ import annotations

from pathlib import Path

import pytest

from messaging.adminrpc.audit import AuditTake, AuditTaken
from messaging.broker.runtime.waiting_audit import FILE, keep
from messaging.errors import NotReady
from messaging.permissions.model import Action, Principal, Resource
from tests.support.brokers.running_broker import RunningBroker, running_broker

APP = Principal("app@acme", "k1", address="10.0.0.1")


def deny(broker: RunningBroker, topic: str) -> None:
    name = f"persistent://acme/orders/{topic}"
    broker.service.audit.denied(APP, Action.PRODUCE, Resource("acme", "acme/orders", name))


def taken(broker: RunningBroker, boot_id: str = "", acknowledged: int = 0) -> AuditTaken:
    return broker.service.audit.take(AuditTake(boot_id=boot_id, acknowledged_sequence=acknowledged))


def told(answer: AuditTaken) -> list[tuple[int, str, int]]:
    return [(event.sequence, event.resource.rpartition("/")[2], event.count) for event in answer.events]


def file_below(folder: Path) -> Path:
    (kept,) = folder.rglob(FILE)
    return kept


async def test_a_clean_stop_keeps_what_nobody_took_and_what_nobody_acknowledged(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        deny(broker, "a")
        first = taken(broker)  # and the worker is killed
        for _ in range(2):
            deny(broker, "b")
    async with running_broker(tmp_path) as broker:
        again = taken(broker)
        assert again.boot_id == first.boot_id and again.events == first.events
        deny(broker, "b")
        assert told(taken(broker, first.boot_id, 1)) == [(2, "b", 3)]
    async with running_broker(tmp_path) as broker:
        assert told(taken(broker, first.boot_id, 2)) == []
        deny(broker, "c")
        assert told(taken(broker, first.boot_id, 2)) == [(3, "c", 1)]


async def test_a_killed_broker_is_another_run(tmp_path: Path) -> None:
    """The file is not there any more while it runs: what it had may be in the log already."""
    async with running_broker(tmp_path) as broker:
        deny(broker, "a")
        boot_id = taken(broker).boot_id
    kept = file_below(tmp_path)
    async with running_broker(tmp_path):
        assert not kept.exists()
    kept.unlink()  # as if it had been killed
    async with running_broker(tmp_path) as broker:
        assert (answer := taken(broker)).boot_id != boot_id and not answer.events


async def test_nothing_gets_a_number_once_the_file_is_written(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        audit = broker.service.audit
    deny(broker, "late")
    with pytest.raises(NotReady, match="its next run has the events"):
        audit.take(AuditTake())


async def test_a_file_that_cannot_be_read_costs_its_events_alone(tmp_path: Path) -> None:
    async with running_broker(tmp_path):
        pass
    file_below(tmp_path).write_bytes(b"{")
    async with running_broker(tmp_path) as broker:
        deny(broker, "a")
        assert told(taken(broker)) == [(1, "a", 1)]


async def test_a_disk_that_takes_nothing_does_not_keep_a_broker_from_its_end(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        deny(broker, "a")
        waiting = broker.service.audit.close()
    keep(waiting, tmp_path / "absent")
    assert not (tmp_path / "absent").exists()
