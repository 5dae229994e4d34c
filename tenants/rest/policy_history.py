"""The history of policies: what was changed, who set what, and taking a change back, as our API has them."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from messaging.policies.validation import split
from tenants.actions import policy_history
from tenants.actions.policy_history import PolicyPlace
from tenants.models import AuditRecord
from tenants.names import namespace_of, subscription_of, topic_of
from tenants.rest import shapes
from tenants.rest.base import View, limit_of
from tenants.rest.outcome import Outcome
from tenants.rest.schema import PAGE, describe, page_of


def _place(parts: dict[str, str]) -> PolicyPlace:
    """Where the policies are that the route is about."""
    if "topic" in parts:
        subscription = parts.get("subscription", "")
        return policy_history.of_topic(topic_of(parts), subscription_of(subscription) if subscription else "")
    if "namespace" in parts:
        return policy_history.of_namespace(str(namespace_of(parts["tenant"], parts["namespace"])))
    return policy_history.of_tenant(parts["tenant"])


def _shown(record: AuditRecord) -> shapes.AuditShape:
    """Its changes are those of single policies: that there were none before, or are none now, is no change of one."""
    shape = shapes.show_audit(record)
    shape.changes = [change for change in shape.changes if "." in change.path]
    return shape


class TenantPolicyHistory(View):
    @describe("Changes of the policies that are set here, newest first", page_of(shapes.AuditShape), parameters=PAGE)
    def get(self, request: Request, **parts: str) -> Response:
        page = policy_history.history(_place(parts), limit=limit_of(request), after=request.query_params.get("after", ""))
        return Response({"items": [_shown(row) for row in page.records], "next": page.following})


class NamespacePolicyHistory(TenantPolicyHistory):
    """The same of a namespace."""


class TopicPolicyHistory(TenantPolicyHistory):
    """The same of a topic."""


class SubscriptionPolicyHistory(TenantPolicyHistory):
    """The same of a subscription."""


class TenantPolicyBlame(View):
    @describe("Which change each policy that is set here has its value from", shapes.PolicyBlames)
    def get(self, request: Request, **parts: str) -> Response:
        rows = [shapes.show_blame(*row) for row in policy_history.blame(_place(parts))]
        return Response(shapes.PolicyBlames(policies=rows))


class NamespacePolicyBlame(TenantPolicyBlame):
    """The same of a namespace."""


class TopicPolicyBlame(TenantPolicyBlame):
    """The same of a topic."""


class SubscriptionPolicyBlame(TenantPolicyBlame):
    """The same of a subscription."""


class TenantPolicyUndo(View):
    @describe(
        "Take a change of policies back: sets what was set before it, unless that was changed again since",
        shapes.POLICIES,
        shapes.UndoneChange,
        dry_run=True,
    )
    def post(self, request: Request, **parts: str) -> Response:
        given, place = self.read(shapes.UndoneChange), _place(parts)
        if self.dry_run():
            affected = {"policies": len(policy_history.undone(place, given.record))}
            return Response(Outcome(dry_run=True, action=place.action, resource=place.resource, affected=affected))
        return Response(split(policy_history.undo(self.actor(), place, given.record)).enforced)


class NamespacePolicyUndo(TenantPolicyUndo):
    """The same of a namespace."""


class TopicPolicyUndo(TenantPolicyUndo):
    """The same of a topic."""


class SubscriptionPolicyUndo(TenantPolicyUndo):
    """The same of a subscription."""
