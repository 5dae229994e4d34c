"""`magnetar bench fleet`: what several brokers of one machine do together, and what clients feel when a bundle moves.

Two parts. Brokers that share one machine, each with its log: messages of one alone beside those of two at once, with a generator
for each, look-ups that several answer at once, and many topics divided among four, of which one is killed. Brokers over one
database, where it is named: the same topics; and bundles are moved to and fro under a stock client, and what counts is the longest
time without a receipt.
"""

from __future__ import annotations

import select
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median

import psycopg
import pulsar

from messaging.adminrpc.bundles import BundleMoved
from messaging.adminrpc.methods import BUNDLES_MOVE
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.bundles import position_of
from messaging.protocol.frames import command, decode
from tests.benchmarks import fleet_topics, load, wire
from tests.benchmarks.generator import Generator, Loaded
from tests.benchmarks.load import Stalled
from tests.benchmarks.real_broker import RealBroker
from tests.benchmarks.report import Figure, Progress, Section, Table, number
from tests.support.databases import forget_broker

LOADS = {
    "1 KiB x 100 a batch, 50 in flight": ("-size", "1024", "-batch", "100", "-window", "50"),
    "128 B x 100 a batch, 100 in flight": ("-size", "128", "-batch", "100", "-window", "100"),
}
TWO_X_MIN, CPU_X_MAX = 1.6, 1.15
LOOKUP_BROKERS, LOOKUPS, LOOKUP_WINDOW = 4, 100_000, 400
LOOKUPS_A_CORE_MIN = 10_000
TOPICS, TOPIC_BROKERS = 100_000, 4
MOVES, MOVED_TOPICS, PAUSE_S, PUBLISH_S = 12, 4, 2.0, 0.005
GAP_MS_MAX = 200.0
_NAMESPACE = "public/default"


def run(
    directory: Path | None, generator: Generator, database_url: str, scale: float, progress: Progress, topics: int = TOPICS
) -> Section:
    """`database_url` "": bundles are not moved. Raises `Stalled` if a broker does not answer."""
    section = Section(
        "Several brokers",
        "Brokers and generators share the processors of this machine, so two brokers that are busy at once leave less for each, "
        "and on two processors the generators bound the sum; CPU of a message is what does not depend on that.",
    )
    with tempfile.TemporaryDirectory(dir=directory, prefix="magnetar-bench-") as made, ExitStack() as stack:
        brokers = of_one_machine(stack, Path(made), 2, progress)
        _publishing(section, brokers, generator, max(1.0, 4.0 * scale), 5 if scale >= 0.5 else 2, progress)
    with tempfile.TemporaryDirectory(dir=directory, prefix="magnetar-bench-") as made, ExitStack() as stack:
        brokers = of_one_machine(stack, Path(made), LOOKUP_BROKERS, progress)
        _looking_up(section, brokers, max(1_000, int(LOOKUPS * scale)), progress)
    with tempfile.TemporaryDirectory(dir=directory, prefix="magnetar-bench-") as made, ExitStack() as stack:
        many_of_one_machine(stack, section, Path(made), topics, progress)
    if database_url:
        with tempfile.TemporaryDirectory(dir=directory, prefix="magnetar-bench-") as made, ExitStack() as stack:
            stack.callback(forget_broker, database_url)
            many_over_database(stack, section, Path(made), database_url, topics, progress)
        with tempfile.TemporaryDirectory(dir=directory, prefix="magnetar-bench-") as made:
            _moving(section, Path(made), database_url, max(2, int(MOVES * scale)), progress)
    return section


def of_one_machine(stack: ExitStack, folder: Path, count: int, progress: Progress) -> list[RealBroker]:
    brokers = []
    for each in range(1, count + 1):
        progress(f"starting broker {each} of {count}")
        brokers.append(RealBroker(folder, brokers=count, broker_number=each, broker_id=f"broker-{each}"))
        stack.callback(brokers[-1].close)
    return brokers


# --- many topics


def many_of_one_machine(stack: ExitStack, section: Section, folder: Path, topics: int, progress: Progress) -> None:
    brokers = of_one_machine(stack, folder, TOPIC_BROKERS, progress)

    def start_again(killed: RealBroker) -> RealBroker:
        settings = killed.settings
        names = ("brokers", "broker_number", "broker_id")
        started = RealBroker(folder, **{name: getattr(settings, name) for name in names})
        stack.callback(started.close)
        return started

    fleet_topics.run(section, brokers, topics, start_again, progress, "a log of each")


def many_over_database(stack: ExitStack, section: Section, folder: Path, url: str, topics: int, progress: Progress) -> None:
    brokers: list[RealBroker] = []
    for number_ in range(1, TOPIC_BROKERS + 1):
        progress(f"starting broker {number_} of {TOPIC_BROKERS} over the database")
        brokers.append(over_database(folder, f"broker-{number_}", url))
        stack.callback(brokers[-1].close)

    def start_again(killed: RealBroker) -> RealBroker:
        started = over_database(folder, killed.settings.broker_id, url)
        stack.callback(started.close)
        return started

    fleet_topics.run(section, brokers, topics, start_again, progress, "all in PostgreSQL")


