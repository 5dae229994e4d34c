"""Admin RPC: what is wrong in topics, in order. It is known already, so that asking walks over no topic."""

from __future__ import annotations

from collections import Counter
from heapq import merge

from messaging.adminrpc.methods import PROBLEMS_LIST
from messaging.adminrpc.problems import ProblemsFound, ProblemsList
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.broker import Broker
from messaging.problems.kinds import ORDER
from messaging.problems.order import Problem, rank

COST = 1  # of a problem that is counted, in units of `core/turns/command_costs.py`


class ProblemHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @answers(PROBLEMS_LIST)
    async def list_problems(self, request: ProblemsList) -> ProblemsFound:
        watch, stored, now_ms = self._broker.problems, self._broker.stored_problems, self._broker.now_ms()
        whole = watch.tenants() if request.everywhere else set(request.of_tenants)
        single: dict[str, set[str]] = {}
        for namespace in request.of_namespaces:
            tenant = namespace.partition("/")[0]
            if tenant not in whole:
                single.setdefault(tenant, set()).add(namespace)
        lists: list[list[Problem]] = []
        total: Counter[str] = Counter()
        by_namespace: dict[str, str] = {}
        slices = self._broker.topics.services.loops.slices(request.of_tenants[0] if len(request.of_tenants) == 1 else "")
        for tenant in sorted(whole | set(single)):
            known = watch.of(tenant)
            await slices.spend(1 + COST * len(known))
            lists.append([problem for problem in known if self._is_shown(problem, single.get(tenant))])
            for problem in lists[-1]:
                total[problem.kind] += 1
                earlier = by_namespace.get(problem.namespace, problem.kind)
                by_namespace[problem.namespace] = min(earlier, problem.kind, key=lambda kind: ORDER.get(kind, len(ORDER)))
        first = [problem for _, problem in zip(range(request.problems_max), merge(*lists, key=rank), strict=False)]
        return ProblemsFound(
            problems=first,
            total=dict(total),
            by_namespace=by_namespace,
            beyond=sum(watch.beyond.values()) if request.everywhere else sum(watch.beyond[tenant] for tenant in whole),
            unknown_topics=sum(stored.unknown(tenant) for tenant in (self._tenants() if request.everywhere else whole)),
            at_ms=now_ms,
            looked_ms=watch.looked_ms if stored.done else None,
        )

    def _tenants(self) -> list[str]:
        return list(self._broker.access.view.tenants)

    def _is_shown(self, problem: Problem, namespaces: set[str] | None) -> bool:
        is_asked = namespaces is None or problem.namespace in namespaces
        return is_asked and problem.namespace not in self._broker.access.view.recycled
