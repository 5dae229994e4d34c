"""Long lists: a namespace with very many topics over Pulsar's admin API, as `pulsar-admin topics list` asks, and pages of topics,
keys and audit records over /api/v1."""

from __future__ import annotations

import http.client
import json
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import quote, urlsplit

from messaging.storage.meta_store import TopicRecord
from messaging.storage.sql import tables
from tests.benchmarks.load import Stalled
from tests.benchmarks.report import Figure, Progress, Section, Table, number
from tests.support.brokers.standalone import Standalone

TARGET_MS = 300.0
PARTITIONS = 10_000  # the most that one topic may have
NAMESPACE, PLAIN_NAMESPACE = "public/default", "public/plain"
TENANT = "tenants/public"
KEYS_A_TOPIC, RECORDS_A_TOPIC = 0.1, 10
PAGE = 100
CHAINED, COPIES_A_CALL = 5_000, 40  # audit records
WARM_UP = 3
_TIMEOUT_S = 600


def run(directory: Path | None, topics: int, requests: int, progress: Progress) -> Section:
    """Raises `Stalled` if the platform does not answer."""
    section = Section(
        f"A namespace of {topics:,} topics, and other long lists",
        f"Partitions of partitioned topics, in one namespace of a whole platform; {requests} requests one after another on one "
        "connection, by a superuser.",
        [Table(("list", "MiB", "p50 ms", "p95 ms"), [])],
    )
    with tempfile.TemporaryDirectory(dir=directory, prefix="magnetar-bench-") as made:
        platform = Standalone(Path(made, "data"))
        try:
            progress(f"creating {topics:,} topics")
            platform.start()
            listing = _Listing(platform, section, requests)
            try:
                listing.measure(topics, progress)
                listing.measure_pages(platform, topics, progress)
            finally:
                listing.close()
        except (OSError, AssertionError) as error:
            raise Stalled(f"the platform does not answer: {error}") from None
        finally:
            platform.close()
    return section


# Keys are rows beside one that the platform made. The first records go through the chain, as the platform writes them; the others
# are copies of those: a chain of a million takes ten minutes, and lists do not read its hashes.
_FILL_KEYS = """
from tenants.models import Key
Key.unscoped.bulk_create(
    [Key(id=f"bench-{n}", tenant_id="public", name=f"app-{n}", role=f"app-{n}@public") for n in range(COUNT)], 1000
)
"""
_FILL_RECORDS = """
from tenants.audit.chain import append
from tenants.models import AuditRecord, Tenant
uid = Tenant.unscoped.get(name="public").uid
append(
    [
        AuditRecord(
            role=f"user:u{number % 997}", action=f"topic.a{number % 40}", resource=f"public/n{number}", tenant="public",
            tenant_uid=uid, key_id=f"k{number % 300}", address="192.0.2.1", request_id=f"r{number}",
            before={"message_ttl_s": number}, after={"message_ttl_s": number + 1},
        )
        for number in range(COUNT)
    ]
)
"""
_COPY_RECORDS = """
from django.db import connection, transaction
from tenants.models import AuditChain, AuditRecord
columns = [field.column for field in AuditRecord._meta.fields if field.column not in ("id", "request_id")]
names = ", ".join(columns)
with transaction.atomic(), connection.cursor() as cursor:
    end = AuditChain.objects.select_for_update().get(id=1)
    cursor.execute(
        f"insert into tenants_auditrecord (id, request_id, {names}) "
        f"with recursive copy (number) as (select 1 union all select number + 1 from copy where number < COPIES) "
        f"select id + number * COUNT, request_id || 'c' || number, {names} from copy cross join tenants_auditrecord "
        f"where id > {end.sequence - COUNT}"
    )
    end.sequence += COPIES * COUNT
    end.save()
"""


def write_topics(folder: Path, count: int) -> None:
    """As the broker's metadata has topics that nobody uses; each would take it a commit."""
    names = [f"persistent://{PLAIN_NAMESPACE}/plain-{number}" for number in range(count)]
    rows = ((name, PLAIN_NAMESPACE, 1, tables.encode(TopicRecord(name, 1))) for name in names)
    db = sqlite3.connect(folder / "broker" / "meta.sqlite3", timeout=60)
    with closing(db), db:
        db.executemany("insert into topic values (?, ?, ?, ?)", rows)