def over_database(folder: Path, name: str, url: str) -> RealBroker:
    """A broker with a folder of its own, and the secrets of those that began before it."""
    secrets = folder / "secrets"
    if not (folder / name).exists():
        (folder / name).mkdir()
        if secrets.exists():
            shutil.copytree(secrets, folder / name / "secrets")
    broker = RealBroker(folder / name, metadata_url=url, ledger_url=url, broker_id=name)
    if not secrets.exists():
        shutil.copytree(folder / name / "secrets", secrets)
    return broker


# --- publishing


def _publishing(
    section: Section, brokers: list[RealBroker], generator: Generator, seconds: float, rounds: int, progress: Progress
) -> None:
    table = Table(("load", "brokers", "messages/s", "broker CPU us a message", "receipt p99 ms"), [])
    section.tables.append(table)
    topics = _topic_of_each(brokers)
    for name, arguments in LOADS.items():
        alone: list[Loaded] = []
        together: list[list[Loaded]] = []
        for turn in range(rounds):
            progress(f"{name}, round {turn + 1} of {rounds}")
            timed = (*arguments, "-dur", f"{seconds:.2f}s")
            alone.append(generator.run(brokers[0].address, brokers[0].process.pid, topics[0], *timed))
            started = [
                generator.start(broker.address, broker.process.pid, topic, *timed)
                for broker, topic in zip(brokers, topics, strict=True)
            ]
            together.append([running.result() for running in started])
        sums = [sum(loaded.messages_per_s for loaded in turn) for turn in together]
        cpu = [
            sum(loaded.cpu_us * loaded.messages_per_s for loaded in turn) / rate for turn, rate in zip(together, sums, strict=True)
        ]
        p99 = median(max(loaded.p99_ms for loaded in turn) for turn in together)
        one = [median(values) for values in zip(*((each.messages_per_s, each.cpu_us, each.p99_ms) for each in alone), strict=True)]
        table.rows.append((name, "1", *map(number, one)))
        table.rows.append((name, "2", number(median(sums)), number(median(cpu)), number(p99)))
        ratio = median(rate / each.messages_per_s for rate, each in zip(sums, alone, strict=True))
        section.figures.append(Figure(f"{name}: messages/s of two brokers to one", ratio, TWO_X_MIN))
        ratio = median(cost / each.cpu_us for cost, each in zip(cpu, alone, strict=True))
        section.figures.append(Figure(f"{name}: CPU of a message, two to one", ratio, CPU_X_MAX, at_least=False))


def _topic_of_each(brokers: list[RealBroker]) -> list[str]:
    """One that it serves."""
    found: dict[str, str] = {}
    urls = [f"{host}:{port}" for host, port in (broker.address for broker in brokers)]
    peer = load.Peer(brokers[0].address, "")
    for number_ in range(1000):
        topic = f"persistent://{_NAMESPACE}/bench-{number_}"
        answered = decode(peer.ask(wire.lookup(topic), 24)).lookup_response
        found.setdefault(answered.broker_service_url.partition("://")[2].strip("/"), topic)
        if all(url in found for url in urls):
            peer.close()
            return [found[url] for url in urls]
    raise Stalled(f"bundles are not divided among all brokers: {found}")


# --- looking up


def _looking_up(section: Section, brokers: list[RealBroker], count: int, progress: Progress) -> None:
    frames = [
        command(pb.Command.LOOKUP, lookup=pb.Lookup(topic=f"persistent://{_NAMESPACE}/looked-up-{each}", request_id=each))
        for each in range(count)
    ]
    rates, costs_us = list[float](), list[float]()
    for turn in range(4):  # the first one has bundles acquired
        progress(f"{count:,} look-ups, {f'turn {turn}' if turn else 'to warm up'}")
        before = sum(broker.cost().cpu_s for broker in brokers)
        elapsed_s = look_up([broker.address for broker in brokers], frames)
        if turn:
            rates.append(count / elapsed_s)
            costs_us.append((sum(broker.cost().cpu_s for broker in brokers) - before) / count * 1e6)
    row = (f"{count:,}", str(len(brokers)), number(median(rates)), number(median(costs_us)))
    section.tables.append(Table(("topics", "brokers", "look-ups/s in sum", "broker CPU us a look-up"), [row]))
    what = f"look-ups of {count:,} topics by {len(brokers)} brokers, for a second of a core"
    section.figures.append(Figure(what, 1e6 / median(costs_us), LOOKUPS_A_CORE_MIN, ""))


