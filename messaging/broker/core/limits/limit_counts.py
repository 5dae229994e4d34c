"""How many there are of what is limited by namespace and by tenant. Pure; each broker counts what it owns.

What is connected is counted as it comes and goes. What is stored is counted in the store, and from then on as it is made; a count
is never below the truth, and one that may be above it is made again before anything is refused for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from messaging.protocol.names import TopicName

COUNTED_EVERY_MS = 1_000  # where a count may only be too high
HEARD_EVERY_MS = 200  # where other brokers made some: counting takes as long as there are many
FEW = 1_000  # are counted whenever others made some


class ConnectedCounts:
    """Of producers, or of consumers. Holds as much as is connected."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}  # by namespace (which has a slash) and by tenant
        self._of_topics: dict[str, int] = {}
        self.elsewhere: Mapping[str, int] = {}  # the same at other brokers

    def of(self, whose: str) -> int:
        """`whose`: a namespace, or a tenant."""
        return self._counts.get(whose, 0) + self.elsewhere.get(whose, 0)

    def here(self) -> dict[str, int]:
        """All counts of this broker."""
        return dict(self._counts)

    def add(self, name: TopicName, count: int) -> None:
        """So many more are connected to a topic; less, where it is negative."""
        if not count:
            return
        for whose in (str(name.namespace), name.tenant):
            total = self._counts.get(whose, 0) + count
            if total:
                self._counts[whose] = total
            else:
                del self._counts[whose]

    def now(self, name: TopicName, text: str, count: int) -> None:
        """A topic, `text` in full, has so many. Idempotent."""
        self.add(name, count - self._of_topics.get(text, 0))
        if count:
            self._of_topics[text] = count
        else:
            self._of_topics.pop(text, None)


class PendingCount:
    """One count of what is stored, while the store is read. `made`: by namespace, what was made meanwhile, which the count may have
    missed; `void`: something was made that it does not know; `heard`: by another broker."""

    __slots__ = ("heard", "made", "void")

    def __init__(self) -> None:
        self.made: Counter[str] = Counter()
        self.void = False
        self.heard = False


class StoredCounts:
    """Of durable subscriptions, topics, partitions, or versions of schemas. Call `reserve` before some are made, and `release`
    after; `gone` or `forget` after some were deleted, `made_elsewhere` after an unknown number was made, and `heard` where another
    broker made some. To count: `begin`, read the store, `learn`, and `end` in any case."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {}  # tenant -> namespace -> those stored and those being made
        self._counted_ms: dict[str, int] = {}
        self._heard: set[str] = set()  # tenants for whom other brokers made some since they were counted
        self._pending: Counter[tuple[str, str]] = Counter()  # (tenant, namespace): being made
        self._under_way: dict[str, list[PendingCount]] = {}  # by tenant
        self.on_made: list[Callable[[str], None]] = []  # told whose there are more

    def knows(self, tenant: str) -> bool:
        return tenant in self._counts

    def is_to_be_counted(self, tenant: str, now_ms: int, *, full: bool) -> bool:
        """Before more are made. `full`: those are too many, by what is known; counting again may find less. Where others make many
        all the time each broker counts them only at times: a high ceiling may be passed by what they make between."""
        if tenant not in self._counts:
            return True
        passed_ms = now_ms - self._counted_ms[tenant]
        if tenant in self._heard and (passed_ms >= HEARD_EVERY_MS or self.of(tenant) <= FEW):
            return True
        return full and passed_ms >= COUNTED_EVERY_MS

    def of(self, tenant: str, namespace: str = "") -> int:
        """Of one of its namespaces, or of all. Only of a tenant that it `knows`."""
        counts = self._counts[tenant]
        return counts[namespace] if namespace else counts.total()

    def reserve(self, tenant: str, namespace: str, count: int = 1) -> None:
        self._pending[tenant, namespace] += count
        if tenant in self._counts:
            self._counts[tenant][namespace] += count

    def release(self, tenant: str, namespace: str, count: int = 1, *, made: bool) -> None:
        """`made`: all of them; else none."""
        self._pending[tenant, namespace] -= count
        if not self._pending[tenant, namespace]:
            del self._pending[tenant, namespace]
        if made:
            for counting in self._under_way.get(tenant, ()):
                counting.made[namespace] += count
            for tell in self.on_made:
                tell(tenant)
        else:
            self.gone(tenant, namespace, count)

    def gone(self, tenant: str, namespace: str, count: int = 1) -> None:
        """So many were deleted. Call it before anything else runs that may `learn` a count without them."""
        if tenant in self._counts:
            self._counts[tenant][namespace] = max(0, self._counts[tenant][namespace] - count)

    def begin(self, tenant: str) -> PendingCount:
        counting = PendingCount()
        self._under_way.setdefault(tenant, []).append(counting)
        return counting

    def learn(self, tenant: str, counting: PendingCount, stored: Mapping[str, int], now_ms: int) -> None:
        """What was made while the store was read may be in `stored` or not: it counts beside it."""
        if counting.void:
            return
        pending = Counter({namespace: count for (whose, namespace), count in self._pending.items() if whose == tenant})
        self._counts[tenant] = Counter(stored) + counting.made + pending
        self._heard.discard(tenant)
        if counting.heard:
            self._heard.add(tenant)
        self._counted_ms[tenant] = now_ms

    def end(self, tenant: str, counting: PendingCount) -> None:
        self._under_way[tenant].remove(counting)
        if not self._under_way[tenant]:
            del self._under_way[tenant]

    def forget(self, tenant: str) -> None:
        """The next one that asks counts anew."""
        self._counts.pop(tenant, None)
        self._heard.discard(tenant)
        self._counted_ms.pop(tenant, None)

    def heard(self, tenant: str) -> None:
        """Another broker made some."""
        if tenant in self._counts:
            self._heard.add(tenant)
        for counting in self._under_way.get(tenant, ()):
            counting.heard = True

    def made_elsewhere(self, tenant: str) -> None:
        self.forget(tenant)
        for counting in self._under_way.get(tenant, ()):
            counting.void = True
