"""Lists of 100,000 rows, as pages of the console and over both APIs, beside the same lists of a hundred rows: what a page costs in
processor time and bytes, first, in the middle, last, filtered and sorted, and how long the broker's loop is held by one."""

from __future__ import annotations

import http.client
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from messaging.errors import MagnetarError
from messaging.settings import Settings
from tests.benchmarks import processes
from tests.benchmarks.lists import broker_rows
from tests.benchmarks.lists.pinger import Pinger
from tests.benchmarks.lists.topic_rows import OF_LEDGERS, OF_TOPICS, KindOfRows, TopicRows
from tests.benchmarks.load import Stalled
from tests.benchmarks.report import Figure, Progress, Section, Table, number
from tests.support.brokers.standalone import Standalone
from tests.support.console_reader import Browser

FEW, ROWS_MAX = 100, 100_000
CPU_MS, KIB, HELD_MS = 100.0, 200.0, 20.0
PAGE = 100  # rows
FAR, PAGES_OF = 10_000, 1_000  # rows before a page of REST that is far behind the first, and those of a page on the way there
_FILL_S = 1_800
_ANSWER_S = 120
_FILL = "import json; from tests.benchmarks.lists.control_rows import fill; print(json.dumps(fill(COUNT)))"
_TENANT, _REST = "/tenants/bulk", "/api/v1/tenants/bulk"
_WIDE = "/namespaces/default/topics/wide"


class Listed(NamedTuple):
    """`table`: whose rows; `page`: the parameter of a page's number ("": pages are cut by `after`); `further`: queries that filter
    or sort."""

    path: str
    table: str
    page: str = ""
    further: tuple[str, ...] = ()