def look_up(addresses: list[tuple[str, int]], frames: list[bytes]) -> float:
    """Asks all brokers at once, each for its part, with a window of look-ups on a connection. Returns the seconds it took."""
    peers = [load.Peer(address, "") for address in addresses]
    parts = [frames[index :: len(peers)] for index in range(len(peers))]
    sent, answered = [0] * len(peers), [0] * len(peers)
    start = time.perf_counter()
    while any(done < len(part) for done, part in zip(answered, parts, strict=True)):
        for index, (peer, part) in enumerate(zip(peers, parts, strict=True)):
            may = min(len(part), answered[index] + LOOKUP_WINDOW)
            if may - sent[index] >= LOOKUP_WINDOW // 2 or (may == len(part) and may > sent[index]):
                peer.socket.sendall(b"".join(part[sent[index] : may]))
                sent[index] = may
        ready = select.select([peer.socket for peer in peers], [], [], 20.0)[0]
        if not ready:
            raise Stalled(f"{sum(answered)} of {len(frames)} look-ups were answered")
        for index, peer in enumerate(peers):
            if peer.socket in ready:
                peer.buffer += peer.socket.recv(1 << 20)
                answered[index] += sum(kind == 24 for kind, _ in wire.split(peer.buffer))
    elapsed_s = time.perf_counter() - start
    for peer in peers:
        peer.close()
    return elapsed_s


# --- moving


def _moving(section: Section, folder: Path, url: str, moves: int, progress: Progress) -> None:
    brokers: dict[str, RealBroker] = {}
    try:
        for name in ("one", "two"):
            progress(f"starting broker {name} over the database")
            brokers[name] = over_database(folder, name, url)
        addresses = ",".join(f"{host}:{port}" for host, port in (broker.address for broker in brokers.values()))
        gaps_ms, calls_ms = list[float](), list[float]()
        with _published(f"pulsar://{addresses}", folder / "client.log") as (receipts, refused):
            for turn in range(moves):
                progress(f"move {turn + 1} of {moves}")
                lower, upper, owner = _owners(url)[turn % MOVED_TOPICS]
                taker = "two" if owner == "one" else "one"
                begun = time.monotonic()
                bundle = BundleMoved(
                    namespace=_NAMESPACE, bundle=f"0x{lower:08x}_0x{upper:08x}", broker_id=owner, to_broker_id=taker
                )
                brokers[owner].rpc.call(BUNDLES_MOVE, bundle)
                calls_ms.append((time.monotonic() - begun) * 1000)
                time.sleep(PAUSE_S)
                for topic, times in receipts.items():
                    if lower <= position_of(topic) < upper:
                        seen = [at for at in times if at > begun - PAUSE_S / 2]
                        gaps_ms.append(1000 * max(after - before for before, after in pairwise(seen)))
    finally:
        for broker in brokers.values():
            broker.close()
        forget_broker(url)
    row = (str(moves), number(median(calls_ms)), number(median(gaps_ms)), number(max(gaps_ms)), str(len(refused)))
    columns = ("moves", "the call, ms", "longest time without a receipt, median ms", "worst, ms", "messages that failed")
    section.tables.append(Table(columns, [row]))
    section.figures.append(
        Figure("a move: longest time without a receipt, median", median(gaps_ms), GAP_MS_MAX, "ms", at_least=False)
    )


@contextmanager
def _published(url: str, log: Path) -> Iterator[tuple[dict[str, list[float]], list[str]]]:
    """A stock client sends a message every few milliseconds to each topic. (times of receipts by topic, results that were
    errors)"""
    client = pulsar.Client(url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Warn, str(log)))
    receipts: dict[str, list[float]] = {f"persistent://{_NAMESPACE}/moved-{each}": [] for each in range(MOVED_TOPICS)}
    refused: list[str] = []
    ends = threading.Event()

    def told(times: list[float]) -> Callable[[pulsar.Result, object], None]:
        return lambda result, _: times.append(time.monotonic()) if result == pulsar.Result.Ok else refused.append(str(result))

    def publish(topic: str) -> None:
        producer = client.create_producer(topic, batching_enabled=False, block_if_queue_full=True)
        while not ends.wait(PUBLISH_S):
            producer.send_async(b"moved", told(receipts[topic]))
        producer.flush()

    threads = [threading.Thread(target=publish, args=(topic,)) for topic in receipts]
    for thread in threads:
        thread.start()
    try:
        time.sleep(PAUSE_S)
        yield receipts, refused
    finally:
        ends.set()
        for thread in threads:
            thread.join()
        client.close()


def _owners(url: str) -> list[tuple[int, int, str]]:
    with psycopg.connect(url) as connection:
        sql = "select lower, upper, broker_id from magnetar_broker.bundle_owner where namespace = %s order by lower"
        return [(int(row[0]), int(row[1]), str(row[2])) for row in connection.execute(sql, (_NAMESPACE,))]
