"""The task that compacts topics: what was requested, one topic after another."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from messaging.adminrpc.compaction import CompactionBegin, CompactionStatus
from messaging.adminrpc.methods import COMPACTION_BEGIN, TOPICS_COMPACT, TOPICS_COMPACTION_STATUS
from messaging.adminrpc.topics import TopicRef
from messaging.errors import NotReady
from messaging.settings import Settings
from tests.support.brokers.worker_broker import Clock, WorkerBroker
from workers import part_files
from workers.compaction import compact_topic
from workers.environment import Environment, Stopping
from workers.part_files import DiskPart
from workers.runs import run_recorded
from workers.schedule import COMPACT_TOPICS
from workers.tasks.compaction import compact_topics

pytestmark = pytest.mark.django_db


def request(broker: WorkerBroker, topic: TopicRef) -> None:
    broker.add(topic.topic, [1, 1])
    with broker.real.called_by("web"):
        broker.call(TOPICS_COMPACT, topic)


def requested(broker: WorkerBroker, *names: str) -> list[TopicRef]:
    topics = [TopicRef(topic=f"persistent://acme/kept/{name}") for name in names]
    for topic in topics:
        request(broker, topic)
    return topics


def status(broker: WorkerBroker, topic: TopicRef) -> CompactionStatus:
    with broker.real.called_by("web"):
        return broker.call(TOPICS_COMPACTION_STATUS, topic)


def test_requested_topics_are_compacted_once(environment: Environment, broker: WorkerBroker) -> None:
    topics = requested(broker, "one", "two")
    summary = run_recorded(environment, COMPACT_TOPICS, "run-1", compact_topics)
    assert summary == {"outcome": "succeeded", "compacted": 2, "removed_messages": 4, "failures": 0, "failed": {}}
    assert {status(broker, topic).status for topic in topics} == {"SUCCESS"}
    again = run_recorded(environment, COMPACT_TOPICS, "run-2", compact_topics)
    assert again["compacted"] == 0
    assert list((environment.settings.data_path / "compaction").iterdir()) == []


def test_what_a_killed_worker_left_on_the_disk_goes_with_the_next_run(environment: Environment, broker: WorkerBroker) -> None:
    """Its session had a name of its own, so no later compaction came by: gigabytes stayed with each kill."""
    left = environment.settings.data_path / "compaction" / "session-of-a-killed-worker"
    left.mkdir(parents=True)
    (left / "part-0").write_bytes(b"records")
    requested(broker, "one")
    assert run_recorded(environment, COMPACT_TOPICS, "run-1", compact_topics)["compacted"] == 1
    assert list((environment.settings.data_path / "compaction").iterdir()) == []


def test_a_topic_that_fails_does_not_hold_up_the_others(environment: Environment, broker: WorkerBroker) -> None:
    first, second = requested(broker, "one", "two")
    broker.real.service.compactions.forget(first.topic)  # whoever asked for it is forgotten: another worker has begun
    environment.rpc.call(COMPACTION_BEGIN, CompactionBegin(topic=first.topic, task_id="other"))
    assert run_recorded(environment, COMPACT_TOPICS, "run-1", compact_topics)["compacted"] == 1
    assert (status(broker, first).status, status(broker, second).status) == ("RUNNING", "SUCCESS")


def test_a_worker_that_ends_in_the_middle_gives_its_compaction_up(environment: Environment, broker: WorkerBroker) -> None:
    (topic,) = requested(broker, "one")
    environment.stopping.set()
    assert run_recorded(environment, COMPACT_TOPICS, "run-1", compact_topics)["outcome"] == "failed"
    assert status(broker, topic).status == "RUNNING"  # still requested
    environment.stopping.clear()
    assert run_recorded(environment, COMPACT_TOPICS, "run-2", compact_topics)["compacted"] == 1


def test_a_topic_that_raises_anything_does_not_hold_up_the_others(
    environment: Environment, broker: WorkerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = requested(broker, "one", "two")

    def compact(environment: Environment, topic: str, task_id: str, renew: Callable[[], None]) -> int:
        if topic == first.topic:
            raise ValueError("what nobody thought of")
        return compact_topic(environment, topic, task_id, renew)

    monkeypatch.setattr("workers.tasks.compaction.compact_topic", compact)
    summary = run_recorded(environment, COMPACT_TOPICS, "run-1", compact_topics)
    assert (summary["compacted"], summary["failed"]) == (1, {first.topic: "ValueError: what nobody thought of"})
    assert status(broker, second).status == "SUCCESS"


def test_topics_of_one_tenant_do_not_hold_up_those_of_another(
    environment: Environment,
    broker: WorkerBroker,
    clock: Clock,
    settings_of: Callable[..., Settings],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seen: the topics of one tenant were compacted one after another, before those of the next. What a tenant begins to wait for
    in the middle of them is found within a minute."""
    environment = replace(environment, settings=settings_of(compactions_at_once=1))
    tenants = ("acme", "other", "third")
    broker.real.tell(2, {("tenant", name): {} for name in tenants} | {("namespace", f"{name}/kept"): {} for name in tenants})
    requested(broker, *(f"t{number:02}" for number in range(30)))
    served: list[str] = []

    def wait(topic: str) -> None:
        request(broker, TopicRef(topic=topic))

    def compact(environment: Environment, topic: str, task_id: str, renew: Callable[[], None]) -> int:
        served.append(topic.split("/")[2])
        clock.advance(30 if served[-1] == "other" else 15)  # as long as two of the first tenant's
        if len(served) == 5:
            wait("persistent://third/kept/t")
        return 0

    for name in ("one", "two"):
        wait(f"persistent://other/kept/{name}")
    monkeypatch.setattr("workers.tasks.compaction.compact_topic", compact)
    assert run_recorded(environment, COMPACT_TOPICS, "run-1", compact_topics)["compacted"] == 33
    assert served[:5] == ["acme", "other", "acme", "acme", "other"]
    assert served.index("third") <= 8