OF_CONTROL_PLANE = (
    Listed(f"{_TENANT}", "Namespace", "page", ("q=n99", "sort=-name")),
    Listed(f"{_TENANT}/keys", "Key", "page", ("q=999", "sort=last_used", "sort=-expires")),
    Listed(f"{_TENANT}/namespaces/main/permissions", "Grant", "page"),
    Listed(f"{_TENANT}/roles", "CustomRole"),
    Listed(f"{_TENANT}/teams", "Team", "page"),
    Listed(f"{_TENANT}/people", "Invitation", "invited-page"),
    Listed("/people", "User", "page", ("q=9999", "sort=last_login", "sort=-added")),
    Listed(f"{_TENANT}/recycle-bin", "Recycled", "page"),
    Listed(f"{_TENANT}/audit", "AuditRecord", further=("action=topic.a7",)),
    Listed(f"{_TENANT}/alerts", "Notice", "notices-page", ("notices-q=rule-9",)),
    Listed(f"{_TENANT}/alerts/bulk-0", "Notice", "notices-page"),
    Listed(f"{_TENANT}/dead-letters/redrives", "RedriveJob", "jobs-page"),
    Listed("/tasks", "TaskRun", "page", ("q=expire", "sort=name")),
    Listed("/usage/runs", "UsageRun", "page", ("q=succ",)),
    Listed("/price-plans", "PricePlanVersion", "page", ("q=999", "sort=-version")),
    Listed(f"{_TENANT}/billing", "PlanAssignment", "plans-page"),
    Listed(f"{_TENANT}/budgets", "SpendAlert"),
    Listed(f"{_TENANT}/reports", "Report", "page", ("q=999", "sort=name")),
    Listed(f"{_TENANT}/invoices", "Invoice", "page", ("q=B-0999", "sort=total", "sort=kind")),
    *(
        Listed(f"{of}/history", "HistorySeries", further=further)
        for of, further in (
            (_TENANT, ("span=30d", "span=7d&compare=week", "span=30d&table=1")),
            (f"{_TENANT}/namespaces/main", ("span=30d", "span=24h")),
            (f"{_TENANT}/namespaces/main/topics/t50", ("span=30d", "span=24h&compare=day")),
            (_REST, ("span=30d", "span=7d")),
            (f"{_REST}/namespaces/main", ("span=30d",)),
            (f"{_REST}/namespaces/main/topics/t50", ("span=30d",)),
        )
    ),
    Listed(f"{_REST}/namespaces", "Namespace"),
    Listed(f"{_REST}/namespaces/main/permissions", "Grant"),
    Listed(f"{_REST}/keys", "Key"),
    Listed(f"{_REST}/invitations", "Invitation"),
    Listed(f"{_REST}/recycled-namespaces", "Recycled"),
    Listed(f"{_REST}/audit", "AuditRecord", further=("action=topic.a7",)),
    Listed(f"{_REST}/alert-rules", "AlertRule"),
    Listed(f"{_REST}/alert-rules/bulk-0/notices", "Notice"),
    Listed(f"{_REST}/notices", "Notice"),
    Listed(f"{_REST}/jobs", "RedriveJob"),
    Listed(f"{_REST}/dead-letters/redrives", "RedriveJob"),
    Listed(f"{_REST}/namespaces/main/topics/wide/redrives/bulk-0/outcomes", "RedriveOutcome"),
    Listed(f"{_REST}/billing/plans", "PlanAssignment"),
    Listed(f"{_REST}/billing/credits", "Credit"),
    Listed(f"{_REST}/invoices", "Invoice"),
    Listed(f"{_REST}/budgets/bulk-0/alerts", "SpendAlert"),
    Listed(f"{_REST}/reports", "Report"),
    Listed("/api/v1/task-runs", "TaskRun"),
    Listed("/api/v1/price-plans", "PricePlanVersion"),
    Listed("/admin/v2/namespaces/bulk", "Namespace"),
    Listed("/admin/v2/namespaces/bulk/main/permissions", "Grant"),
)
OF_BROKER = (
    Listed("/tenants/public/namespaces/default", "topic"),
    Listed("/tenants/public/namespaces/default/topics/wide", "subscription"),
    Listed("/tenants/public/namespaces/default/topics/wide/detail", "subscription"),
    Listed("/tenants/public/namespaces/default/topics/wide/why", "subscription"),
    Listed("/tenants/public/namespaces/default/topics/wide/history/timeline", "subscription"),
    Listed("/tenants/public/namespaces/default/topics/wide/subscriptions/sub-000050", "subscription"),
    Listed(f"/api/v1/tenants/public{_WIDE}/subscriptions", "subscription"),
    Listed(f"/api/v1/tenants/public{_WIDE}/stats", "subscription"),
    Listed(f"/api/v1/tenants/public{_WIDE}/explain", "subscription"),
    Listed("/admin/v2/persistent/public/default/wide/subscriptions", "subscription"),
    Listed("/admin/v2/persistent/public/default/wide/stats", "subscription"),
)


class Cost(NamedTuple):
    """Of a page; processor time of web process and broker together."""

    cpu_ms: float
    kib: float
    held_ms: float  # the longest that a ping of a neighbour waited; 0: nobody looked


def run(directory: Path | None, rows: int, requests: int, progress: Progress) -> Section:
    """Raises `Stalled` if the platform does not answer."""
    section = Section(
        f"Lists of {rows:,} rows",
        f"Of a tenant with as many of each as it may have, up to {rows:,}, and of topics with as many subscriptions, delayed "
        "messages, versions of a schema, connected clients and ledgers as they may have; beside the same lists of "
        f"{FEW} rows in the same run. Each page is asked for {requests} times, one after another. CPU is of web process and broker "
        "together; the dearest page of a list is the one that is shown. Held: the "
        "longest that a ping of another client waited meanwhile, which on a busy machine is also its load: the first row is "
        "without any page.",
        [
            Table(("list", "rows", "page", "CPU ms", f"of {FEW} rows", "ratio", "KiB"), []),
            Table(("list of the broker", "rows", "CPU ms", f"of {FEW} rows", "ratio", "KiB", "held ms"), []),
        ],
    )
    with _platform(directory, progress) as platform:
        lists = _Lists(platform, section, requests, progress)
        lists.control_plane(rows)
        lists.subscriptions(rows)
        lists.topics(OF_TOPICS, rows)
    with _platform(directory, progress, MAGNETAR_LEDGER_ENTRIES_MAX="1") as platform:
        _Lists(platform, section, requests, progress).topics(OF_LEDGERS, rows)
    return section


