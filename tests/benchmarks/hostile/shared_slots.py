"""What a tenant waits for beside another one that takes all it can of what they share: threads to the broker, moves of dead
letters, threads of the worker, and the control database. On a whole platform, with a stock client and the REST API.

    python -m tests.benchmarks.hostile.shared_slots [ROW...] [--path PYTHONPATH]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from tests.benchmarks.report import Figure, Progress, Section, Table, number
from tests.support.brokers.standalone import Answer, Standalone

INNOCENT, HOSTILE = "innocent", "hostile"
CROWD = 40  # callers of the hostile tenant, of each kind
BACKLOG = 20_000
REST_S = 8.0
WAIT_S = 45.0  # a row that is not through by then says so
REST_OVER_ALONE_MS, WAIT_OVER_ALONE_MS = 500.0, 5_000.0
DATABASE_MIB = 8.0
ALL_ROWS = ("dead-letters", "redrives", "notices", "outcomes", "rest")  # the last leaves work behind in releases that do it all


class Felt(NamedTuple):
    """By the innocent, in ms (of `outcomes`, what the database grew, in MiB)."""

    what: str
    alone: float
    during: float
    limit: float
    unit: str = "ms"
    further: str = ""


class Tenants:
    """Two tenants of a platform, each with a namespace and a key that may do everything in its tenant."""

    def __init__(self, platform: Standalone) -> None:
        import pulsar

        self.platform = platform
        self.keys: dict[str, str] = {}
        self.clients: dict[str, Any] = {}
        for tenant in (INNOCENT, HOSTILE):
            roles = {"adminRoles": [f"app@{tenant}"], "allowedClusters": ["standalone"]}
            self._made(platform.http("PUT", f"/admin/v2/tenants/{tenant}", roles, platform.admin_token))
            self._made(platform.http("PUT", f"/admin/v2/namespaces/{tenant}/n", {}, platform.admin_token))
            key = platform.http("POST", f"/api/v1/tenants/{tenant}/keys", {"name": "app"}, platform.admin_token)
            self._made(key)
            self.keys[tenant] = key.json()["token"]
            quiet = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
            authentication = pulsar.AuthenticationToken(self.keys[tenant])
            self.clients[tenant] = pulsar.Client(platform.ready["broker_url"], authentication, logger=quiet)

    def http(self, tenant: str, method: str, path: str, body: Any = None) -> Answer:
        return self.platform.http(method, path, body, self.keys[tenant])

    def ask(self, tenant: str, method: str, path: str, body: Any = None) -> Any:
        answer = self.http(tenant, method, path, body)
        self._made(answer)
        return answer.json() if answer.text else None

    def publish(self, tenant: str, topic: str, count: int, key: str | None = None) -> str:
        """The full name. Each message is an entry."""
        name = f"persistent://{tenant}/n/{topic}"
        producer = self.clients[tenant].create_producer(
            name, batching_enabled=False, block_if_queue_full=True, max_pending_messages=1000
        )
        for index in range(count):
            producer.send_async(b"%d" % index, lambda result, message_id: None, partition_key=key)
        producer.flush()
        producer.close()
        return name

    def close(self) -> None:
        for client in self.clients.values():
            client.close()

    @staticmethod
    def _made(answer: Answer) -> None:
        assert answer.status < 300, f"{answer.status} {answer.text}"


def run(directory: Path | None, progress: Progress, names: tuple[str, ...] = ALL_ROWS, **variables: str) -> Section:
    """`variables` are those of the platform's processes."""
    felt: list[Felt] = []
    section = Section(
        "What tenants share",
        f"An innocent tenant alone, and while a hostile one takes what it can; at most {WAIT_S:g} s were waited.",
    )
    with tempfile.TemporaryDirectory(dir=directory, prefix="magnetar-bench-") as made:
        settings = {"MAGNETAR_WEBHOOK_ALLOWED_NETWORKS": "127.0.0.0/8", "MAGNETAR_USAGE_JOB_INTERVAL_S": "86400", **variables}
        platform = Standalone(Path(made) / "data", **settings)
        try:
            tenants = Tenants(platform.start())
            for name in names:
                progress(ROWS[name].__doc__ or name)
                try:
                    felt.append(ROWS[name](tenants))
                except (OSError, AssertionError) as error:  # the other rows are worth having
                    section.failures.append(f"{name}: {type(error).__name__}: {error}")
            tenants.close()
        finally:
            platform.close()
    rows: list[tuple[str, ...]] = [
        (
            measurement.what,
            f"{number(measurement.alone)} {measurement.unit}",
            f"{number(measurement.during)} {measurement.unit}",
            measurement.further,
        )
        for measurement in felt
    ]
    section.tables.append(Table(("what the innocent waits for", "alone", "during", ""), rows))
    section.figures += [
        Figure(
            f"{measurement.what}: over its value alone",
            measurement.during - measurement.alone,
            measurement.limit,
            measurement.unit,
            at_least=False,
        )
        for measurement in felt
    ]
    return section


