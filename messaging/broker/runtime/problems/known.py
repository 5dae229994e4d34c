"""What is known to be wrong, by tenant and topic, in bounded memory; and in order, sorted once for each change."""

from __future__ import annotations

from messaging.problems.order import Problem, ranked

PROBLEMS_MAX = 1_000  # of one tenant


class KnownProblems:
    def __init__(self) -> None:
        self._topics: dict[str, dict[str, list[Problem]]] = {}  # tenant -> topic -> problems, never empty
        self._counts: dict[str, int] = {}  # by tenant
        self._ranked: dict[str, list[Problem]] = {}

    def put(self, topic: str, tenant: str, problems: list[Problem]) -> bool:
        """Whether there was room for it."""
        if not problems:
            self.forget(topic, tenant)
            return True
        topics = self._topics.get(tenant, {})
        before = topics.get(topic, [])
        if before == problems:
            return True
        count = self._counts.get(tenant, 0) - len(before) + len(problems)
        if count > PROBLEMS_MAX:
            self.forget(topic, tenant)
            return False
        self._topics.setdefault(tenant, topics)[topic] = problems
        self._counts[tenant] = count
        self._ranked.pop(tenant, None)
        return True

    def forget(self, topic: str, tenant: str) -> None:
        topics = self._topics.get(tenant, {})
        problems = topics.pop(topic, None)
        if problems is not None:
            self._counts[tenant] -= len(problems)
            self._ranked.pop(tenant, None)
            if not topics:
                del self._topics[tenant], self._counts[tenant]

    def of_topic(self, topic: str) -> list[Problem]:
        tenant = topic.partition("://")[2].partition("/")[0]
        return self._topics.get(tenant, {}).get(topic, [])

    def ranked(self, tenant: str, further: list[Problem]) -> list[Problem]:
        """`further` problems beside them, of which nothing is kept."""
        problems = self._ranked.get(tenant)
        if problems is None:
            problems = ranked(problem for of_topic in self._topics.get(tenant, {}).values() for problem in of_topic)
            if problems:
                self._ranked[tenant] = problems
        return ranked([*problems, *further]) if further else problems

    def tenants(self) -> set[str]:
        return set(self._topics)