@contextmanager
def _platform(directory: Path | None, progress: Progress, **variables: str) -> Iterator[Standalone]:
    with tempfile.TemporaryDirectory(dir=directory, prefix="magnetar-bench-") as made:
        platform = Standalone(Path(made, "data"), **variables)
        try:
            progress("starting a platform")
            yield platform.start()
        except (OSError, AssertionError, MagnetarError) as error:
            raise Stalled(f"the platform does not answer: {error}") from None
        finally:
            platform.close()


class _Lists:
    def __init__(self, platform: Standalone, section: Section, requests: int, progress: Progress) -> None:
        self._platform, self._section, self._requests, self._progress = platform, section, requests, progress
        self._url = urlsplit(platform.ready["web_url"])
        browser = Browser(platform.ready["web_url"])
        browser.sign_in("admin", platform.console_password)
        self._cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in browser.jar)

    def control_plane(self, rows: int) -> None:
        counts = self._filled(FEW)
        few = {listed: self._dearest(listed, counts[listed.table])[1] for listed in OF_CONTROL_PLANE}
        counts = self._filled(rows)
        largest = 0.0
        for listed in OF_CONTROL_PLANE:
            self._progress(listed.path)
            query, cost = self._dearest(listed, counts[listed.table])
            before = few[listed].cpu_ms
            if not cost.kib or not few[listed].kib:
                continue  # a failure of the section says why
            cells = (f"`{listed.path}`", f"{counts[listed.table]:,}", query or "first", number(cost.cpu_ms), number(before))
            self._section.tables[0].rows.append((*cells, number(cost.cpu_ms / max(before, 1.0)), number(cost.kib)))
            self._section.figures.append(Figure(f"CPU of a page of {listed.path}", cost.cpu_ms, CPU_MS, "ms", at_least=False))
            largest = max(largest, 0.0 if listed.path.startswith("/admin/v2") else cost.kib)
        self._section.figures.append(Figure("the largest page, but of /admin/v2", largest, KIB, "KiB", at_least=False))

    def subscriptions(self, rows: int) -> None:
        costs: list[dict[Listed, Cost]] = []
        most = min(rows, Settings().subscriptions_per_topic_max)
        for count in (FEW, most):
            self._progress(f"a topic with {count:,} subscriptions")
            self._platform.kill_child("broker")  # its metadata are its own while it runs
            broker_rows.write_subscriptions(self._platform.folder, count)
            self._platform.kill_child("broker")
            with Pinger(self._platform.ready["broker_url"]) as pinger:
                idle = pinger.longest_ms(during_s=2.0)
                costs.append({listed: self._cost(listed.path, pinger) for listed in OF_BROKER})
        self._section.tables[1].rows.append(("none", "", "", "", "", "", number(idle)))
        for listed in OF_BROKER:
            self._tell(listed.path, f"{most:,}", costs[0][listed], costs[1][listed])

    def topics(self, kinds: Sequence[KindOfRows], rows: int) -> None:
        with TopicRows(self._platform) as topic_rows, Pinger(self._platform.ready["broker_url"]) as pinger:
            for kind in kinds:
                costs: list[list[tuple[str, Cost]]] = []
                most = min(rows, kind.most)
                for count in (min(FEW, most), most):
                    self._progress(f"a topic with {count:,} {kind.rows}")
                    kind.fill(topic_rows, count)
                    costs.append([(path, self._cost(path, pinger)) for path in kind.paths(topic_rows, count)])
                for (_, few), (path, many) in zip(*costs, strict=True):
                    self._tell(path, f"{most:,} {kind.rows}", few, many)

    def _tell(self, path: str, rows: str, few: Cost, many: Cost) -> None:
        if not few.kib or not many.kib:
            return  # a failure of the section says why
        cells = (number(many.cpu_ms), number(few.cpu_ms), number(many.cpu_ms / max(few.cpu_ms, 1.0)), number(many.kib))
        self._section.tables[1].rows.append((f"`{path}`", rows, *cells, number(many.held_ms)))
        self._section.figures.append(Figure(f"CPU of {path}", many.cpu_ms, CPU_MS, "ms", at_least=False))
        self._section.figures.append(Figure(f"loop held by {path}", many.held_ms, HELD_MS, "ms", at_least=False))

    def _filled(self, count: int) -> dict[str, int]:
        self._progress(f"writing up to {count:,} rows of each table")
        filled: dict[str, int] = json.loads(self._platform.run_python(_FILL.replace("COUNT", str(count)), _FILL_S))
        return filled

    def _dearest(self, listed: Listed, rows: int) -> tuple[str, Cost]:
        queries = [*_queries(listed, rows), *self._far(listed.path, rows)]
        costs = {query: self._cost(f"{listed.path}?{query}" if query else listed.path) for query in queries}
        return max(costs.items(), key=lambda item: item[1].cpu_ms)

    def _far(self, path: str, rows: int) -> list[str]:
        """Of a list that is paged by where the page before ended: a page far behind the first one."""
        after = ""
        if not path.startswith("/api"):
            return []
        for _ in range(min(FAR, rows // 2) // PAGES_OF):
            asked = {"limit": PAGES_OF, "after": after} if after else {"limit": PAGES_OF}
            try:
                told = json.loads(self._answered(f"{path}?{urlencode(asked)}"))
            except Stalled:  # it has no pages
                break
            if not isinstance(told, dict) or not told.get("next"):
                break
            after = told["next"]
        return [urlencode({"after": after})] if after else []

    def _cost(self, path: str, pinger: Pinger | None = None) -> Cost:
        """Nothing of a page that was not answered: that is a failure of the section."""
        try:
            return self._measured(path, pinger)
        except (Stalled, OSError) as error:
            self._section.failures.append(str(error))
            return Cost(0.0, 0.0, 0.0)

    def _measured(self, path: str, pinger: Pinger | None) -> Cost:
        self._ask(path)  # what is imported, or loaded, at the first request
        if pinger is not None:
            pinger.longest_ms()
        size, before = 0, self._cpu_s()
        for _ in range(self._requests):
            size = self._ask(path)
        held = 0.0 if pinger is None else pinger.longest_ms()
        return Cost((self._cpu_s() - before) / self._requests * 1e3, size / 1024, held)

    def _cpu_s(self) -> float:
        return sum(processes.cost(self._platform.child(name)["pid"]).cpu_s for name in ("web", "broker"))

    def _ask(self, path: str) -> int:
        """Bytes of the answer."""
        return len(self._answered(path))

    def _answered(self, path: str) -> bytes:
        of_api = path.startswith(("/api", "/admin/v2"))
        headers = {"Authorization": f"Bearer {self._platform.admin_token}"} if of_api else {"Cookie": self._cookies}
        connection = http.client.HTTPConnection(str(self._url.hostname), self._url.port, timeout=_ANSWER_S)
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if answer.status >= 300:
            raise Stalled(f"GET {path}: {answer.status} {content[:200]!r}")
        return content


def _queries(listed: Listed, rows: int) -> Iterator[str]:
    yield ""
    if listed.page and rows > PAGE:
        pages = -(-rows // PAGE)
        yield from (f"{listed.page}={page}" for page in dict.fromkeys((max(2, pages // 2), pages)))
    yield from listed.further