def _waited_ms(done: Callable[[], bool]) -> float:
    start = time.monotonic()
    while not done() and time.monotonic() - start < WAIT_S:
        time.sleep(0.02)
    return (time.monotonic() - start) * 1000


# --- rows ---------------------------------------------------------------------------------------------------------------------


def _rest(tenants: Tenants) -> Felt:
    """40 analyze-backlog and 40 dry runs of redrives at a time; REST calls of the innocent"""
    tenants.publish(INNOCENT, "mine", 10)
    tenants.publish(HOSTILE, "much", BACKLOG)
    tenants.ask(HOSTILE, "PUT", "/admin/v2/persistent/hostile/n/much/subscription/s", {"ledgerId": -1, "entryId": -1})
    target = tenants.publish(HOSTILE, "target", 1)
    alone, _ = _rest_ms(tenants, 2.0)
    over = threading.Event()

    def crowd(method: str, path: str, body: Any) -> None:
        while not over.is_set():
            try:
                tenants.http(HOSTILE, method, path, body)
            except OSError:  # refused, or too slow
                over.wait(0.05)

    dry_run = {"target": target, "key": "nobody's"}
    calls = [
        ("GET", "/admin/v2/persistent/hostile/n/much/subscription/s/analyzeBacklog", None),
        ("POST", "/api/v1/tenants/hostile/namespaces/n/topics/much/redrives/dry-run", dry_run),
    ]
    threads = [threading.Thread(target=crowd, args=call, daemon=True) for call in calls for _ in range(CROWD)]
    for thread in threads:
        thread.start()
    time.sleep(2.0)  # they have begun
    during, failed = _rest_ms(tenants, REST_S)
    health = tenants.platform.http("GET", "/healthz").status
    over.set()
    for thread in threads:
        thread.join(WAIT_S)
    halves = f"p50 {number(statistics.median(alone))} -> {number(statistics.median(during))} ms"
    further = f"{halves}; {failed} of {len(during)} failed; /healthz {health}"
    return Felt("worst REST call", max(alone), max(during), REST_OVER_ALONE_MS, further=further)


def _rest_ms(tenants: Tenants, seconds: float) -> tuple[list[float], int]:
    took_ms, failed, until = [], 0, time.monotonic() + seconds
    while time.monotonic() < until:
        start = time.monotonic()
        try:
            failed += tenants.http(INNOCENT, "GET", "/admin/v2/persistent/innocent/n/mine/stats").status != 200
        except OSError:
            failed += 1
        took_ms.append((time.monotonic() - start) * 1000)
        time.sleep(0.02)
    return took_ms, failed


def _dead_letters(tenants: Tenants) -> Felt:
    """20 subscriptions with 2,000 dead letters each; a dead letter of the innocent"""
    import pulsar

    def rejected(tenant: str, topic: str, subscription: str, count: int) -> Any:
        """A consumer that has them all and gives them back when it leaves."""
        consumer = tenants.clients[tenant].subscribe(
            f"persistent://{tenant}/n/{topic}",
            subscription,
            pulsar.ConsumerType.Shared,
            initial_position=pulsar.InitialPosition.Earliest,
            receiver_queue_size=count,
        )
        path = f"/api/v1/tenants/{tenant}/namespaces/n/topics/{topic}/subscriptions/{subscription}/dead-letter-policy"
        tenants.ask(tenant, "PUT", path, {"max_redeliver_count": 0})
        for _ in range(count):
            consumer.receive(10_000)
        return consumer

    def moved(tenant: str, topic: str, subscription: str) -> int:
        path = f"/api/v1/tenants/{tenant}/namespaces/n/topics/{topic}/subscriptions/{subscription}/dead-letter-policy"
        return int(tenants.ask(tenant, "GET", path)["moved_messages"])

    def one_ms(subscription: str) -> float:
        consumer = rejected(INNOCENT, "letter", subscription, 1)
        consumer.redeliver_unacknowledged_messages()
        took = _waited_ms(lambda: moved(INNOCENT, "letter", subscription) == 1)
        consumer.close()
        return took

    tenants.publish(INNOCENT, "letter", 1)
    tenants.publish(HOSTILE, "letters", 2_000)
    many = [rejected(HOSTILE, "letters", f"s{number}", 2_000) for number in range(20)]
    waits = rejected(INNOCENT, "letter", "during", 1)
    alone = one_ms("alone")
    for consumer in many:
        consumer.redeliver_unacknowledged_messages()
    time.sleep(0.2)
    waits.redeliver_unacknowledged_messages()
    during = _waited_ms(lambda: moved(INNOCENT, "letter", "during") == 1)
    whole = during + _waited_ms(lambda: sum(moved(HOSTILE, "letters", f"s{number}") for number in range(20)) == 40_000)
    for consumer in (*many, waits):
        consumer.close()
    return Felt("a dead letter", alone, during, WAIT_OVER_ALONE_MS, further=f"all of the hostile's: {number(whole / 1000)} s")


