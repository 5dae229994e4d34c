"""Where bundles may be, by isolation policies, and where they best are, by anti-affinity groups. Pure.

Isolation comes before availability: where a policy names no broker that runs, nobody serves the namespace. Anti-affinity is best
effort: the namespaces of a group are spread over failure domains, then over brokers, and lie together where there are too few.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice

from messaging.broker.core.control.placement_view import PlacementView
from messaging.broker.core.ownership.owner_map import OwnerMap

COUNTED_MAX = 256  # namespaces of a group; larger ones are spread by as many of them


class FleetRules:
    """Implements `PlacementRules`."""

    def __init__(self, view: PlacementView, owners: OwnerMap) -> None:
        self._view = view
        self._owners = owners

    @property
    def version(self) -> int:
        return self._view.version

    def allowed(self, namespace: str, brokers: Sequence[str], giver: str = "") -> list[str]:
        within = set(self._view.isolation.among(namespace, self._running(*brokers)))
        isolated = [broker_id for broker_id in brokers if broker_id in within]
        together = self._view.together_with(namespace)
        if not together or not isolated:
            return isolated
        counts = Counter(broker_id for each in islice(together, COUNTED_MAX) for broker_id in self._owners.brokers_of(each))
        if giver:
            return [broker_id for broker_id in isolated if self._no_worse(namespace, broker_id, giver, counts)]
        if self._view.has_domains:
            of_domains = self._of_domains(counts)
            fewest = min(of_domains[self._view.domain_of(broker_id)] for broker_id in isolated)
            isolated = [broker_id for broker_id in isolated if of_domains[self._view.domain_of(broker_id)] == fewest]
        fewest = min(counts[broker_id] for broker_id in isolated)
        return [broker_id for broker_id in isolated if counts[broker_id] == fewest]

    def permits(self, namespace: str, broker_id: str) -> bool:
        return broker_id in self._view.isolation.among(namespace, self._running(broker_id))

    def is_together(self, namespace: str, broker_id: str, brokers: Sequence[str]) -> bool:
        return bool(self._view.together_with(namespace)) and broker_id not in self.allowed(namespace, brokers)

    def why_nobody(self, namespace: str) -> str:
        return self._view.isolation.why_nobody(namespace)

    def _running(self, *others: str) -> list[str]:
        """Those that take bundles, and `others`: how many primary brokers there are does not depend on which are asked about."""
        return list(dict.fromkeys([each.broker_id for each in self._owners.sessions.values() if each.takes] + list(others)))

    def _no_worse(self, namespace: str, broker_id: str, giver: str, counts: Counter[str]) -> bool:
        """Whether the group is no nearer together after a move."""
        view, is_there = self._view, broker_id in self._owners.brokers_of(namespace)
        of_domains = self._of_domains(counts)
        if view.has_domains and view.domain_of(broker_id) != view.domain_of(giver):
            return of_domains[view.domain_of(broker_id)] + (not is_there) <= of_domains[view.domain_of(giver)]
        return counts[broker_id] + (not is_there) <= counts[giver]

    def _of_domains(self, counts: Counter[str]) -> Counter[str]:
        of_domains: Counter[str] = Counter()
        for broker_id, count in counts.items():
            of_domains[self._view.domain_of(broker_id)] += count
        return of_domains
