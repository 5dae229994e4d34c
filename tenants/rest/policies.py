"""Policies of topics and subscriptions, the policies in force, and what a change would do, as our API has them."""

from __future__ import annotations

import time

from rest_framework.request import Request
from rest_framework.response import Response

from messaging.adminrpc.policies import PolicyPreviewAnswer
from messaging.policies.effective import PolicyInForce
from messaging.policies.registry import POLICIES
from messaging.policies.validation import JsonPolicies, split
from messaging.protocol.names import TopicName
from tenants import actions
from tenants.actions import policy_views
from tenants.history.what_if import PolicyChangeAsked, PolicyWhatIf
from tenants.models import Tenant
from tenants.models import TopicPolicies as Row
from tenants.names import subscription_of, topic_of
from tenants.rest import shapes
from tenants.rest.base import View, existing_namespace
from tenants.rest.history import SPAN, span_of
from tenants.rest.schema import describe
from tenants.rest.tenants import existing

_WHAT_IF = "What a change of policies would have done to the traffic of a span; nothing is changed"


class TenantPolicies(View):
    @describe("Policies set on a tenant, for all its namespaces", shapes.POLICIES)
    def get(self, request: Request, tenant: str) -> Response:
        return Response(split(existing(tenant).policies).enforced)

    @describe("Replace all policies of a tenant; missing ones are the broker's", shapes.POLICIES, shapes.POLICIES_GIVEN)
    def put(self, request: Request, tenant: str) -> Response:
        given = self.object_of("policies")
        return self._set(tenant, {**dict.fromkeys([*POLICIES, *existing(tenant).policies]), **given})

    @describe("Set some policies of a tenant; null removes one", shapes.POLICIES, shapes.POLICIES_GIVEN)
    def patch(self, request: Request, tenant: str) -> Response:
        return self._set(tenant, self.object_of("policies"))

    def _set(self, tenant: str, changes: JsonPolicies) -> Response:
        return Response(split(actions.set_tenant_policies(self.actor(), tenant, changes).policies).enforced)


class TenantMaskedFields(View):
    """The one policy of a tenant that its own administrators set."""

    @describe("What is masked in all namespaces of a tenant that do not say it themselves", shapes.MaskedFields)
    def get(self, request: Request, tenant: str) -> Response:
        return Response(_masked(existing(tenant)))

    @describe(
        "Set what is masked in all namespaces of a tenant that do not say it themselves; empty: nothing",
        shapes.MaskedFields,
        shapes.MaskedFields,
    )
    def put(self, request: Request, tenant: str) -> Response:
        rules = self.read(shapes.MaskedFields).masked_fields
        return Response(_masked(actions.set_tenant_policies(self.actor(), tenant, {"masked_fields": rules or None})))


def _masked(tenant: Tenant) -> shapes.MaskedFields:
    return shapes.MaskedFields(masked_fields=split(tenant.policies).enforced.get("masked_fields") or [])


class TenantPoliciesInForce(View):
    @describe("The policies in force for a tenant", shapes.PoliciesInForce)
    def get(self, request: Request, tenant: str) -> Response:
        return Response(_in_force(policy_views.tenant_in_force(existing(tenant))))


class TenantPolicyPreview(View):
    @describe("What a change of a tenant's policies would do now; nothing is changed", PolicyPreviewAnswer, shapes.POLICIES_GIVEN)
    def post(self, request: Request, tenant: str) -> Response:
        return Response(
            policy_views.preview(policy_views.checked_tenant(self.actor(), existing(tenant), self.object_of("policies")))
        )


class NamespacePoliciesInForce(View):
    @describe("The policies in force for the topics of a namespace", shapes.PoliciesInForce)
    def get(self, request: Request, tenant: str, namespace: str) -> Response:
        return Response(_in_force(policy_views.namespace_in_force(existing_namespace(tenant, namespace))))


class NamespacePolicyPreview(View):
    @describe("What a change of policies would do now; nothing is changed", PolicyPreviewAnswer, shapes.POLICIES_GIVEN)
    def post(self, request: Request, tenant: str, namespace: str) -> Response:
        row, changes = existing_namespace(tenant, namespace), self.object_of("policies")
        return Response(policy_views.preview(policy_views.checked_namespace(self.actor(), row, changes)))


