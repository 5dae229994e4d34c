"""The broker's snapshot of the control plane: tenants, namespaces, grants, policies and keys, as of one version of the feed.

It answers who may do what while the web process or its database is away. Pure: `apply` takes changes in, everything else asks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from messaging.adminrpc.schema import Change
from messaging.permissions.inherited import ANONYMOUS_NAMESPACE, InheritedGrants
from messaging.policies import Effective, effective

_NOTHING: Mapping[str, Any] = {}


class ControlView(InheritedGrants):
    """Implements `messaging.permissions.model.Grants`."""

    def __init__(self, *, superuser_roles: Iterable[str], policy_defaults: Mapping[str, Any], anonymous_public: bool) -> None:
        self.version = 0
        self.tenants: dict[str, dict[str, Any]] = {}
        self.namespaces: dict[str, dict[str, Any]] = {}
        self.keys: dict[str, dict[str, Any]] = {}
        self._superusers = frozenset(superuser_roles)
        self._defaults = policy_defaults
        self._anonymous_public = anonymous_public
        self._policies: dict[tuple[str, str], Effective] = {}  # asked for with every hand-out; since the last change

    def apply(self, from_version: int, to_version: int, changes: list[Change], *, full: bool) -> set[tuple[str, str]]:
        """Takes changes in, if they join on to what is held (`from_version` at most our version) or are everything.

        Returns the (kind, key) that changed; nothing, and leaves the version, where there is a gap or nothing is new."""
        if full:
            known = {(kind, key) for kind, table in self._tables().items() for key in table}
            for table in self._tables().values():
                table.clear()
            self._put(changes)
            self.version = to_version
            return known | {(change.kind, change.key) for change in changes}
        if from_version > self.version or to_version <= self.version:
            return set()
        fresh = [change for change in changes if change.version > self.version]
        self._put(fresh)
        self.version = to_version
        return {(change.kind, change.key) for change in fresh}

    def _tables(self) -> dict[str, dict[str, dict[str, Any]]]:
        return {"tenant": self.tenants, "namespace": self.namespaces, "key": self.keys}

    def _put(self, changes: list[Change]) -> None:
        tables = self._tables()
        self._policies.clear()
        for change in changes:
            table = tables.get(change.kind)
            if table is None:
                continue  # a kind of a newer control plane
            if change.state is None:
                table.pop(change.key, None)
            else:
                table[change.key] = change.state

    def dump(self) -> list[Change]:
        """Everything held, as changes of the current version."""
        return [
            Change(version=self.version, kind=kind, key=key, state=state)
            for kind, table in self._tables().items()
            for key, state in table.items()
        ]

    # --- Grants

    def is_superuser(self, role: str) -> bool:
        return role in self._superusers

    def tenant_admins(self, tenant: str) -> Collection[str]:
        return self.tenants.get(tenant, {}).get("admin_roles", ())  # type: ignore[no-any-return]

    def stored_grants(self, namespace: str, topic: str) -> Mapping[str, Collection[str]]:
        held = self.namespaces.get(namespace, _NOTHING)
        found = held.get("topic_grants", _NOTHING).get(topic) if topic else held.get("grants")
        return found or _NOTHING

    def opens_public(self) -> bool:
        return self._anonymous_public and ANONYMOUS_NAMESPACE in self.namespaces

    def subscription_roles(self, namespace: str, subscription: str) -> Collection[str]:
        return self.namespaces.get(namespace, {}).get("subscription_roles", {}).get(subscription, ())  # type: ignore[no-any-return]

    # --- policies and keys

    def policy(self, name: str, namespace: str) -> Effective:
        known = self._policies.get((name, namespace))
        if known is not None:
            return known
        found = effective(name, self.namespaces.get(namespace, {}).get("policies"), self._defaults)
        if namespace in self.namespaces:  # else whoever asks could make this grow
            self._policies[name, namespace] = found
        return found

    def key_revoked(self, key_id: str) -> bool | None:
        """None: this key is not known (yet). A key of a former tenant is revoked, whatever the tenant of its name is now."""
        held = self.keys.get(key_id)
        if held is None:
            return None
        return bool(held.get("revoked")) or held.get("tenant_uid", "") != self.tenant_uid(held.get("tenant", ""))

    def tenant_uid(self, tenant: str) -> str:
        """ "" for a tenant that is not known, or from before tenants had one."""
        return str(self.tenants.get(tenant, _NOTHING).get("uid", ""))
