"""What is known to be wrong, by tenant and topic, in bounded memory; and in order, sorted once for each change.

Where there is no room the least urgent gives way, and is counted: of the same tenant, and at the ceiling of the platform of the
tenant that has most.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

from messaging.broker.runtime.problems.tenant_counts import TenantCounts
from messaging.problems.order import Problem, Rank, rank, ranked
from messaging.storage.meta_store import namespace_of, tenant_of

OF_TOPIC_MAX = 20  # problems of one topic; further ones are counted
PROBLEMS_MAX = 1_000  # of one tenant
PLATFORM_PROBLEMS_MAX = 20_000  # of all together: about 30 MB
LEFT_OUT_TOPICS_MAX = 100_000  # of which it is known how many problems were left out


class TopicProblems:
    """The most urgent problems of one topic, while they are collected, and how many there are beside them."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []  # in order
        self.left_out = 0
        self._ranks: list[Rank] = []

    def add(self, problem: Problem) -> None:
        place = rank(problem)
        if len(self.problems) >= OF_TOPIC_MAX:
            self.left_out += 1
            if place >= self._ranks[-1]:
                return
            self._ranks.pop()
            self.problems.pop()
        index = bisect_right(self._ranks, place)
        self._ranks.insert(index, place)
        self.problems.insert(index, problem)


class KnownProblem(NamedTuple):
    """`number` tells those of the same rank apart."""

    rank: Rank
    number: int
    topic: str
    problem: Problem


class _LeftOut(NamedTuple):
    namespace: str
    problems: int


class _Tenant:
    __slots__ = ("by_namespace", "entries", "left_out", "ranked", "topics")

    def __init__(self) -> None:
        self.entries: list[KnownProblem] = []  # in order
        self.topics: dict[str, list[KnownProblem]] = {}  # never empty
        self.left_out: dict[int, _LeftOut] = {}  # by the hash of the topic's name, which is smaller
        self.by_namespace: Counter[str] = Counter()  # how many were left out
        self.ranked: list[Problem] | None = None


class KnownProblems:
    def __init__(self) -> None:
        self._tenants: dict[str, _Tenant] = {}  # of which there is something
        self._counts = TenantCounts()
        self._left_out_topics = 0
        self._number = 0

    # --- changes

    def put(self, topic: str, tenant: str, most_urgent: TopicProblems) -> None:
        """What is wrong with a topic from now on."""
        problems, left_out = most_urgent.problems, most_urgent.left_out
        of_tenant = self._tenants.get(tenant)
        before = [] if of_tenant is None else [entry.problem for entry in of_tenant.topics.get(topic, ())]
        if before == problems and left_out == self.left_out_of_topic(topic):
            return
        self.forget(topic, tenant)
        if problems:
            self._tenants.setdefault(tenant, of_tenant or _Tenant())
            self._leave_out(topic, tenant, left_out)
            for problem in problems:
                self._add(topic, tenant, problem)
            self._drop_if_empty(tenant)

    def forget(self, topic: str, tenant: str) -> None:
        of_tenant = self._tenants.get(tenant)
        if of_tenant is None:
            return
        for entry in list(of_tenant.topics.get(topic, ())):
            self._remove(tenant, entry)
        left_out = of_tenant.left_out.pop(hash(topic), None)
        if left_out is not None:
            self._left_out_topics -= 1
            of_tenant.by_namespace[left_out.namespace] -= left_out.problems
            if not of_tenant.by_namespace[left_out.namespace]:
                del of_tenant.by_namespace[left_out.namespace]
        self._drop_if_empty(tenant)

    def _add(self, topic: str, tenant: str, problem: Problem) -> None:
        place, gives_way = rank(problem), ""
        if self._counts.of(tenant) >= PROBLEMS_MAX:
            gives_way = tenant
        elif self._counts.total >= PLATFORM_PROBLEMS_MAX:
            largest, most = self._counts.largest()
            gives_way = largest if self._counts.of(tenant) + 1 < most else tenant
        if gives_way:
            entries = self._tenants[gives_way].entries
            if gives_way == tenant and (not entries or place >= entries[-1].rank):
                self._leave_out(topic, tenant, 1)
                return
            last = entries[-1]
            self._remove(gives_way, last)
            self._leave_out(last.topic, gives_way, 1)
            if gives_way != tenant:
                self._drop_if_empty(gives_way)
        self._number += 1
        entry, of_tenant = KnownProblem(place, self._number, topic, problem), self._tenants[tenant]
        insort(of_tenant.entries, entry)
        of_tenant.topics.setdefault(topic, []).append(entry)
        of_tenant.ranked = None
        self._counts.add(tenant, 1)

    def _remove(self, tenant: str, entry: KnownProblem) -> None:
        of_tenant = self._tenants[tenant]
        del of_tenant.entries[bisect_left(of_tenant.entries, entry)]
        of_topic = of_tenant.topics[entry.topic]
        of_topic.remove(entry)
        if not of_topic:
            del of_tenant.topics[entry.topic]
        of_tenant.ranked = None
        self._counts.add(tenant, -1)

    def _leave_out(self, topic: str, tenant: str, count: int) -> None:
        of_tenant, key = self._tenants[tenant], hash(topic)
        before = of_tenant.left_out.get(key)
        if not count or (before is None and self._left_out_topics >= LEFT_OUT_TOPICS_MAX):
            return
        self._left_out_topics += before is None
        namespace = before.namespace if before is not None else namespace_of(topic)
        of_tenant.left_out[key] = _LeftOut(namespace, count + (before.problems if before is not None else 0))
        of_tenant.by_namespace[namespace] += count

    def _drop_if_empty(self, tenant: str) -> None:
        of_tenant = self._tenants.get(tenant)
        if of_tenant is not None and not of_tenant.entries and not of_tenant.left_out:
            del self._tenants[tenant]

    # --- asking

    def of_topic(self, topic: str) -> list[Problem]:
        """In order."""
        of_tenant = self._tenants.get(tenant_of(topic))
        return [] if of_tenant is None else [entry.problem for entry in of_tenant.topics.get(topic, ())]

    def topics(self) -> list[str]:
        """Of which something is known."""
        return [topic for of_tenant in self._tenants.values() for topic in of_tenant.topics]

    def left_out_of_topic(self, topic: str) -> int:
        of_tenant = self._tenants.get(tenant_of(topic))
        left_out = None if of_tenant is None else of_tenant.left_out.get(hash(topic))
        return 0 if left_out is None else left_out.problems

    def count(self, tenant: str) -> int:
        return self._counts.of(tenant)

    def left_out(self, tenant: str, namespaces: Collection[str] | None) -> int:
        """How many problems are not kept: of the tenant, or of some of its namespaces."""
        of_tenant = self._tenants.get(tenant)
        if of_tenant is None:
            return 0
        counts = of_tenant.by_namespace
        return sum(counts.values()) if namespaces is None else sum(counts.get(namespace, 0) for namespace in namespaces)

    def ranked(self, tenant: str, further: list[Problem]) -> list[Problem]:
        """`further` problems beside them, of which nothing is kept."""
        of_tenant = self._tenants.get(tenant)
        if of_tenant is None:
            return ranked(further)
        if of_tenant.ranked is None:
            of_tenant.ranked = ranked(entry.problem for entry in of_tenant.entries)
        return ranked([*of_tenant.ranked, *further]) if further else of_tenant.ranked

    def tenants(self) -> set[str]:
        return set(self._tenants)
