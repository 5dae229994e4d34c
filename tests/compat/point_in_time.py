"""Point-in-time recovery, as docs/backup.md describes it, tried on a PostgreSQL server of its own.

    python -m tests.compat.point_in_time

A server that archives its log, a platform that keeps everything in it, publishers that note when each receipt came. In the middle a
moment is chosen. The server is restored to it from a base backup and the archive; what had its receipt before the moment is there,
and what was published after it is not.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pulsar

from messaging.client import connect
from tests.compat.python_clients import messages
from tests.support.brokers.standalone import Standalone
from tests.support.postgresql_server import PostgresqlServer
from tests.support.waiting import eventually_sync

TOPICS = [f"persistent://public/default/point-{number}" for number in range(3)]
COUNT = 300


class Server(PostgresqlServer):
    """On a Unix socket. What it wrote is archived."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.archive, self.base = folder / "archive", folder / "base"
        self.archive.mkdir(exist_ok=True)
        self.give(self.archive)
        self.create(
            f"wal_level = replica\narchive_mode = on\narchive_command = 'test ! -f {self.archive}/%f && cp %p {self.archive}/%f'"
        )

    def take_base(self) -> None:
        self.run("pg_basebackup", "-d", self.url, "-D", str(self.base), "-X", "none", "-c", "fast")

    def go_back(self, moment: datetime) -> None:
        """Stopped before, running after."""
        self.data.rename(self.folder / "former")
        self.base.rename(self.data)
        self.configure(
            f"restore_command = 'cp {self.archive}/%f %p'\nrecovery_target_time = '{moment.isoformat()}'\n"
            "recovery_target_action = promote"
        )
        (self.data / "recovery.signal").touch()
        self.give(self.data / "recovery.signal")
        self.start()
        with self.connect() as connection:
            eventually_sync(lambda: connection.execute("select not pg_is_in_recovery()").fetchone() == (True,), 60)


class Publishing:
    """Numbers to one topic, and when the receipt of each came (seconds since 1970)."""

    def __init__(self, client: pulsar.Client, topic: str) -> None:
        self.topic = topic
        self.begun_s: list[float] = []
        self.receipts_s: list[float] = []
        self._producer = client.create_producer(topic, batching_enabled=False)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        for number in range(COUNT):
            self.begun_s.append(time.time())
            self._producer.send(b"%d" % number)
            self.receipts_s.append(time.time())


def run(folder: Path) -> dict[str, tuple[int, int, int]]:
    """By topic: how many had a receipt before the moment, are there, and were begun before it. Raises `AssertionError`."""
    server = Server(folder / "pg")
    server.start()
    variables = {f"MAGNETAR_{name}_URL": server.url for name in ("DATABASE", "METADATA", "LEDGER")}
    platform = Standalone(folder / "data", **variables)
    with ExitStack() as stack:
        stack.callback(server.stop)
        stack.callback(platform.close)
        platform.start()
        client = pulsar.Client(platform.ready["broker_url"], logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        for topic in TOPICS:
            client.create_producer(topic).close()
        server.take_base()
        publishing = [Publishing(client, topic) for topic in TOPICS]
        eventually_sync(lambda: all(len(each.receipts_s) > COUNT // 3 for each in publishing), 60)
        moment = datetime.now(UTC)
        for each in publishing:
            each.thread.join()
        client.close()
        platform.close()
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("select pg_switch_wal()")
        server.stop()
        server.go_back(moment)
        for copy in (platform.folder / "broker" / "feed").iterdir():
            copy.unlink()
        platform.start()
        stored = asyncio.run(_numbers(platform.ready["broker_url"]))
    found: dict[str, tuple[int, int, int]] = {}
    for each in publishing:
        before = sum(receipt_s < moment.timestamp() for receipt_s in each.receipts_s)
        begun = sum(begun_s <= moment.timestamp() for begun_s in each.begun_s)
        assert stored[each.topic] == list(range(len(stored[each.topic]))), f"{each.topic}: {stored[each.topic]}"
        assert before <= len(stored[each.topic]) <= begun, f"{each.topic}: {before} {len(stored[each.topic])} {begun}"
        assert begun < COUNT, "the moment came too late to prove anything"
        found[each.topic] = (before, len(stored[each.topic]), begun)
    return found


async def _numbers(url: str) -> dict[str, list[int]]:
    async with connect(url) as client:
        return {topic: [int(message.payload) async for message in messages(client, topic)] for topic in TOPICS}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        for topic, (before, there, begun) in run(Path(made)).items():
            sys.stdout.write(f"{topic}: {before} had a receipt before the moment, {there} are there, {begun} were begun\n")
