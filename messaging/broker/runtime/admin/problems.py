"""Admin RPC: what is wrong in topics, in order. It is known already, so that asking walks over no topic."""

from __future__ import annotations

from collections import Counter
from heapq import merge

from messaging.adminrpc.methods import PROBLEMS_LIST
from messaging.adminrpc.problems import ProblemsFound, ProblemsList
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.admin.fewer_copies import problems_of_copies
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.ownership.shared_member import SharedMember
from messaging.broker.runtime.problems.topic_signs import may_pass
from messaging.broker.runtime.turn_slices import TurnSlices
from messaging.problems.kinds import ORDER, Kind
from messaging.problems.order import Problem, rank

# In units of `core/turns/command_costs.py`: of a tenant that is asked about, of a problem that is put in order and counted, and of
# one that is merged with those of other tenants.
TENANT_COST, PROBLEM_COST, MERGE_COST = 4, 10, 6


class ProblemHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @answers(PROBLEMS_LIST)
    async def list_problems(self, request: ProblemsList) -> ProblemsFound:
        watch, stored, now_ms = self._broker.problems, self._broker.stored_problems, self._broker.now_ms()
        slices = self._broker.topics.services.loops.slices(request.of_tenants[0] if len(request.of_tenants) == 1 else "")
        unserved, copies = await self._unserved(slices), await problems_of_copies(self._broker, slices)
        whole = (
            (watch.tenants() | set(stored.tenants_with_unknown()) | set(unserved) | set(copies)) - set(request.closed)
            if request.everywhere
            else set(request.of_tenants)
        )
        single: dict[str, set[str]] = {}
        for namespace in request.of_namespaces:
            tenant = namespace.partition("/")[0]
            if tenant not in whole:
                single.setdefault(tenant, set()).add(namespace)
        lists: list[list[Problem]] = []
        total: Counter[str] = Counter()
        by_namespace: dict[str, str] = {}
        left_out = unknown_topics = 0
        if request.everywhere and (down := sorted(self._broker.broker_problems.problems(), key=rank)):
            lists.append(down)
            total[Kind.PROCESS_DOWN] += len(down)
        for tenant in sorted(whole | set(single)):
            namespaces = single.get(tenant)
            await slices.spend(TENANT_COST + PROBLEM_COST * watch.count(tenant) + len(namespaces or ()))
            left_out += watch.known.left_out(tenant, namespaces)
            unknown_topics += stored.unknown(tenant, namespaces)
            known = [*unserved.get(tenant, ()), *watch.of(tenant)]
            shown = [problem for problem in known if self._is_shown(problem, namespaces, now_ms)]
            of_copies = copies.get(tenant, ())
            few = sorted((problem for problem in of_copies if self._is_shown(problem, namespaces, now_ms)), key=rank)
            lists += [each for each in (shown, few) if each]
            for problem in (*shown, *few):
                total[problem.kind] += 1
                earlier = by_namespace.get(problem.namespace, problem.kind)
                by_namespace[problem.namespace] = min(earlier, problem.kind, key=lambda kind: ORDER.get(kind, len(ORDER)))
        return ProblemsFound(
            problems=await _first(lists, request.problems_max, slices),
            total=dict(total),
            by_namespace=by_namespace,
            beyond=left_out,
            unknown_topics=unknown_topics,
            at_ms=now_ms,
            looked_ms=watch.looked_ms(None if request.everywhere else whole | set(single)) if stored.done else None,
        )

    async def _unserved(self, slices: TurnSlices) -> dict[str, list[Problem]]:
        """Namespaces that isolation policies leave to no broker that runs, by tenant. One broker tells of them, for all."""
        owners, view, found = self._broker.owners, self._broker.access.view, dict[str, list[Problem]]()
        if not isinstance(owners, SharedMember):
            return found
        running = sorted(each.broker_id for each in owners.owners.sessions.values() if each.serves)
        isolation = view.placement.isolation
        if running[:1] != [owners.broker_id] or not isolation.problems(running):
            return found
        for namespace in sorted(view.namespaces):
            await slices.spend(1)
            rows = owners.owners.rows_of(namespace)
            if isolation.among(namespace, running) or (rows and all(map(owners.owners.is_live, rows))):
                continue  # what is at a broker stays there until it is unloaded
            why, _, to_do = isolation.why_nobody(namespace).partition(": ")
            tenant = namespace.partition("/")[0]
            problem = Problem(
                kind=Kind.UNSERVED, sentence=f"{why[:1].upper()}{why[1:]}.", remedy=to_do, tenant=tenant, namespace=namespace
            )
            found.setdefault(tenant, []).append(problem)
        return found

    def _is_shown(self, problem: Problem, namespaces: set[str] | None, now_ms: int) -> bool:
        is_asked = namespaces is None or problem.namespace in namespaces
        return is_asked and problem.namespace not in self._broker.access.view.recycled and not may_pass(problem, now_ms)


async def _first(lists: list[list[Problem]], count_max: int, slices: TurnSlices) -> list[Problem]:
    """The most urgent of several lists that are in order."""
    await slices.spend(MERGE_COST * len(lists))
    merged, first = merge(*lists, key=rank), list[Problem]()
    for problem in merged:
        first.append(problem)
        if len(first) >= count_max:
            break
        await slices.spend(MERGE_COST)
    return first
