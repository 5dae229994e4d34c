"""A real broker that keeps its messages on real bookies is killed under load: what it answered is there after its restart."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from pathlib import Path

import pulsar
import pytest

from controlplane.doctor.databases import bookies
from messaging.bookkeeper_url import BookkeeperUrl
from messaging.storage.bookkeeper.store import BookkeeperLedgerStore
from messaging.storage.ledger_store import Unreachable
from tests.benchmarks.real_broker import RealBroker
from tests.compat.stock import Stock, receive
from tests.support.bookkeeper import install
from tests.support.bookkeeper.cluster import Cluster
from tests.support.waiting import eventually_sync

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("bookkeeper"),
    pytest.mark.skipif(not install.ready(), reason=f"no bookies: {install.NEEDED}"),
]
TOPIC = "persistent://public/default/kept"
MESSAGE_BYTES_MAX = 1 << 20


def broker_on(cluster: Cluster, folder: Path, store: str, **values: object) -> RealBroker:
    folder.mkdir(exist_ok=True)
    url = f"bookkeeper://{cluster.hosts}/ledgers?store={store}"
    return RealBroker(folder, ledger_url=url, message_bytes_max=MESSAGE_BYTES_MAX, ledger_entries_max=400, **values)


def stock(broker: RealBroker, folder: Path) -> Stock:
    return Stock(broker.addresses["broker_url"], folder / "client.log")


class Answers:
    """What a stock producer was told: the numbers that it got receipts for."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.enough = threading.Event()

    def publish(self, producer: pulsar.Producer, numbers: range) -> None:
        """Ends once 300 were answered, with others under way."""
        self.enough.clear()
        before = len(self.numbers)

        def told(number: int, result: pulsar.Result) -> None:
            if result == pulsar.Result.Ok:
                self.numbers.append(number)
            if len(self.numbers) - before >= 300:
                self.enough.set()

        for number in numbers:
            producer.send_async(b"%d" % number, lambda result, _id, number=number: told(number, result))
        assert self.enough.wait(60)


def test_a_stock_client_finds_all_that_a_killed_broker_answered(real_cluster: Cluster, tmp_path: Path) -> None:
    """Three lives; in each, messages are under way when the broker is killed."""
    answers = Answers()
    for life in range(3):
        broker = broker_on(real_cluster, tmp_path, "stock")
        client = stock(broker, tmp_path)
        producer = client.client().create_producer(TOPIC, send_timeout_millis=30_000, block_if_queue_full=True)
        answers.publish(producer, range(life * 5000, life * 5000 + 5000))
        broker.kill()
        client.close()
    broker = broker_on(real_cluster, tmp_path, "stock")
    client = stock(broker, tmp_path)
    consumer = client.client().subscribe(TOPIC, "reader", initial_position=pulsar.InitialPosition.Earliest)
    waited_for, found = set(answers.numbers), list[int]()
    while waited_for:
        found.append(int(receive(consumer, 1)[0].data()))
        waited_for.discard(found[-1])
    assert found == sorted(found), "one producer's messages come in their order"
    client.close()
    broker.close()
    assert not (tmp_path / "broker" / "log").exists(), "nothing of it is on this machine"


def test_the_doctor_counts_bookies(real_cluster: Cluster) -> None:
    for ensemble, level in ((3, "ok"), (4, "warn"), (5, "fail")):
        finding = bookies(f"bookkeeper://{real_cluster.hosts}/ledgers?ensemble={ensemble}")
        assert finding.level == level and "4 bookies take writes" in finding.says, finding
    assert "its node LAYOUT is missing" in bookies(f"bookkeeper://{real_cluster.hosts}/elsewhere").says


def test_readiness_follows_the_bookies(real_cluster: Cluster, tmp_path: Path) -> None:
    broker = broker_on(real_cluster, tmp_path, "readiness")
    url = broker.addresses["ws_url"].replace("ws://", "http://") + "/readyz"

    def answer() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(url, timeout=10) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    eventually_sync(lambda: answer()[0] == 200, timeout_s=20)
    killed = real_cluster.bookies[:2]
    for bookie in killed:
        bookie.kill()
    eventually_sync(lambda: answer()[0] == 503, timeout_s=30)
    _, says = answer()
    assert "the BookKeeper of ledger_url" in says and "127.0.0.1" not in says, "where it is, not everybody may know"
    for bookie in killed:
        bookie.start()
    for bookie in killed:
        bookie.wait()
    eventually_sync(lambda: answer()[0] == 200, timeout_s=30)
    broker.close()


async def test_a_broker_without_enough_bookies_is_not_ready(real_cluster: Cluster) -> None:
    store = BookkeeperLedgerStore(BookkeeperUrl.parse(f"bookkeeper://{real_cluster.hosts}/ledgers?ensemble=5&store=ready"))
    await store.start()
    with pytest.raises(Unreachable, match="4 bookies take writes; a new ledger needs 5"):
        await store.ask()
    await store.stop()