def test_a_large_topic_does_not_hold_up_those_of_other_tenants(
    environment: Environment, broker: WorkerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One tenant's topics are compacted one after another, and two tenants' at once; a third waits for its turn."""
    tenants = ("acme", "other", "third")
    broker.real.tell(2, {("tenant", name): {} for name in tenants} | {("namespace", f"{name}/kept"): {} for name in tenants})
    for tenant in tenants:
        for name in ("one", "two"):
            request(broker, TopicRef(topic=f"persistent://{tenant}/kept/{name}"))
    lock, begun, others_done = threading.Lock(), threading.Event(), threading.Event()
    under_way: list[str] = []
    seen: list[list[str]] = []
    ended: list[str] = []

    def compact(environment: Environment, topic: str, task_id: str, renew: Callable[[], None]) -> int:
        tenant = topic.split("/")[2]
        with lock:
            under_way.append(tenant)
            seen.append(sorted(under_way))
        if tenant != "acme":
            assert begun.wait(30)
        elif topic.endswith("one"):
            begun.set()
            assert others_done.wait(30)  # as long as all topics of the others take
        with lock:
            under_way.remove(tenant)
            ended.append(tenant)
            if ended.count("other") + ended.count("third") == 4:
                others_done.set()
        return 1

    monkeypatch.setattr("workers.tasks.compaction.compact_topic", compact)
    assert run_recorded(environment, COMPACT_TOPICS, "run-1", compact_topics)["removed_messages"] == 6
    assert max(map(len, seen)) == 2 and all(len(set(tenants_at_once)) == len(tenants_at_once) for tenants_at_once in seen)
    assert ended[-2:] == ["acme", "acme"]


def test_a_run_that_loses_its_lease_ends_what_is_under_way(
    environment: Environment, broker: WorkerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested(broker, "one")
    begun = threading.Event()

    def compact(environment: Environment, topic: str, task_id: str, renew: Callable[[], None]) -> int:
        begun.set()
        while True:  # until it is told to give up
            renew()

    def lost() -> None:
        if begun.is_set():
            raise Stopping("another worker took over the lease")

    monkeypatch.setattr("workers.tasks.compaction.compact_topic", compact)
    monkeypatch.setattr("workers.tasks.compaction.RENEW_S", 0.001)
    with pytest.raises(Stopping, match="took over"):
        compact_topics(environment, "run-1", lost)


def test_files_of_a_compaction_leave_room_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = DiskPart(tmp_path / "part")
    file.write(bytes(48))
    monkeypatch.setattr(part_files, "FREE_BYTES_MIN", shutil.disk_usage(tmp_path).total + 1)
    with pytest.raises(NotReady, match="the worker's disk"):
        file.write(bytes(24))
    assert b"".join(file.read()) == bytes(48)