class TopicPolicies(View):
    """Of a topic, or of the subscription that the route names."""

    @describe("Policies set on a topic", shapes.POLICIES)
    def get(self, request: Request, **parts: str) -> Response:
        topic, subscription = _named(parts)
        return Response(_set_on(actions.topic_policies(topic), subscription))

    @describe("Replace all policies of a topic; missing ones are inherited", shapes.POLICIES, shapes.POLICIES_GIVEN)
    def put(self, request: Request, **parts: str) -> Response:
        given = self.object_of("policies")
        topic, subscription = _named(parts)
        present = _held(actions.topic_policies(topic), subscription)
        return self._set(topic, subscription, {**dict.fromkeys([*POLICIES, *present]), **given})

    @describe("Set some policies of a topic; null removes one, so that it is inherited", shapes.POLICIES, shapes.POLICIES_GIVEN)
    def patch(self, request: Request, **parts: str) -> Response:
        return self._set(*_named(parts), self.object_of("policies"))

    def _set(self, topic: TopicName, subscription: str, changes: JsonPolicies) -> Response:
        return Response(_set_on(actions.set_topic_policies(self.actor(), topic, changes, subscription), subscription))


class SubscriptionPolicies(TopicPolicies):
    """The same routes below a subscription."""


class TopicPoliciesInForce(View):
    @describe("The policies in force for a topic", shapes.PoliciesInForce)
    def get(self, request: Request, **parts: str) -> Response:
        topic, subscription = _named(parts)
        return Response(_in_force(policy_views.topic_in_force(actions.topic_policies(topic), subscription)))


class SubscriptionPoliciesInForce(TopicPoliciesInForce):
    """The same below a subscription."""


class TopicPolicyPreview(View):
    @describe("What a change of a topic's policies would do now; nothing is changed", PolicyPreviewAnswer, shapes.POLICIES_GIVEN)
    def post(self, request: Request, **parts: str) -> Response:
        topic, subscription = _named(parts)
        return Response(
            policy_views.preview(policy_views.checked_topic(self.actor(), topic, self.object_of("policies"), subscription))
        )


class SubscriptionPolicyPreview(TopicPolicyPreview):
    """The same below a subscription."""


class TenantPolicyWhatIf(View):
    @describe(_WHAT_IF, PolicyWhatIf, shapes.POLICIES_GIVEN, parameters=SPAN)
    def post(self, request: Request, tenant: str) -> Response:
        changing = policy_views.checked_tenant(self.actor(), existing(tenant), self.object_of("policies"))
        return _held_against_history(request, changing)


class NamespacePolicyWhatIf(View):
    @describe(_WHAT_IF, PolicyWhatIf, shapes.POLICIES_GIVEN, parameters=SPAN)
    def post(self, request: Request, tenant: str, namespace: str) -> Response:
        row, changes = existing_namespace(tenant, namespace), self.object_of("policies")
        return _held_against_history(request, policy_views.checked_namespace(self.actor(), row, changes))


class TopicPolicyWhatIf(View):
    @describe(_WHAT_IF, PolicyWhatIf, shapes.POLICIES_GIVEN, parameters=SPAN)
    def post(self, request: Request, **parts: str) -> Response:
        topic, subscription = _named(parts)
        changing = policy_views.checked_topic(self.actor(), topic, self.object_of("policies"), subscription)
        return _held_against_history(request, changing)


class SubscriptionPolicyWhatIf(TopicPolicyWhatIf):
    """The same below a subscription."""


def _held_against_history(request: Request, changing: PolicyChangeAsked) -> Response:
    now_ms = time.time_ns() // 1_000_000
    return Response(policy_views.held_against_history(changing, span_of(request, now_ms), now_ms))


def _named(parts: dict[str, str]) -> tuple[TopicName, str]:
    """The topic, and the subscription or ""."""
    subscription = parts.get("subscription", "")
    return topic_of(parts), subscription_of(subscription) if subscription else ""


def _held(row: Row, subscription: str) -> JsonPolicies:
    return dict(row.subscriptions.get(subscription, {})) if subscription else row.policies


def _set_on(row: Row, subscription: str) -> JsonPolicies:
    return split(_held(row, subscription)).enforced


def _in_force(policies: list[PolicyInForce]) -> shapes.PoliciesInForce:
    return shapes.PoliciesInForce(policies=[_shown(in_force) for in_force in policies])


def _shown(in_force: PolicyInForce) -> shapes.PolicyInForce:
    policy = in_force.policy
    return shapes.PolicyInForce(
        name=policy.name,
        title=policy.title,
        value=in_force.value,
        text=in_force.text,
        unit=policy.unit,
        level=in_force.level,
        set={str(level): value for level, value in in_force.set_at.items()},
        levels=list(policy.levels),
        meaning=policy.meaning,
        pulsar=policy.path,
    )
