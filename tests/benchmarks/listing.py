"""Listing a namespace with very many topics: over Pulsar's admin API, as `pulsar-admin topics list` asks, and by pattern."""

from __future__ import annotations

import http.client
import json
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

from tests.benchmarks.load import Stalled
from tests.benchmarks.report import Figure, Progress, Section, Table, number
from tests.support.brokers.standalone import Standalone

TARGET_MS = 300.0
PARTITIONS = 10_000  # the most that one topic may have
NAMESPACE = "public/default"
WARM_UP = 3
_TIMEOUT_S = 600


def run(directory: Path | None, topics: int, requests: int, progress: Progress) -> Section:
    """Raises `Stalled` if the platform does not answer."""
    section = Section(
        f"A namespace of {topics:,} topics listed",
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
            finally:
                listing.close()
        except (OSError, AssertionError) as error:
            raise Stalled(f"the platform does not answer: {error}") from None
        finally:
            platform.close()
    return section


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
        times.sort()
        p95 = times[min(len(times) - 1, round(len(times) * 0.95))]
        cells = (f"GET /admin/v2/{path}", number(size / 2**20), number(times[len(times) // 2]), number(p95))
        self._section.tables[0].rows.append(cells)
        return p95

    def _ask(self, method: str, path: str, body: str | None = None) -> bytes:
        self._connection.request(method, f"/admin/v2/{path}", body, self._headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status >= 300:
            raise Stalled(f"{method} {path}: {answer.status} {content[:200]!r}")
        return content
