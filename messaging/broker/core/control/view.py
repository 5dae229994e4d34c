"""The broker's copy of the control plane: tenants, namespaces, grants, policies and keys, at one version of the feed.

It decides permissions and policies while the web process or its database is unavailable. Pure: `plan` decides what a page of the
feed changes, `swap` applies it, and everything else only reads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from messaging.adminrpc.feed import EVERY_BROKER, FeedApply, FeedChange
from messaging.broker.core.clients.expiry_index import ExpiryIndex
from messaging.broker.core.control.feed_plan import FeedPlan, plan
from messaging.broker.core.control.grant_ends import first_end_ms, without_ended
from messaging.broker.core.control.placement_view import PlacementView
from messaging.client_address import within
from messaging.permissions.inherited import ANONYMOUS_NAMESPACE, InheritedGrants
from messaging.permissions.model import Binding
from messaging.permissions.roles import key_binding
from messaging.policies.dynamic import with_dynamic
from messaging.policies.model import ROLE_PREFIX, Level
from messaging.policies.resolution import EffectivePolicy, policy_topic, resolve_policy
from messaging.policies.spending import throttled
from messaging.protocol.bundles import BUNDLES_DEFAULT, Boundaries, equal_bundles
from messaging.protocol.names import TopicName

_NOTHING: Mapping[str, Any] = {}
_USUAL = equal_bundles(BUNDLES_DEFAULT)


class ControlView(InheritedGrants):
    """Implements `messaging.permissions.model.Grants`."""

    def __init__(
        self,
        *,
        superuser_roles: Iterable[str],
        policy_defaults: Mapping[str, Any],
        anonymous_public: bool,
        topic_policies: bool = True,
    ) -> None:
        """`topic_policies`: those of topics are in force."""
        self._has_topic_policies = topic_policies
        self.version = 0
        self.feed_id = ""  # the database that the version belongs to
        self.tenants: dict[str, dict[str, Any]] = {}
        self.namespaces: dict[str, dict[str, Any]] = {}
        self.keys: dict[str, dict[str, Any]] = {}
        self.issuers: dict[str, dict[str, Any]] = {}  # tenant/name
        self.topics: dict[str, dict[str, Any]] = {}  # those that have policies of their own
        self.recycled: dict[str, dict[str, Any]] = {}  # namespaces in the recycle bin
        self.placement = PlacementView()
        self._deleted: dict[str, dict[str, Any]] = {}  # what was set on topics that are gone, until the control plane forgets it
        self._topics_of: dict[str, dict[str, dict[str, Any]]] = {}  # namespace -> the same
        self._superusers = frozenset(superuser_roles)
        self.brokers: dict[str, dict[str, Any]] = {}  # settings that were changed while brokers run
        self._configured = policy_defaults
        self.defaults = policy_defaults  # of policies, with those settings
        self._anonymous_public = anonymous_public
        self._grant_ends = ExpiryIndex()  # namespaces, each by the first of its grants that ends
        self._revoked_early: dict[str, int] = {}  # key id -> the version that revokes it
        self.resolved_policies: dict[tuple[str, str], EffectivePolicy] = {}  # cache for dispatch; cleared with every change

    def plan(self, feed: FeedApply) -> FeedPlan | None:
        """What `feed` would change, or None if nothing. Does not change anything. Raises `InvalidValue` for a malformed feed."""
        return plan(feed, self.version, self.feed_id, self._tables())

    def swap(self, plan: FeedPlan) -> None:
        """Applies a plan that was made for the current state. Cannot fail."""
        tables = self._tables()
        if plan.feed.full:
            for table in tables.values():
                table.clear()
            self._topics_of.clear()
            self.placement.forget_namespaces()
        for change in plan.changes:
            if change.state is None:
                tables[change.kind].pop(change.key, None)
            else:
                tables[change.kind][change.key] = change.state
            if change.kind == "topic":
                self._keep_topic(change.key, change.state)
            elif change.kind == "namespace":
                self.placement.keep_namespace(change.key, change.state)
                self._grant_ends.note(change.key, first_end_ms(change.state or _NOTHING))
        self.placement.changed({kind for kind, _ in plan.changed})
        self.defaults = with_dynamic(self._configured, self.brokers.get(EVERY_BROKER, _NOTHING).get("settings", _NOTHING))
        self.resolved_policies.clear()
        self.version, self.feed_id = plan.feed.to_version, plan.feed.feed_id or self.feed_id
        self._revoked_early = {key: version for key, version in self._revoked_early.items() if version > self.version}

    def _keep_topic(self, text: str, state: dict[str, Any] | None) -> None:
        namespace = text.partition("://")[2].rpartition("/")[0]
        if not self._has_topic_policies:
            return
        if text in self._deleted:
            if state == self._deleted[text]:
                return  # told again in a full feed
            del self._deleted[text]
        topics = self._topics_of.setdefault(namespace, {})
        if state is None:
            topics.pop(text, None)
        else:
            topics[text] = state
        if not topics:
            del self._topics_of[namespace]

    def end_grants(self, now_ms: int) -> set[tuple[str, str]]:
        """Takes away what was granted until now. Returns the (kind, key) that changed."""
        ended = self._grant_ends.due(now_ms) & self.namespaces.keys()
        for namespace in ended:
            state = self.namespaces[namespace] = without_ended(self.namespaces[namespace], now_ms)
            self._grant_ends.note(namespace, first_end_ms(state))
        return {("namespace", namespace) for namespace in ended}

    def topic_deleted(self, text: str) -> None:
        """Policies of a topic end with it, whoever deleted it. After a restart of the broker the control plane has seen to it."""
        state = self.topics.get(text)
        if state is not None:
            self._keep_topic(text, None)
            self._deleted[text] = state
            self.resolved_policies.clear()

    def topic_restored(self, text: str) -> None:
        """It is back from the recycle bin: what was set on it applies again, if the control plane has not forgotten it."""
        state = self._deleted.pop(text, None)
        if state is not None:
            self._keep_topic(text, state)
            self.resolved_policies.clear()

    def version_of(self, feed: FeedApply) -> int:
        """The version held of the feed that this page is of; 0 of one that is not followed."""
        return self.version if feed.feed_id in ("", self.feed_id) else 0

    def revoke_early(self, plan: FeedPlan) -> None:
        """The keys that the plan revokes are invalid from now on, although the plan is not saved yet. Kept until its version is
        applied."""
        self._revoked_early.update(dict.fromkeys(plan.revoked, plan.feed.to_version))

    def apply(self, from_version: int, to_version: int, changes: list[FeedChange], *, full: bool) -> set[tuple[str, str]]:
        """`plan` and `swap` in one step, for changes that are already saved. Returns the (kind, key) that changed."""
        plan = self.plan(
            FeedApply(from_version=from_version, to_version=to_version, full=full, changes=changes, feed_id=self.feed_id)
        )
        if plan is None:
            return set()
        self.swap(plan)
        return plan.changed

    def _tables(self) -> dict[str, dict[str, dict[str, Any]]]:
        others = {"topic": self.topics, "broker": self.brokers, "recycled": self.recycled}
        others |= {"isolation": self.placement.isolation_states, "failure_domain": self.placement.domain_states}
        return {"tenant": self.tenants, "namespace": self.namespaces, "key": self.keys, "issuer": self.issuers, **others}

    def entities(self) -> list[tuple[str, str, dict[str, Any]]]:
        """(kind, key, state) of everything in the view. States are replaced, never modified, so another thread may read them."""
        return [(kind, key, state) for kind, table in self._tables().items() for key, state in table.items()]

    def dump(self) -> list[FeedChange]:
        """Everything in the view, as changes at the current version."""
        return [FeedChange(version=self.version, kind=kind, key=key, state=state) for kind, key, state in self.entities()]

    # --- Grants

    def is_superuser(self, role: str) -> bool:
        return role in self._superusers

    def tenant_admins(self, tenant: str) -> Collection[str]:
        return self.tenants.get(tenant, {}).get("admin_roles", ())  # type: ignore[no-any-return]

    def bindings(self, tenant: str, role: str) -> Sequence[Binding]:
        return ()

    def key_bindings(self, key_id: str) -> Sequence[Binding] | None:
        scope = self.keys.get(key_id, _NOTHING).get("scope")
        if scope is None:
            return None
        return [key_binding(entry["actions"], entry.get("namespace", ""), entry.get("topics", "")) for entry in scope]

    def key_refusal(self, key_id: str, address: str, now_ms: int) -> str:
        """Why a key that was not revoked may not be used from `address`, or any more; "" if it may."""
        expires_ms = self.key_expires_ms(key_id)
        if expires_ms and expires_ms <= now_ms:
            return "the key of this token has expired: use the key that replaced it, or create a new one"
        if not within(address, self.keys.get(key_id, _NOTHING).get("networks", ())):
            return f"the key of this token may not be used from {address}: use it from one of its networks"
        return ""

    def key_expires_ms(self, key_id: str) -> int:
        """0: never, or the key is unknown."""
        return int(self.keys.get(key_id, _NOTHING).get("expires_ms", 0))

    def stored_grants(self, namespace: str, topic: str) -> Mapping[str, Collection[str]]:
        state = self.namespaces.get(namespace, _NOTHING)
        grants = state.get("topic_grants", _NOTHING).get(topic) if topic else state.get("grants")
        return grants or _NOTHING

    def opens_public(self) -> bool:
        return self._anonymous_public and ANONYMOUS_NAMESPACE in self.namespaces

    def subscription_roles(self, namespace: str, subscription: str) -> Collection[str]:
        return self.namespaces.get(namespace, {}).get("subscription_roles", {}).get(subscription, ())  # type: ignore[no-any-return]

    def prefixes_subscriptions(self, namespace: str) -> bool:
        return bool(self.policy("subscription_auth_mode", namespace).value == ROLE_PREFIX)

    # --- policies and keys

    def policy(self, name: str, namespace: str, topic: TopicName | None = None) -> EffectivePolicy:
        """For a topic of the namespace; None: for one that has no policies of its own."""
        topics = self._topics_of.get(namespace)
        if topics is not None and topic is not None and (text := policy_topic(topic)) in topics:
            return self._policy_of_topic(name, namespace, text)
        known = self.resolved_policies.get((name, namespace))
        if known is not None:
            return known
        policy = resolve_policy(name, self.levels_of_namespace(namespace), self.defaults)
        if namespace in self.namespaces:  # otherwise requests could make this grow without limit
            self.resolved_policies[name, namespace] = policy
        return policy

    def policy_of_tenant(self, name: str, tenant: str) -> EffectivePolicy:
        """Of one that limits a tenant as a whole."""
        return resolve_policy(name, {Level.TENANT: self.policies_of_tenant(tenant)}, self.defaults)

    def policies_of_tenant(self, tenant: str) -> Mapping[str, Any]:
        """What is set on it, with the rates that it is throttled to."""
        policies: Mapping[str, Any] = self.tenants.get(tenant, _NOTHING).get("policies") or _NOTHING
        rates = self._spend_of(tenant).get("rates")
        return throttled(policies, rates, self.defaults) if rates else policies

    def publishing_stopped(self, tenant: str) -> str:
        """Why its producers are refused; "": they are not."""
        return str(self._spend_of(tenant).get("stopped", ""))

    def _spend_of(self, tenant: str) -> Mapping[str, Any]:
        return self.tenants.get(tenant, _NOTHING).get("spend") or _NOTHING

    def levels_of_namespace(self, namespace: str) -> dict[Level, Mapping[str, Any] | None]:
        """What is set on it, and above."""
        return {
            Level.NAMESPACE: self.namespaces.get(namespace, _NOTHING).get("policies"),
            Level.TENANT: self.policies_of_tenant(namespace.partition("/")[0]),
        }

    def _policy_of_topic(self, name: str, namespace: str, topic: str) -> EffectivePolicy:
        known = self.resolved_policies.get((name, topic))
        if known is None:
            set_on_topic = self._topics_of[namespace][topic].get("policies")
            levels = {Level.TOPIC: set_on_topic, **self.levels_of_namespace(namespace)}
            known = self.resolved_policies[name, topic] = resolve_policy(name, levels, self.defaults)
        return known

    def subscriptions_with_policies(self, topic: TopicName) -> Collection[str]:
        subscriptions: Mapping[str, Any] = self._state_of(topic).get("subscriptions", _NOTHING)
        return subscriptions.keys()

    def _state_of(self, topic: TopicName) -> Mapping[str, Any]:
        topics = self._topics_of.get(str(topic.namespace))
        return _NOTHING if topics is None else topics.get(policy_topic(topic), _NOTHING)

    def policy_of_subscription(self, name: str, topic: TopicName, subscription: str) -> EffectivePolicy:
        return resolve_policy(name, self.levels_of(topic, subscription), self.defaults)

    def levels_of(self, topic: TopicName, subscription: str = "") -> dict[Level, Mapping[str, Any] | None]:
        """What is set at each level."""
        state = self._state_of(topic)
        return {
            Level.SUBSCRIPTION: state.get("subscriptions", _NOTHING).get(subscription),
            Level.TOPIC: state.get("policies"),
            **self.levels_of_namespace(str(topic.namespace)),
        }

    def key_revoked(self, key_id: str) -> bool | None:
        """None if the key is unknown. A key of a deleted tenant is revoked, even if a new tenant has the same name."""
        if key_id in self._revoked_early:
            return True
        state = self.keys.get(key_id)
        if state is None:
            return None
        return bool(state.get("revoked")) or state.get("tenant_uid", "") != self.tenant_uid(state.get("tenant", ""))

    def tenant_uid(self, tenant: str) -> str:
        """ "" for an unknown tenant, or one from before tenants had a uid."""
        return str(self.tenants.get(tenant, _NOTHING).get("uid", ""))

    def owner_of(self, namespace: str) -> str | None:
        """The uid of the tenant of a namespace; None: there is none of that name, or it is in the recycle bin."""
        tenant = namespace.partition("/")[0]
        return self.tenant_uid(tenant) if namespace in self.namespaces and tenant in self.tenants else None

    def payer_uid(self, namespace: str) -> str:
        """The uid of the tenant that pays for what is stored in the namespace, also where that, or the tenant, is in the recycle
        bin. "" where it is unknown."""
        recycled = self.recycled.get(namespace)
        return self.tenant_uid(namespace.partition("/")[0]) if recycled is None else str(recycled.get("tenant_uid", ""))

    def boundaries_of(self, namespace: str) -> Boundaries:
        """Of its bundles."""
        given: list[int] = self.namespaces.get(namespace, _NOTHING).get("boundaries", [])
        return tuple(given) or _USUAL

    def restored_ms(self, namespace: str) -> int:
        """When the namespace came back from the recycle bin, where nobody could use it; 0: it was not there."""
        return int(self.namespaces.get(namespace, _NOTHING).get("restored_ms", 0))