def _redrives(tenants: Tenants) -> Felt:
    """20 redrives at one message a second; a redrive of the innocent"""
    letters, target = "redrive-letters", {tenant: tenants.publish(tenant, "redrive-target", 1) for tenant in (INNOCENT, HOSTILE)}
    for tenant in (INNOCENT, HOSTILE):
        tenants.publish(tenant, letters, 100)

    def start(tenant: str, **fields: Any) -> str:
        path = f"/api/v1/tenants/{tenant}/namespaces/n/topics/{letters}/redrives"
        return f"{path}/" + tenants.ask(tenant, "POST", path, {"target": target[tenant], **fields})["id"]

    def one_ms(subscription: str) -> float:
        job = start(INNOCENT, subscription=subscription)
        return _waited_ms(lambda: bool(tenants.ask(INNOCENT, "GET", job)["state"] == "done"))

    alone = one_ms("alone")
    jobs = [start(HOSTILE, subscription=f"s{number}", rate=1) for number in range(20)]
    time.sleep(2.0)
    during = one_ms("during")
    under_way = sum(tenants.ask(HOSTILE, "GET", job)["moved"] > 0 for job in jobs)
    for job in jobs:
        tenants.ask(HOSTILE, "DELETE", job)
    return Felt("a redrive", alone, during, WAIT_OVER_ALONE_MS, further=f"{under_way} of the hostile's 20 under way")


@contextmanager
def _webhook(silent: threading.Event | None, came: list[float]) -> Iterator[str]:
    """A server; `silent`: it answers when that is set."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            came.append(time.time())
            if silent is not None:
                silent.wait(WAIT_S)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()


SAY = """
import time
from datetime import UTC, datetime
from tenants.models import Tenant
from workers.alerts.notices import TenantRef, say
uid = Tenant.unscoped.get(name={tenant!r}).uid
begun = time.time()
for number in range({count}):
    say(datetime.now(UTC), TenantRef({tenant!r}, uid), "alert_fired", f"{subject} {{number}}", "t", "t")
print(begun)
"""


def _notices(tenants: Tenants) -> Felt:
    """100 notices to a webhook that never answers; a notice of the innocent"""
    silent, came, ignored = threading.Event(), list[float](), list[float]()

    def say(tenant: str, subject: str, count: int) -> float:
        """When the first was said."""
        return float(tenants.platform.run_python(SAY.format(tenant=tenant, subject=subject, count=count)).splitlines()[-1])

    def one_ms(subject: str) -> float:
        before = len(came)
        said = say(INNOCENT, subject, 1)
        _waited_ms(lambda: len(came) > before)
        return ((came[-1] if len(came) > before else time.time()) - said) * 1000

    with _webhook(None, came) as answers, _webhook(silent, ignored) as never:
        for tenant, url in ((INNOCENT, answers), (HOSTILE, never.replace("127.0.0.1", "localhost"))):
            tenants.ask(tenant, "PUT", f"/api/v1/tenants/{tenant}/notifications", {"webhook_url": url})
        one_ms("first")
        alone = one_ms("alone")
        say(HOSTILE, "many", 100)
        during = one_ms("during")
        ignored_before = len(ignored)
        silent.set()
    return Felt("a notice", alone, during, WAIT_OVER_ALONE_MS, further=f"{ignored_before} requests had reached the silent webhook")


def _outcomes(tenants: Tenants) -> Felt:
    """A redrive of 2,000 messages with keys of 8 KiB; the control database"""
    target = tenants.publish(HOSTILE, "keyed-target", 1)
    tenants.publish(HOSTILE, "keyed", 2_000, key="k" * 8192)
    before = _database_mib(tenants.platform)
    path = "/api/v1/tenants/hostile/namespaces/n/topics/keyed/redrives"
    job = f"{path}/" + tenants.ask(HOSTILE, "POST", path, {"target": target})["id"]
    _waited_ms(lambda: bool(tenants.ask(HOSTILE, "GET", job)["state"] == "done"))
    moved = tenants.ask(HOSTILE, "GET", job)["moved"]
    after = _database_mib(tenants.platform)
    return Felt("the control database", before, after, DATABASE_MIB, "MiB", f"{moved} messages moved")


def _database_mib(platform: Standalone) -> float:
    """With its log."""
    return sum(path.stat().st_size for path in platform.folder.rglob("db.sqlite3*")) / 2**20


ROWS: dict[str, Callable[[Tenants], Felt]] = {
    "rest": _rest,
    "dead-letters": _dead_letters,
    "redrives": _redrives,
    "notices": _notices,
    "outcomes": _outcomes,
}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="*", default=ALL_ROWS, help=", ".join(ROWS))
    parser.add_argument("--path", default="", help="import the platform from here (PYTHONPATH): another release, to compare with")
    options = parser.parse_args(arguments)
    variables = {"PYTHONPATH": options.path} if options.path else {}

    def progress(text: str) -> None:
        sys.stderr.write(f"{text}\n")

    section = run(None, progress, tuple(options.rows), **variables)
    for failure in section.failures:
        sys.stdout.write(f"{failure}\n")
    for table in section.tables:
        sys.stdout.write("\n".join(table.lines()) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