class _Listing:
    def __init__(self, platform: Standalone, section: Section, requests: int) -> None:
        url = urlsplit(platform.ready["web_url"])
        self._connection = http.client.HTTPConnection(str(url.hostname), url.port, timeout=_TIMEOUT_S)
        self._headers = {"Authorization": f"Bearer {platform.admin_token}", "Content-Type": "application/json"}
        self._section, self._requests = section, requests

    def close(self) -> None:
        self._connection.close()

    def measure(self, topics: int, progress: Progress) -> None:
        for first in range(0, topics, PARTITIONS):
            count = min(PARTITIONS, topics - first)
            self._ask("PUT", f"persistent/{NAMESPACE}/many-{first // PARTITIONS}/partitions", str(count))
        progress(f"listing {topics:,} topics")
        listed = self._timed(f"persistent/{NAMESPACE}", topics)
        self._timed(f"namespaces/{NAMESPACE}/topics", topics)
        figure = Figure(f"list of {topics:,} topics over /admin/v2, p95", listed, TARGET_MS, "ms", at_least=False)
        self._section.figures.append(figure)

    def measure_pages(self, platform: Standalone, topics: int, progress: Progress) -> None:
        """Pages of /api/v1: the first, one in the middle, and one that a filter finds, or does not."""
        keys, records = int(topics * KEYS_A_TOPIC), topics * RECORDS_A_TOPIC
        progress(f"writing {keys:,} keys and {records:,} audit records")
        platform.run_python(_FILL_KEYS.replace("COUNT", str(keys)), _TIMEOUT_S)
        chained = min(records, CHAINED)
        platform.run_python(_FILL_RECORDS.replace("COUNT", str(chained)), _TIMEOUT_S)
        made = chained
        while made < records:
            copies = min(COPIES_A_CALL, (records - made) // chained)
            platform.run_python(_COPY_RECORDS.replace("COUNT", str(chained)).replace("COPIES", str(copies)), _TIMEOUT_S)
            made += copies * chained
        progress(f"writing {topics:,} topics that are not partitioned")
        self._connection.close()  # it was idle for longer than a server waits; the next request opens one
        self._ask("PUT", f"namespaces/{PLAIN_NAMESPACE}")
        write_topics(platform.folder, topics)
        lists = {
            f"{TENANT}/namespaces/default/topics": topics,
            f"{TENANT}/namespaces/plain/topics": topics,
            f"{TENANT}/keys": keys,
            f"{TENANT}/audit": records,
            f"{TENANT}/audit?action=topic.a7": records,
            f"{TENANT}/audit?role=nobody": records,
        }
        for path, length in lists.items():
            progress(f"pages of {path}")
            page = f"{path}{'&' if '?' in path else '?'}limit={PAGE}"
            slowest = self._page_p95(page)
            self._section.figures.append(Figure(f"a page of {path} of {length:,}, p95", slowest, TARGET_MS, "ms", at_least=False))

    def _page_p95(self, page: str) -> float:
        """Of the first page and those that follow it."""
        times, sizes = [], []
        after = ""
        for number_of_request in range(WARM_UP + self._requests):
            start = time.perf_counter()
            body = self._ask("GET", page + (f"&after={quote(after)}" if after else ""), api="api/v1")
            if number_of_request >= WARM_UP:
                times.append((time.perf_counter() - start) * 1e3)
                sizes.append(len(body))
            after = json.loads(body)["next"] or ""
        return self._row(f"GET /api/v1/{page}", max(sizes), times)

    def _timed(self, path: str, topics: int) -> float:
        times, size = [], 0
        for number_of_request in range(WARM_UP + self._requests):
            start = time.perf_counter()
            body = self._ask("GET", path)
            if number_of_request >= WARM_UP:
                times.append((time.perf_counter() - start) * 1e3)
            size = len(body)
        if len(json.loads(body)) != topics:
            raise Stalled(f"{path} lists {len(json.loads(body))} topics of {topics}")
        return self._row(f"GET /admin/v2/{path}", size, times)

    def _row(self, what: str, size: int, times: list[float]) -> float:
        """The 95th percentile of `times`."""
        times.sort()
        p95 = times[min(len(times) - 1, round(len(times) * 0.95))]
        self._section.tables[0].rows.append((what, number(size / 2**20), number(times[len(times) // 2]), number(p95)))
        return p95

    def _ask(self, method: str, path: str, body: str | None = None, api: str = "admin/v2") -> bytes:
        self._connection.request(method, f"/{api}/{path}", body, self._headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status >= 300:
            raise Stalled(f"{method} {path}: {answer.status} {content[:200]!r}")
        return content
