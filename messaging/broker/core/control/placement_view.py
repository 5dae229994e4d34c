"""What the control plane says of where bundles may be: isolation policies, failure domains, and groups of namespaces. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from messaging.policies.isolation import IsolationRules, isolation_from

_NOTHING: Mapping[str, Any] = {}
GROUP = "anti_affinity_group"  # the policy of a namespace
Group = tuple[str, str]  # tenant, name of the group in lower case: as in Pulsar, case does not matter


class PlacementView:
    def __init__(self) -> None:
        self.isolation_states: dict[str, dict[str, Any]] = {}  # by name, as the feed has them
        self.domain_states: dict[str, dict[str, Any]] = {}
        self.isolation = IsolationRules({})
        self.version = 0
        self._group_of: dict[str, Group] = {}  # of a namespace
        self._members: dict[Group, set[str]] = {}
        self._domain_of: dict[str, str] = {}  # of a broker

    def domain_of(self, broker_id: str) -> str:
        """A broker that is in no failure domain is one by itself."""
        return self._domain_of.get(broker_id, f"broker {broker_id}")

    @property
    def has_domains(self) -> bool:
        return bool(self._domain_of)

    def together_with(self, namespace: str) -> Collection[str]:
        """The namespaces of its anti-affinity group, itself included; none, where it is in no group."""
        group = self._group_of.get(namespace)
        return () if group is None else self._members[group]

    # --- following the feed

    def changed(self, kinds: Collection[str]) -> None:
        """The states of these kinds of entities are others now."""
        if "isolation" in kinds:
            self.isolation = IsolationRules({name: isolation_from(state) for name, state in self.isolation_states.items()})
            self.version += 1
        if "failure_domain" in kinds:
            self._domain_of = {
                broker_id: name for name, state in sorted(self.domain_states.items()) for broker_id in state.get("brokers", ())
            }

    def keep_namespace(self, namespace: str, state: Mapping[str, Any] | None) -> None:
        """`state` None: it is gone."""
        name = (state or _NOTHING).get("policies", _NOTHING).get(GROUP, "")
        group = (namespace.partition("/")[0], str(name).lower()) if name else None
        before = self._group_of.get(namespace)
        if group == before:
            return
        if before is not None:
            del self._group_of[namespace]
            self._members[before].discard(namespace)
            if not self._members[before]:
                del self._members[before]
        if group is not None:
            self._group_of[namespace] = group
            self._members.setdefault(group, set()).add(namespace)

    def forget_namespaces(self) -> None:
        self._group_of.clear()
        self._members.clear()
