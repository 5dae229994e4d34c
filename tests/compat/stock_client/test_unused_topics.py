"""What stock clients see of topics that are created by use, with partitions, and deleted when nobody uses them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest

from tests.compat.scenarios import Platform, World, topic_path
from tests.support.brokers.standalone import Standalone
from tests.support.waiting import eventually_sync

pytestmark = [pytest.mark.xdist_group("standalone"), pytest.mark.standalone]
NAMESPACE = "persistent://public/default/"


@pytest.fixture(scope="module")
def deleting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A platform that deletes what nobody has used for two seconds, and looks every second."""
    running = Standalone(
        tmp_path_factory.mktemp("unused") / "data",
        MAGNETAR_AUTO_TOPIC_PARTITIONS="2",
        MAGNETAR_DELETE_INACTIVE_TOPICS="true",
        MAGNETAR_DELETE_INACTIVE_PARTITIONED_TOPICS="true",
        MAGNETAR_INACTIVE_TOPIC_AFTER_S="2",
        MAGNETAR_IDLE_TOPIC_UNLOAD_S="1",
        MAGNETAR_EXPIRY_INTERVAL_S="1",
    )
    running.start()
    yield running
    running.close()


@pytest.fixture
def world(deleting: Standalone, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    platform = Platform.of(deleting, tmp_path / "client.log")
    world = World(platform, request.node.name)
    yield world
    world.close()


def listed(world: World) -> list[str]:
    names = [world.admin("GET", f"persistent/public/default{what}").body for what in ("", "/partitioned")]
    return sorted(name.removeprefix(NAMESPACE) for some in names for name in some)


@pytest.mark.timeout(120)
def test_used_topics_stay_and_unused_ones_are_deleted(world: World, deleting: Standalone) -> None:
    used, unused = world.topic("used"), world.topic("unused")
    producer, consumer = world.producer(used), world.consumer(used)
    with_reader = world.topic("read")
    reader = world.reader(with_reader)
    world.send(unused, "a", "b")
    everything = [*_names(used), *_names(with_reader), *_names(unused)]
    assert world.client.get_topic_partitions(unused) == [f"{unused}-partition-{index}" for index in range(2)]
    assert set(everything) >= set(listed(world))
    eventually_sync(lambda: listed(world) == sorted([*_names(used), *_names(with_reader)]), 60)
    producer.send(b"still here")
    assert consumer.receive(5_000).data() == b"still here"
    assert not reader.has_message_available()
    world.send(unused, "again")
    assert set(_names(unused)) <= set(listed(world))


@pytest.mark.timeout(120)
def test_topics_with_subscriptions_stay(world: World) -> None:
    topic = world.topic()
    world.consumer(topic).close()
    world.send(topic, "a")
    gone = world.topic("gone")
    world.send(gone, "b")
    eventually_sync(lambda: not set(_names(gone)) & set(listed(world)), 60)
    consumer = world.consumer(topic)
    assert consumer.receive(5_000).data() == b"a"


@pytest.mark.timeout(180)
def test_topics_that_were_not_loaded_since_a_restart_go_too(world: World, deleting: Standalone) -> None:
    kept = world.topic("kept")
    world.consumer(kept).close()
    world.send(kept, "a")
    left = world.topic("left")
    world.send(left, "x")
    deleting.kill_child("broker")
    eventually_sync(lambda: not set(_names(left)) & set(_listed_or_nothing(world, _names(left))), 90)
    consumer = world.new_client(operation_timeout_seconds=30).subscribe(kept, "s")
    assert consumer.receive(10_000).data() == b"a"


@pytest.mark.timeout(120)
def test_a_producer_that_is_cut_off_from_its_topic_goes_on(world: World) -> None:
    """Its topic is deleted by force; the client opens it again, and it is a new one."""
    plain = f"{world.topic('x')}-partition-9"  # called like a partition, and plain
    producer = world.producer(plain)
    producer.send(b"a")
    assert world.admin("DELETE", f"{topic_path(plain)}?force=true").status == 204
    producer.send(b"b")
    reader = world.reader(plain)
    assert reader.read_next(5_000).data() == b"b"
    with pytest.raises(pulsar.Timeout):
        reader.read_next(300)


def _names(topic: str) -> list[str]:
    local = topic.removeprefix(NAMESPACE)
    return [local, *(f"{local}-partition-{index}" for index in range(2))]


def _listed_or_nothing(world: World, otherwise: list[str]) -> list[str]:
    """While the broker is away, what is asked for counts as there."""
    answer = world.admin("GET", "persistent/public/default")
    return listed(world) if answer.status == 200 else otherwise
