"""History: what clients did is what is read of it, and what nobody saw is unknown."""

from __future__ import annotations

import pytest

from messaging.errors import NotReady
from messaging.history.cells import Cell
from messaging.history.points import COLUMNS, HOUR_MS, MINUTE_MS
from tenants.history import writing
from tenants.history.reading import Subject, read
from tenants.models import HistoryChunk, HistoryKnown, HistorySeries, Tenant
from tenants.scoping import platform_scope
from tests.support.brokers.worker_broker import START, Clock, WorkerBroker
from workers.environment import Environment
from workers.tasks.forgetting import forget_old
from workers.tasks.history import collect_history

pytestmark = pytest.mark.django_db
START_MS = int(START.timestamp() * 1000)
TOPIC = "persistent://acme/kept/t"
OF_TENANT = Subject("u1")
OF_TOPIC = Subject("u1", "acme/kept", TOPIC)
OF_SUBSCRIPTION = OF_TOPIC._replace(subscription="s")


class Time:
    """Both clocks of the broker, and its minutes."""

    def __init__(self, clock: Clock, broker: WorkerBroker, environment: Environment) -> None:
        self.clock, self.broker, self.environment = clock, broker, environment
        self.passed_ms = 0
        self.follow()

    def follow(self) -> None:
        """A broker that was started."""
        history = self.broker.real.service.metering.history
        history.passed_ms = lambda: self.passed_ms
        self.broker.real.run(history.sample())  # from here on
        history.buffer.take(history.buffer.take()[0])

    def pass_s(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.passed_ms += int(seconds * 1000)

    def minute(self, *, collect: bool = True) -> None:
        """Ends one."""
        self.pass_s(60)
        self.broker.real.run(self.broker.real.service.metering.history.sample())
        if collect:
            self.collect()

    def quiet(self) -> None:
        """Nothing happened for so long that rates are not sampled any more."""
        for topic in self.broker.real.service.topics:
            topic.rates = None

    def collect(self) -> dict[str, object]:
        return collect_history(self.environment, "run-1", lambda **_: None)

    def cells(self, minutes: int, about: Subject = OF_TENANT, step_ms: int = MINUTE_MS) -> list[Cell]:
        with platform_scope():
            return read(about, START_MS, START_MS + minutes * MINUTE_MS, step_ms)


@pytest.fixture
def time(clock: Clock, broker: WorkerBroker, environment: Environment) -> Time:
    Tenant.unscoped.create(name="acme", uid="u1")
    return Time(clock, broker, environment)


def column(cells: list[Cell], name: str) -> list[int]:
    return [cell.values[COLUMNS.index(name)] for cell in cells]


def known(cells: list[Cell]) -> list[bool]:
    return [cell.known_ms == cell.width_ms for cell in cells]


def test_each_minute_has_what_clients_did_in_it(time: Time, broker: WorkerBroker) -> None:
    broker.real.add(TOPIC, "s")
    broker.real.publish(TOPIC, b"one", b"two")
    time.minute()
    broker.real.publish(TOPIC, b"three")
    broker.real.acknowledge(TOPIC, "s", 0)
    time.minute()
    for about in (OF_TOPIC, Subject("u1", "acme/kept"), OF_TENANT):
        cells = time.cells(2, about)
        assert known(cells) == [True, True]
        assert column(cells, "messages_in") == [2, 1]
        assert column(cells, "backlog_entries") == [2, 2]
    assert column(time.cells(2, OF_TOPIC), "bytes_in")[0] > 0
    assert column(time.cells(2, OF_TOPIC), "timed_publishes")[0] >= 1
    of_subscription = time.cells(2, OF_SUBSCRIPTION)
    assert column(of_subscription, "backlog_entries") == [2, 2]
    assert column(of_subscription, "oldest_ms") == [START_MS, START_MS]
    assert column(of_subscription, "age_max_ms") == [60_000, 120_000]


def test_a_quiet_topic_costs_no_points_and_keeps_what_it_held(time: Time, broker: WorkerBroker) -> None:
    broker.real.add(TOPIC, "s")
    broker.real.publish(TOPIC, b"one")
    time.minute()
    time.quiet()
    time.minute()
    before = HistoryChunk.unscoped.count(), time.collect()["points"]
    for _ in range(3):
        time.minute()
    with platform_scope():
        assert sum(len(bytes(chunk.points)) for chunk in HistoryChunk.objects.all()) and before[1] == 0
    cells = time.cells(5, OF_SUBSCRIPTION)
    assert known(cells) == [True] * 5
    assert column(cells, "backlog_entries") == [1] * 5
    assert column(cells, "age_max_ms") == [60_000 * minute for minute in range(1, 6)]
    assert column(time.cells(5, OF_TOPIC), "messages_in") == [1, 0, 0, 0, 0]
    # What comes after the silence is in its own minute alone.
    broker.real.publish(TOPIC, b"two", b"three")
    time.minute()
    assert column(time.cells(6, OF_TOPIC), "messages_in") == [1, 0, 0, 0, 0, 2]


def test_the_time_in_which_a_broker_was_gone_is_unknown(time: Time, broker: WorkerBroker) -> None:
    broker.real.add(TOPIC, "s")
    broker.real.publish(TOPIC, b"one")
    time.minute()
    broker.real.publish(TOPIC, b"lost")  # stored, but the minute did not end
    broker.real.restart()
    time.pass_s(180)
    time.follow()
    time.minute()
    cells = time.cells(5, OF_TOPIC)
    assert known(cells) == [True, False, False, False, True]
    assert [cell.known_ms for cell in cells] == [60_000, 0, 0, 0, 60_000]
    assert [cell.held for cell in cells] == [True, False, False, False, False]  # nothing tells of the topic since
    broker.real.publish(TOPIC, b"two")
    time.minute()
    cells = time.cells(6, OF_TOPIC)
    assert column(cells, "messages_in") == [1, 0, 0, 0, 0, 1]
    assert (cells[5].held, column(cells, "backlog_entries")[5]) == (True, 3)


def test_a_clock_that_jumps_leaves_a_hole_or_counts_twice_and_invents_nothing(time: Time, broker: WorkerBroker) -> None:
    broker.real.add(TOPIC, "s")
    time.minute()
    time.clock.advance(120)  # forward, while no time passed
    broker.real.publish(TOPIC, b"one")
    time.minute()
    cells = time.cells(4, OF_TOPIC)
    assert [cell.known_ms for cell in cells] == [60_000, 0, 0, 60_000]
    assert column(cells, "messages_in") == [0, 0, 0, 1]
    time.clock.advance(-60)  # back
    broker.real.publish(TOPIC, b"two")
    time.minute()
    cells = time.cells(4, OF_TOPIC)
    assert (sum(column(cells, "messages_in")), cells[3].known_ms) == (2, 120_000)


def test_points_are_stored_once_and_wait_for_a_worker_that_is_away(time: Time, broker: WorkerBroker) -> None:
    broker.real.add(TOPIC, "s")
    broker.real.publish(TOPIC, b"one")
    time.minute(collect=False)
    broker.cut("the broker does not answer")
    with pytest.raises(NotReady):
        time.collect()
    broker.mend()
    broker.real.publish(TOPIC, b"two")
    time.minute(collect=False)
    taken: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        # It dies after it stored the batch and before it said so.
        store = writing.store
        patch.setattr(writing, "store", lambda batch: taken.append(store(batch)) or (_ for _ in ()).throw(OSError("killed")))
        with pytest.raises(OSError, match="killed"):
            time.collect()
    assert taken == [True]
    time.collect()
    assert column(time.cells(2, OF_TOPIC), "messages_in") == [1, 1]
    assert known(time.cells(2)) == [True, True]


def test_hours_are_made_of_minutes_once(time: Time, broker: WorkerBroker) -> None:
    broker.real.add(TOPIC, "s")
    for minute in range(61):
        if minute in (3, 59):
            broker.real.publish(TOPIC, b"m", b"m")
        time.minute()
        time.quiet()
    (hour,) = time.cells(60, OF_TOPIC, HOUR_MS)
    assert HistoryChunk.unscoped.filter(tier=HistoryChunk.HOURS).exists()
    values = dict(zip(COLUMNS, hour.values, strict=True))
    assert (hour.known_ms, values["messages_in"], values["backlog_max"], values["backlog_entries"]) == (HOUR_MS, 4, 4, 4)
    assert values["backlog_entry_ms"] == 2 * 56 * MINUTE_MS + 4 * MINUTE_MS
    assert time.collect()["hours"] == 0


def test_old_chunks_go_and_the_largest_tenant_gives_up_series(time: Time, broker: WorkerBroker) -> None:
    Tenant.unscoped.create(name="globex", uid="u2")
    for index in range(30):
        HistorySeries.unscoped.create(key=f"a{index}", tenant_uid="u1", topic=f"t{index}", broker_id="b", last_ms=START_MS + index)
    HistorySeries.unscoped.create(key="g", tenant_uid="u2", topic="g", broker_id="b", last_ms=START_MS)
    old = HistorySeries.unscoped.create(key="old", tenant_uid="u2", topic="old", broker_id="b", last_ms=1)
    HistoryChunk.unscoped.create(series=old, tier=HistoryChunk.HOURS, start_ms=0, points=b"")
    with platform_scope():
        assert writing.forget(START_MS, 10, lambda: None) == 1 + 21
    kept = set(HistorySeries.unscoped.values_list("key", flat=True))
    assert kept == {"g", *(f"a{index}" for index in range(21, 30))}
    assert not HistoryChunk.unscoped.exists()


def test_a_deleted_tenant_takes_its_history_along(time: Time, broker: WorkerBroker) -> None:
    broker.real.add(TOPIC, "s")
    broker.real.publish(TOPIC, b"one")
    time.minute()
    assert HistorySeries.unscoped.filter(tenant_uid="u1").exists()
    Tenant.unscoped.filter(uid="u1").delete()
    broker.real.publish(TOPIC, b"two")
    time.minute()  # what comes of it afterwards is dropped
    forget_old(time.environment, "run-2", lambda **_: None)
    assert not HistorySeries.unscoped.filter(tenant_uid="u1").exists()
    assert not HistoryChunk.unscoped.exists()


def test_what_a_tenant_lost_is_unknown_to_it_alone(time: Time, broker: WorkerBroker) -> None:
    broker.real.add(TOPIC, "s")
    time.minute()
    HistoryKnown.unscoped.create(
        broker_id=broker.real.settings.broker_id, kind="lost", tenant_uid="u2", from_ms=START_MS, until_ms=START_MS + MINUTE_MS
    )
    assert known(time.cells(1)) == [True]
    with platform_scope():
        (cell,) = read(Subject("u2"), START_MS, START_MS + MINUTE_MS, MINUTE_MS)
    assert cell.known_ms == 0
